"""Flags that state a question, in groups: the common ones, and those of the model and the mechanism that are named.

Common flags come from a table that is light to import. What applies to a pair is asked of it only where a flag is none
of these, or where help is asked for with a model.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from dpbayes_cli.spec.flags import FLAGS, LISTS, Flag

Command = TypeVar("Command", bound=Callable[..., Any])

_PREFIX, _DOT = "spec__", "__"
"""Of the names of parameters: ``spec__privacy__epsilon`` states ``privacy.epsilon``."""
_ANSWER = "Inference and output"
_GROUPS = ("Request", "Privacy", "Sampling", "Data", _ANSWER, "Ledger")
_PLACES = {
    "Request": ("spec_path", "bundle"),
    "Ledger": (
        "ledger_place",
        "stated_anchor",
        "release_id",
        "fresh",
        "same_data",
        "no_open_account",
        "analyst",
        "purpose",
        "dry_run",
    ),
}
"""The groups of a command's own options, by their parameters; all others are of its output."""
_COLUMN = 24
"""The widest names of flags beside which their text begins."""


def _listed(text: str) -> list[str]:
    try:
        (row,) = csv.reader([text], strict=True)
    except (csv.Error, ValueError):
        raise click.UsageError(f"{text!r} is not a list of texts separated by commas") from None
    return [item.strip() for item in row]


def _paired(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in text.split(","):
        key, equals, value = item.partition("=")
        if not equals or not key.strip() or key.strip() in pairs:
            raise click.UsageError(f"{text!r} is not of the form key=value,key=value")
        pairs[key.strip()] = value.strip()
    return pairs


class KeyOption(click.Option):
    """The flag of a key of a spec.

    Args:
        key: the key.
        flag: its flag.
        is_list: whether it states a list of texts.
    """

    def __init__(self, _declared: Sequence[str] = (), *, key: str, flag: Flag, is_list: bool = False) -> None:
        parse = _paired if key == "prior" else _listed if is_list or key in LISTS else str
        switch: dict[str, Any] = {"is_flag": True, "flag_value": flag.switch, "default": None} if flag.switch else {}
        name = _PREFIX + key.replace(".", _DOT)
        super().__init__(
            [*flag.names, name],
            metavar=flag.metavar or None,
            help=f"{flag.text[:1].upper()}{flag.text[1:]}.",
            type=str,
            callback=lambda _context, _parameter, value: None if value is None else parse(value),
            **switch,
        )
        self.group, self.common = flag.group, bool(flag.text) and not flag.rare


class RequestCommand(click.Command):
    """A command that is asked a question: with the flags of model and mechanism, and help in groups."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse with the common flags, then with those of the pair, then with all, so that a refusal can say whose."""
        ctx.meta[_ARGUMENTS] = list(args)
        for more in (_of_pair, _of_all):
            try:
                return super().parse_args(ctx, list(args))
            except click.NoSuchOption:
                ctx.meta[_MORE] = more(ctx)
        return super().parse_args(ctx, list(args))

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters that are known so far."""
        return [*super().get_params(ctx), *ctx.meta.get(_MORE, [])]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the common flags, or, where a model is named, what applies to it and its mechanism."""
        named = _named(ctx)
        if "model" not in named:
            super().format_help(ctx, formatter)
            return
        from dpbayes_cli.spec.foreign_options import pair_of
        from dpbayes_cli.spec.pair_flags import flags_of

        model, mechanism = pair_of(named)
        applying = [
            KeyOption(**each._asdict()) for each in flags_of(model, mechanism) if each.flag.group not in _OF_ALL
        ]
        others = [each for each in self.params if _group(each) in _OF_ALL or not isinstance(each, KeyOption)]
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            for each in (model, mechanism):
                formatter.write_text(f"{each.name}: {each.summary}.")
        _write(ctx, formatter, applying)
        formatter.write_paragraph()
        names = [each.opts[0] for each in others if each.opts[0].startswith("--")]
        formatter.write_text(f"Of any question, see {ctx.command_path} --help: {', '.join(names)}")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups; of the question's the common ones."""
        shown = [each for each in self.get_params(ctx) if not isinstance(each, KeyOption) or each.common]
        _write(ctx, formatter, shown)
        formatter.write_paragraph()
        formatter.write_text(f"For one model: {ctx.command_path} --model NAME [--mechanism NAME] --help")


def request_options(*keys: str) -> Callable[[Command], Command]:
    """Add the flags of a question (all that are common, or those of some keys); collected by ``stated``."""

    def decorate(function: Command) -> Command:
        for key in reversed(keys or tuple(FLAGS)):
            flag = FLAGS[key]
            if keys and not flag.text:
                flag = flag._replace(text=_SOMETIMES)
            function = click.option(cls=KeyOption, key=key, flag=flag)(function)
        return function

    return decorate


def stated(values: dict[str, Any]) -> dict[str, Any]:
    """Return the nested spec that flags state; removes them from ``values``."""
    document: dict[str, Any] = {}
    for name in [name for name in values if name.startswith(_PREFIX)]:
        value = values.pop(name)
        if value is None:
            continue
        place = document
        *sections, last = name.removeprefix(_PREFIX).split(_DOT)
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return document


def asked(spec_path: Path | None, flags: dict[str, Any]) -> dict[str, Any]:
    """Return what a spec file and flags state together; flags override the file.

    Raises:
        SpecError: the file cannot be read, or is no plain YAML.
    """
    if spec_path is None:
        return flags
    from dpbayes_cli.spec.yaml_reader import read_spec_file

    return merged(read_spec_file(spec_path), flags)


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return one nested document laid over another."""
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        result[key] = merged(under, value) if isinstance(value, dict) and isinstance(under, dict) else value
    return result


_ARGUMENTS, _MORE = "dpbayes_cli.arguments", "dpbayes_cli.more_flags"
_OF_ALL = {"Data", "Ledger"}
_SOMETIMES = "where the model reads it"


def _group(param: click.Parameter) -> str:
    if isinstance(param, KeyOption):
        return param.group
    return next((group for group, names in _PLACES.items() if param.name in names), _ANSWER)


def _write(ctx: click.Context, formatter: click.HelpFormatter, params: Sequence[click.Parameter]) -> None:
    """Write the records of options under the titles of their groups."""
    for group in _GROUPS:
        listed = [each for each in params if isinstance(each, click.Option) and _group(each) == group]
        rows = [row for each in listed if (row := each.get_help_record(ctx))]
        if rows:
            with formatter.section(group):
                formatter.write_dl(rows, col_max=_COLUMN, col_spacing=2)


def _named(ctx: click.Context) -> dict[str, Any]:
    """Return the model and the mechanism that the arguments name, or the spec file among them."""
    found: dict[str, Any] = {}
    arguments = ctx.meta.get(_ARGUMENTS, [])
    for name in ("spec", "model", "mechanism"):
        flag = f"--{name}"
        for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
            if argument == flag:
                found[name] = following
            elif argument.startswith(f"{flag}="):
                found[name] = argument.removeprefix(f"{flag}=")
    path = found.pop("spec", None)
    return {key: value for key, value in asked(Path(path) if path else None, found).items() if key in _NAMES}


_NAMES = {"model", "mechanism"}


def _of_pair(ctx: click.Context) -> list[KeyOption]:
    """Return the flags of the named model and mechanism that are not among the common ones."""
    named = _named(ctx)
    if "model" not in named:
        return []
    from dpbayes_cli.spec.foreign_options import pair_of
    from dpbayes_cli.spec.pair_flags import flags_of

    return [KeyOption(**each._asdict()) for each in flags_of(*pair_of(named)) if each.key not in FLAGS]


def _of_all(_ctx: click.Context) -> list[KeyOption]:
    from dpbayes_cli.spec.pair_flags import all_flags

    return [KeyOption(**each._asdict()) for each in all_flags() if each.key not in FLAGS]
