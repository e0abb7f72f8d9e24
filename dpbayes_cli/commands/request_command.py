"""Flags that state a release request: the common flags, and the flags of one model and its mechanism.

The common flags come from a table that takes little time to import. The options of a model and its mechanism are
imported only if a flag is not in that table, or if help is requested for a model.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpbayes_cli.commands.options import PATH
from dpbayes_cli.spec.request_flags import FLAGS, LISTS, Flag

if TYPE_CHECKING:
    from dpbayes_cli.spec.pair_flags import KeyFlag

Command = TypeVar("Command", bound=Callable[..., Any])

_PREFIX, _DOT = "spec__", "__"
"""The value for the spec's key ``privacy.epsilon`` has the name ``spec__privacy__epsilon`` in click."""
_REQUEST, _OUTPUT = "Request", "Inference and output"
_GROUPS = (_REQUEST, "Privacy", "Sampling", "Data", _OUTPUT, "Ledger")
_SHARED_GROUPS = {"Data", "Ledger"}  # groups whose flags do not depend on the model and the mechanism
_GROUP_PARAMETERS = {
    _REQUEST: "spec_path bundle",
    "Ledger": "ledger_place stated_anchor release_id fresh same_data no_open_account analyst purpose dry_run",
}
"""The parameters in each group that are not keys of a spec; all further parameters are in "Inference and output"."""
_PAIR_KEYS = ("model", "mechanism")
_FLAG_COLUMN_WIDTH = 24  # the width of the first column of the help; the text of a longer flag begins on the next line
ARGUMENTS, _MORE_FLAGS = "dpbayes_cli.arguments", "dpbayes_cli.more_flags"

spec_option = click.option(
    "--spec", "spec_path", type=PATH, metavar="FILE", help="Spec file of the request (YAML); flags override it."
)
target_option = click.option("--target", metavar="NAME", help="Variable of a network to predict [the spec's target].")


def _parse_list(text: str) -> list[str]:
    try:
        (row,) = csv.reader([text], strict=True)
    except (csv.Error, ValueError):
        raise click.BadParameter(f"{text!r} is not a list of texts separated by commas") from None
    return [item.strip() for item in row]


def _parse_pairs(text: str) -> dict[str, Any]:
    """Parse key=value,key=value; the key may be two names, as in mean.age=0.5."""
    pairs: dict[str, Any] = {}
    for item in text.split(","):
        key, equals, value = map(str.strip, item.rpartition("="))
        section, dot, name = key.partition(".")
        within = pairs.setdefault(section, {}) if dot else pairs
        if not equals or not key or not isinstance(within, dict) or (name or section) in within:
            raise click.BadParameter(f"{text!r} is not of the form key=value,key=value, with each key once")
        within[name or section] = value
    return pairs


def _parse_keys(path: str) -> Path | str:
    from dpbayes_cli.spec.groups_section import PRIVATE

    return path if path == PRIVATE else Path(path)


class KeyOption(click.Option):
    """A flag that sets the dotted ``key`` of a spec; ``is_list`` states whether the value is a list of texts."""

    def __init__(self, _declared: Sequence[str] = (), *, key: str, flag: Flag, is_list: bool = False) -> None:
        special: dict[str, Callable[[str], Any]] = {
            "prior": _parse_pairs,
            "by.column": lambda text: _parse_list(text) if "," in text else text,
            "by.values": _parse_keys,
        }
        parse = special.get(key, _parse_list if is_list or key in LISTS else str)
        switch: dict[str, Any] = {"is_flag": True, "flag_value": flag.switch, "default": None}

        def value_of(_context: click.Context, _parameter: click.Parameter, given: Any) -> Any:
            """Parse the value; the last one counts, as in other tools, but two columns of keys are no correction."""
            values = given if isinstance(given, tuple) else (given,)
            if len(set(values)) > 1:
                both = ",".join(values)
                raise click.UsageError(f"{flag.names[0]} is given {len(values)} times; for two levels: --by {both}")
            return parse(values[0]) if values and values[0] is not None else None

        name = _PREFIX + key.replace(".", _DOT)
        super().__init__(
            [*flag.names, name],
            metavar=flag.metavar or None,
            help=f"{flag.text[:1].upper()}{flag.text[1:]}.",
            type=str,
            callback=value_of,
            **(switch if flag.switch else {"multiple": key == "by.column"}),
        )
        self.key, self.group, self.common = key, flag.group, bool(flag.text) and not flag.rare


class RequestCommand(click.Command):
    """A command with flags for a release request: it accepts the flags of the named model, and groups its help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse with the common flags; after an unknown flag, add the flags of the named model, then all flags.

        A flag that only another mechanism has is parsed in the last round, so that the refusal can name that mechanism.
        """
        ctx.meta[ARGUMENTS] = list(args)
        for more_flags in (_pair_flags, _all_flags):
            try:
                return super().parse_args(ctx, list(args))
            except click.NoSuchOption:
                ctx.meta[_MORE_FLAGS] = more_flags(ctx)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own parameters and the flags that were added while parsing."""
        return [*super().get_params(ctx), *ctx.meta.get(_MORE_FLAGS, [])]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the common flags or, if a model is named, the flags of that model and its mechanism."""
        pair = _named_pair(ctx)
        if "model" not in pair:
            super().format_help(ctx, formatter)
            return
        from dpbayes_cli.spec.foreign_options import pair_of
        from dpbayes_cli.spec.pair_flags import flags_of

        model, mechanism = pair_of(pair)
        options = [each for each in _options(flags_of(model, mechanism)) if each.group not in _SHARED_GROUPS]
        others = [each for each in self.params if _group(each) in _SHARED_GROUPS or not isinstance(each, KeyOption)]
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            for method in (model, mechanism):
                formatter.write_text(f"{method.name}: {method.summary}.")
        _write_groups(ctx, formatter, options)
        formatter.write_paragraph()
        names = [each.opts[0] for each in others if each.opts[0].startswith("--")]
        formatter.write_text(f"For every model (see {ctx.command_path} --help): {', '.join(names)}")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups; leave out the rare flags of a spec."""
        shown = [each for each in self.get_params(ctx) if not isinstance(each, KeyOption) or each.common]
        _write_groups(ctx, formatter, shown)
        formatter.write_paragraph()
        formatter.write_text(f"More flags of a model: {ctx.command_path} --model NAME [--mechanism NAME] --help")


def request_options(*keys: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the flags of these keys of a spec; all common flags if no key is given."""

    def decorate(function: Command) -> Command:
        for key in reversed(keys or tuple(FLAGS)):
            flag = FLAGS[key]
            if keys and not flag.text:
                flag = flag._replace(text="only for models that have this option")
            function = click.option(cls=KeyOption, key=key, flag=flag)(function)
        return function

    return decorate


def pop_document(values: dict[str, Any]) -> dict[str, Any]:
    """Return the spec that flags state, as nested dictionaries, and remove the flags from ``values``."""
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


def read_document(spec_path: Path | None, flags: dict[str, Any]) -> dict[str, Any]:
    """Return the spec that a file and flags state together, as nested dictionaries; flags override the file."""
    from dpbayes_cli.spec.groups_section import read_keys, read_release_file

    document = flags if spec_path is None else merge(read_release_file(spec_path), flags)
    by = document.get("by")
    if isinstance(by, dict) and isinstance(by.get("values"), Path):  # from the flag --groups
        by["values"] = read_keys(by["values"], by.get("column"))
    return document


def pop_request(spec_path: Path | None, flags: dict[str, Any]) -> dict[str, Any]:
    """Return the spec that a file and flags state together, and remove the flags from ``flags``."""
    return read_document(spec_path, pop_document(flags))


def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return the union of two nested dictionaries; if both have a value for a key, take the value in ``above``."""
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        result[key] = merge(under, value) if isinstance(value, dict) and isinstance(under, dict) else value
    return result


def parse_count(records: Any, allowed: range, message: str) -> int:
    """Return the number of records that a flag or a spec states; refuse all but the allowed integers."""
    try:
        n_records = int(str(records))
    except ValueError:
        n_records = -1
    if n_records not in allowed:
        raise click.UsageError(message)
    return n_records


def _group(param: click.Parameter) -> str:
    if isinstance(param, KeyOption):
        return param.group
    return next((group for group, names in _GROUP_PARAMETERS.items() if param.name in names.split()), _OUTPUT)


def _write_groups(ctx: click.Context, formatter: click.HelpFormatter, params: Sequence[click.Parameter]) -> None:
    for group in _GROUPS:
        options = [each for each in params if isinstance(each, click.Option) and _group(each) == group]
        rows = [row for each in options if (row := each.get_help_record(ctx))]
        if rows:
            with formatter.section(group):
                formatter.write_dl(rows, col_max=_FLAG_COLUMN_WIDTH, col_spacing=2)


def _named_pair(ctx: click.Context) -> dict[str, Any]:
    """Return the model and the mechanism that are named in the arguments or in their spec file."""
    known = [click.Option([f"--{name}"]) for name in ("spec", *_PAIR_KEYS)]
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    parser = click.Command("pair", params=[*known], context_settings=settings, add_help_option=False)
    stated = parser.make_context("pair", list(ctx.meta.get(ARGUMENTS, [])), resilient_parsing=True).params
    path = stated.pop("spec")
    document = read_document(Path(path) if path else None, {key: name for key, name in stated.items() if name})
    return {key: value for key, value in document.items() if key in _PAIR_KEYS}


def _pair_flags(ctx: click.Context) -> list[KeyOption]:
    """Return the flags of the named model and mechanism that are not among the common ones."""
    pair = _named_pair(ctx)
    if "model" not in pair:
        return []
    from dpbayes_cli.spec.foreign_options import pair_of
    from dpbayes_cli.spec.pair_flags import flags_of

    return [each for each in _options(flags_of(*pair_of(pair))) if each.key not in FLAGS]


def _all_flags(_ctx: click.Context) -> list[KeyOption]:
    from dpbayes_cli.spec.pair_flags import all_flags

    return [each for each in _options(all_flags()) if each.key not in FLAGS]


def _options(flags: Iterable[KeyFlag]) -> list[KeyOption]:
    return [KeyOption(**flag._asdict()) for flag in flags]
