"""``dpbayes spec``: write, check and describe spec files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpbayes_cli.commands.options import PATH
from dpbayes_cli.commands.output import emit_document, emit_json, emit_result, output_options, say

_NOMINAL_RECORDS = 1000
"""The number of records that ``check`` assumes if a request states none; no result of the check depends on it."""


@click.group("spec")
def command() -> None:
    """Write, check and describe spec files: release requests in YAML."""


@command.command("init")
@click.argument("model", required=False)
@click.option("--mechanism", metavar="NAME", help="Mechanism [the model's default]; see: dpbayes models.")
@click.option("--from", "file", metavar="FILE", help="Take the columns from the header of FILE; read nothing else.")
@click.option("--not-private", is_flag=True, help="Fill in values from the data of FILE; for the custodian only.")
@click.option("--column", metavar="NAME", help="The column, with --not-private [the first that a model suits].")
def init(model: str | None, mechanism: str | None, file: str | None, not_private: bool, column: str | None) -> None:
    """Print a spec for MODEL, for the columns of FILE, or for a published table; redirect it into a file.

    \b
    dpbayes spec init normal > age.yaml
    dpbayes spec init table > table.yaml
    dpbayes spec init --from patients.csv > clinic.yaml
    dpbayes spec init --from patients.csv --not-private --column age > age.yaml

    With --not-private, each value that was read from the data has the line public_reason: null. dpbayes release, plan
    and spec check refuse the spec until you replace null by a reason that does not come from the data.
    """
    if file is None:
        if model is None or not_private or column is not None:
            raise click.UsageError("name a MODEL, or a file: dpbayes spec init --from FILE")
        from dpbayes_cli.spec.template import table_template, template

        if model == "table" and mechanism is not None:
            raise click.UsageError("the spec of a table names no mechanism: leave --mechanism out")
        emit_document(table_template() if model == "table" else template(model, mechanism))
        return
    if mechanism is not None or (column is not None and not not_private):
        raise click.UsageError("with --from FILE, leave out --mechanism, and give --column only with --not-private")
    from dpbayes_cli.check.spec_of_file import spec_of_data, spec_of_header
    from dpbayes_cli.sources.location import locate

    location = locate(file)
    emit_document(spec_of_data(location, column, model) if not_private else spec_of_header(location, model))


@command.command("check")
@click.argument("file", type=PATH)
@click.option("--against", metavar="DATA", hidden=True, help="Removed.")
@output_options
def check(file: Path, against: str | None, as_json: bool) -> None:
    """Check that FILE is a valid spec; with --json, print it with all defaults filled in."""
    from dpbayes_cli.spec.groups_section import read_release_file
    from dpbayes_cli.spec.release_spec import build_spec
    from dpbayes_cli.spec.table_spec import build_table_spec, is_table_spec
    from dpbayes_cli.workflow.pricing import price

    if against is not None:
        raise click.UsageError(f"--against was replaced: write dpbayes check {against} --spec {file}")

    document = read_release_file(file)
    if is_table_spec(document):
        build_table_spec(document)
        emit_result({"ok": True}, f"{file}: a valid spec of a table of noisy counts", as_json=as_json)
        return
    spec = build_spec(document)
    price(spec, spec.records or _NOMINAL_RECORDS)
    result: dict[str, Any] = {"ok": True, "spec": spec.stated_in_full}
    emit_result(result, f"{file}: a valid spec of {spec.model}", as_json=as_json)


@command.command("migrate")
@click.argument("file", type=PATH)
@click.option("--out", type=PATH, metavar="FILE", help="Write it here [standard output].")
def migrate(file: Path, out: Path | None) -> None:
    """Rewrite FILE with today's names of its keys and the mechanism that it meant; keep comments and order.

    \b
    dpbayes spec migrate old.yaml --out new.yaml
    """
    from dpbayes_cli.bundle.write import check_target, publish_file
    from dpbayes_cli.spec.migrate import migrate_text, unread_options, with_former_mechanism
    from dpbayes_cli.spec.yaml_reader import read_spec_text

    if out is not None:
        check_target(out)
    text, renamed = migrate_text(read_spec_text(file))
    text, mechanism = with_former_mechanism(text)
    for key in renamed:
        say(f"renamed {key.section}.{key.old} to {key.section}.{key.new}")
    if not renamed:
        say("nothing to rename")
    if mechanism is not None:
        say(f"added mechanism: {mechanism}, which was the default of earlier versions; leave it out for today's")
    for place in unread_options(text):
        say(f"warning: {place} is not used by this model and mechanism; leave it out")
    if out is None:
        emit_document(text)
    else:
        publish_file(out, text.encode("utf-8"))
        say(f"wrote {out}")


@command.command("schema")
def schema() -> None:
    """Print the JSON Schema of spec files."""
    from dpbayes_cli.spec.schema import json_schema

    emit_json(json_schema())
