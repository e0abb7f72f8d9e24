"""``dpbayes check``: look at a file before a release. NOT PRIVATE."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.base.errors import Interrupted, SpecError
from dpbayes_cli.commands.output import emit, emit_document, emit_json, emit_table, line_width, output_options
from dpbayes_cli.commands.progress import reading_shown
from dpbayes_cli.commands.request_command import ARGUMENTS, RequestCommand, pop_request, request_options, spec_option

if TYPE_CHECKING:
    from dpbayes_cli.check.column_profile import ColumnProfile
    from dpbayes_cli.check.file_check import FileCheck

_NOT_PRIVATE = "NOT PRIVATE: this shows the data; keep it to yourself; nothing is charged"
_LONG = 60  # texts with more characters are cut
_SHOWN = 3


@click.command("check", cls=RequestCommand)
@click.argument("data", metavar="[FILE]", required=False)
@spec_option
@request_options()
@output_options
def command(data: str | None, spec_path: Path | None, as_json: bool, **flags: Any) -> None:
    """Look at FILE before a release: NOT PRIVATE, for the custodian only.

    \b
    dpbayes check data.csv
    dpbayes check data.csv --model beta-bernoulli --column relapsed
    dpbayes check --spec clinic.yaml

    Prints encoding, separator, columns and ranges, the cells that a spec would not read, and what to do about them.
    Nothing is written or charged.
    """
    from dpbayes_cli.check.file_check import check_file
    from dpbayes_cli.sources.location import locate
    from dpbayes_cli.spec.release_spec import build_spec, convert_layout

    document = pop_request(spec_path, flags)
    if data is None:
        if spec_path is None or not isinstance(document.get("data"), str):
            raise click.UsageError("no file is named: dpbayes check FILE, or data: FILE in the spec")
        data = str(spec_path.parent / document["data"])
    spec = None
    mistakes: tuple[SpecError, ...] = ()
    if document.keys() - {"source", "column"}:
        try:
            spec = build_spec(document)
        except SpecError as error:
            mistakes = error.mistakes
    column, model = document.get("column"), document.get("model")
    layout = convert_layout(document.get("source", {}))
    try:
        with reading_shown("checking"):
            stated = [column] if isinstance(column, str) else []
            named = model if isinstance(model, str) else None
            check = check_file(locate(data), spec, stated, layout, named, _kept(document))
    except Interrupted as error:
        hint = "the check was stopped before it was done; it wrote and charged nothing, so run it again"
        raise Interrupted(error.signal, hint) from None
    for each in mistakes:
        hint = each.hint or ""
        remedy = "fill in the spec below" if "\n" in hint and check.suggestion else hint
        message = each.message.replace(": missing", " is missing")  # what follows a colon is to be typed
        check.advice.append(f"the request is not complete; {message}; {remedy}".rstrip("; "))
    if as_json:
        emit_json(_document(check))
    else:
        has_cost = document.get("privacy", {}).keys() - {"neighbors", "unit", "max_contributions"}
        given = [*click.get_current_context().meta[ARGUMENTS], *([] if has_cost else ["--eps", "1"])]
        _show(data, check, [] if mistakes else given)


def _kept(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return whom the user wants to protect, and the groups: the suggested spec must state them, too."""
    sections = {"privacy": ("neighbors", "unit"), "by": ("column",)}
    stated = {name: document[name] for name in sections if isinstance(document.get(name), dict)}
    return {name: {key: section[key] for key in sections[name] if key in section} for name, section in stated.items()}


def _document(check: FileCheck) -> dict[str, Any]:
    from dpbayes_cli.check.suggested_spec import suggested_model

    layout = None if check.layout is None else asdict(check.layout)
    return {
        "NOT PRIVATE": _NOT_PRIVATE.partition(": ")[2],
        "layout": layout,
        "records": check.records,
        "wrong_lines": check.wrong_lines,
        "columns": [
            {
                "name": column.name,
                "missing": column.missing,
                "numbers": column.numbers,
                "lowest": column.lowest if column.numbers else None,
                "highest": column.highest if column.numbers else None,
                "distinct": column.distinct,
                "commonest": [{"text": text, "records": n} for text, n in column.commonest],
                "model": suggested_model(column) or None,
            }
            for column in check.columns
        ],
        "checked": [
            {**asdict(column), "commonest": [{"text": text, "records": n} for text, n in column.commonest]}
            for column in check.checked
        ],
        "valid": check.valid,
        "refusal": check.refusal or None,
        "advice": check.advice,
        "spec": check.suggestion or None,
    }


def _show(data: str, check: FileCheck, flags: Sequence[str]) -> None:
    from dpbayes_cli.check.suggested_spec import suggested_model

    emit(_NOT_PRIVATE)
    layout = check.layout
    about = (
        "Parquet" if layout is None else f"{layout.encoding}, delimiter {layout.delimiter!r}, quote {layout.quote!r}"
    )
    if layout is not None and layout.mixed_ends:
        about += ", some lines end with CR LF, others with LF"
    n = len(check.columns)
    emit(f"{Path(data).name}: {check.records} records, {n} column{'s' * (n != 1)}, {about}")
    emit("")
    wanted = {each.name for each in check.checked} or {each.name for each in check.columns}
    shown = [each for each in check.columns if each.name in wanted]
    rows = [
        [each.name, *_described(each), str(each.missing), "" if check.checked else suggested_model(each)]
        for each in shown
    ]
    emit_table(["column", "kind", "range or commonest texts", "missing", "model"], rows)
    if len(shown) < n:
        more = n - len(shown)
        emit(f"{more} more column{'s' * (more != 1)}; to see them, leave out --model, --column and --spec")
    if check.refusal:
        emit("")
        emit(f"a release with these flags refuses the file: {check.refusal}")
    for each in check.checked:
        emit("")
        can = "could" if check.refusal else "can"
        emit(f"{each.name}: {each.records - each.invalid} of {each.records} cells {can} be read")
        if each.invalid:
            emit(f"  cannot be read: {_texts(each.commonest)}")
        _show_advice(each.advice)
    if check.valid is not None:
        emit("")
        can = "could" if check.refusal else "can"
        emit(f"{check.valid} of {check.records} records {can} be read in all of these columns")
    if check.advice:
        emit("")
        emit("what to do")
        _show_advice(check.advice)
    if check.checked and flags and not check.refusal:
        emit("")
        emit("what to expect from a release, at no cost:")
        emit_document("  " + _command_lines(["dpbayes plan", *_grouped(flags, but=data), f"--records {check.records}"]))
    if check.checked and flags and not (check.refusal or check.advice) and all(each.is_ready for each in check.checked):
        emit("the release:")
        emit_document("  " + _command_lines(["dpbayes release", *_grouped(flags)]))
    if check.suggestion:
        _show_suggestion(data, check)


def _show_suggestion(data: str, check: FileCheck) -> None:
    """Print the suggested spec, the command that does without it, and what else the user may ask of the file."""
    from dpbayes_cli.check.suggested_spec import release_command

    emit("")
    emit("a spec to start from, as dpbayes spec init --from FILE --not-private writes it:")
    for line in check.suggestion.splitlines():
        emit(f"  {line}")
    if parts := release_command(data, check.suggestion):
        is_complete = not any(f"--{key} {key.upper()}" in parts for key in ("lower", "upper"))
        emit(f"or without a spec{'' if is_complete else ', with public knowledge in place of capitals'}:")
        emit_document("  " + _command_lines(parts))
    elif "model: " in check.suggestion:
        emit("once it is complete, in a file SPEC; the first command says what to expect, at no cost:")
        emit(f"  dpbayes plan --spec SPEC --records {check.records}\n  dpbayes release --spec SPEC")
    if others := _other_questions(data, check):
        emit("other questions:")
        _show_advice(others)


def _other_questions(data: str, check: FileCheck) -> list[str]:
    """Return what else a user may ask of a file of several columns, each with the command or the flags for it."""
    from dpbayes_cli.check.suggested_spec import kind_of, usual_model
    from dpbayes_cli.spec.yaml_reader import parse_yaml

    if len(check.columns) == 1:
        return []
    questions, command = list[str](), f"dpbayes check {shlex.quote(data)}"
    for each in check.columns:
        is_asked = each.name == parse_yaml(check.suggestion).get("column") and not each.may_be_id
        if model := usual_model(kind_of(each), of_target=True) if is_asked else "":
            flags = f"--model {model} --column {shlex.quote(each.name)}"
            questions.append(f"how {each.name} depends on other columns: {command} {flags}")
    questions.append(f"another column: {command} --column NAME")
    if (column := _column_of_groups(check)) and "\nby:" not in check.suggestion:
        questions.append(f"one result for each text of {column}: --by {shlex.quote(column)} --groups FILE")
    return questions


def _column_of_groups(check: FileCheck) -> str:
    """Return the name of a column of few texts, those with few missing cells first; empty if there is none."""
    from dpbayes_cli.check.suggested_spec import kind_of

    suited = [each for each in check.columns if kind_of(each) in {"texts", "two texts"} and not each.is_numeric]
    others = [each for each in suited if f'\ncolumn: "{each.name}"' not in check.suggestion]
    return min(others, key=lambda each: (each.missing, -each.distinct)).name if others else ""


def _grouped(flags: Sequence[str], but: str = "") -> list[str]:
    """Return the arguments of a command, quoted for a shell, each flag with its value; ``but`` is left out."""
    parts: list[str] = []
    for each in flags:
        if each == but:
            continue
        if parts and parts[-1].startswith("--") and " " not in parts[-1] and not each.startswith("--"):
            parts[-1] += f" {shlex.quote(each)}"
        else:
            parts.append(shlex.quote(each))
    return parts


def _command_lines(parts: Sequence[str]) -> str:
    """Return a command in lines that fit the terminal and can be copied to a shell."""
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 7 > line_width():  # 4 blanks before, a backslash, and two blanks
            lines.append(part)
        else:
            lines[-1] += f" {part}"
    return " \\\n    ".join(lines)


def _show_advice(advice: Sequence[str]) -> None:
    """Print advice; what to type stands on a line of its own rather than broken over two, so that it can be copied."""
    for line in advice:
        text, _, command = line.rpartition(": ")
        breaks = text and len(line) + 2 > line_width() >= len(command) + 4
        emit(indent(f"{text}:\n  {command}" if breaks else line, "  "))


def _described(column: ColumnProfile) -> tuple[str, str]:
    """Return what kind of values a column holds, and their range or the commonest of them."""
    from dpbayes_cli.check.column_profile import COMMONEST

    if column.missing == column.records:
        return "empty", ""
    if (len(column.commonest) <= 2 and not column.is_numeric) or column.distinct <= 2:
        return f"{len(column.commonest)} values", _texts(column.commonest)
    if column.is_numeric:
        kind = "whole numbers" if column.whole == column.numbers else "numbers"
        others = column.records - column.missing - column.numbers
        return kind, f"{column.lowest:g} to {column.highest:g}" + (f"; {others} are no numbers" if others else "")
    about = "" if column.distinct < COMMONEST else "about "
    return f"{about}{column.distinct} texts", _texts(column.commonest)


def _texts(commonest: tuple[tuple[str, int], ...]) -> str:
    """Return the commonest texts, each with the number of cells that hold it."""
    shown = [f"{_cut(text) or '(empty)'} ({n})" for text, n in commonest[:_SHOWN]]
    return ", ".join(shown) + (", ..." if len(commonest) > _SHOWN else "")


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"
