"""``dpbayes spec``: write, check and describe spec files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpbayes_cli.commands.options import PATH
from dpbayes_cli.commands.output import emit, emit_json, emit_result, output_options, say

_NOMINAL_RECORDS = 1000
"""The number of records with which ``check`` prices a request that states no number; the check is the same for any."""


@click.group("spec")
def command() -> None:
    """Write, check and describe spec files: release requests in YAML."""


@command.command("init")
@click.argument("model")
@click.option("--mechanism", metavar="NAME", help="Mechanism [the model's default]; see: dpbayes models.")
def init(model: str, mechanism: str | None) -> None:
    """Print a commented spec for MODEL; redirect it into a file."""
    from dpbayes_cli.spec.template import template

    emit(template(model, mechanism), nl=False)


@command.command("check")
@click.argument("file", type=PATH)
@click.option(
    "--against",
    metavar="DATA",
    help="Count the valid and the invalid records of DATA. The counts are NOT PRIVATE: for the custodian only.",
)
@output_options
def check(file: Path, against: str | None, as_json: bool) -> None:
    """Check that FILE is a valid spec; with --json, print it with all defaults filled in."""
    from dpbayes_cli.spec.release_spec import build_spec
    from dpbayes_cli.spec.yaml_reader import read_spec_file
    from dpbayes_cli.workflow.data_check import count_valid
    from dpbayes_cli.workflow.pricing import price

    spec = build_spec(read_spec_file(file))
    price(spec, spec.records or _NOMINAL_RECORDS)
    result: dict[str, Any] = {"ok": True, "spec": spec.stated_in_full}
    if against is not None:
        from dpbayes_cli.workflow.release_data import locate_data

        result["NOT PRIVATE"] = count_valid(spec, locate_data(spec.source, against))
    lines = [f"{file}: a valid spec of {spec.model}"]
    if against is not None:
        lines.append("NOT PRIVATE: exact counts of the data; show them only to people who may see the data")
        lines += [f"  {name}: {count}" for name, count in result["NOT PRIVATE"].items()]
    emit_result(result, *lines, as_json=as_json)


@command.command("migrate")
@click.argument("file", type=PATH)
@click.option("--out", type=PATH, metavar="FILE", help="Write it here [standard output].")
def migrate(file: Path, out: Path | None) -> None:
    """Rewrite FILE with today's names of its keys; keep comments and order.

    \b
    dpbayes spec migrate old.yaml --out new.yaml
    """
    from dpbayes_cli.bundle.write import check_target, publish_file
    from dpbayes_cli.spec.migrate import migrated, unread_options
    from dpbayes_cli.spec.yaml_reader import read_spec_text

    if out is not None:
        check_target(out)
    text, renamed = migrated(read_spec_text(file))
    for key in renamed:
        say(f"renamed {key.section}.{key.old} to {key.section}.{key.new}")
    if not renamed:
        say("nothing to rename")
    for place in unread_options(text):
        say(f"warning: {place} is not used by this model and mechanism; leave it out")
    if out is None:
        emit(text, nl=False)
    else:
        publish_file(out, text.encode("utf-8"))
        say(f"wrote {out}")


@command.command("schema")
def schema() -> None:
    """Print the JSON Schema of spec files."""
    from dpbayes_cli.spec.schema import json_schema

    emit_json(json_schema())
