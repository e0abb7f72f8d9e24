"""``dpbayes release``: release a private posterior of data, as a bundle on disk."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.accounts import components
from dpbayes_cli.commands.options import PATH, ledger_option, open_ledger
from dpbayes_cli.commands.output import detail, emit, emit_json, output_options, posterior_lines, printable, say
from dpbayes_cli.commands.progress import reading_shown
from dpbayes_cli.commands.request_command import (
    RequestCommand,
    pop_document,
    read_document,
    request_options,
    spec_option,
)

if TYPE_CHECKING:
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.sources.location import Location
    from dpbayes_cli.spec.release_spec import ReleaseSpec
    from dpbayes_cli.workflow.prepare import PreparedRelease
    from dpbayes_cli.workflow.release import PublishedRelease

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", re.ASCII)


@click.command("release", cls=RequestCommand)
@click.argument("data", nargs=-1)
@spec_option
@request_options()
@click.option("--out", type=PATH, metavar="DIR", help="Directory of the bundle [./dpbayes-ID].")
@ledger_option
@click.option("--release-id", metavar="NAME", help="Name of this release; each name is charged only once.")
@click.option("--fresh", is_flag=True, help="Draw again, and pay again, for an earlier release.")
@click.option("--same-data", is_flag=True, help="DATA were moved, not changed: show the old release.")
@click.option("--no-open-account", is_flag=True, help="Fail if the account is not open yet (for cron).")
@click.option("--analyst", metavar="NAME", help="Analyst to charge, if the account has limits per analyst.")
@click.option("--purpose", default="", metavar="TEXT", help="Purpose of the release; kept in the history.")
@click.option("--dry-run", is_flag=True, help="Only show the cost; exit 5 if the account cannot pay.")
@output_options
def command(
    data: tuple[str, ...],
    spec_path: Path | None,
    out: Path | None,
    ledger_place: str | None,
    release_id: str | None,
    fresh: bool,
    same_data: bool,
    no_open_account: bool,
    analyst: str | None,
    purpose: str,
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Release a private posterior of DATA, in a bundle to publish.

    \b
    dpbayes release data.csv --model beta-bernoulli --eps 1
    dpbayes release data.parquet --spec clinic.yaml --out out/ --json
    dpbayes release postgresql://ada@db/clinic/patients --spec clinic.yaml

    DATA: files, globs, - (standard input) or a PostgreSQL table. A smaller epsilon protects more, and makes estimates
    less precise; dpbayes plan shows by how much. If a run is killed, the same command finishes the release
    without a second charge or draw. After that, it shows the release again.
    """
    from dpbayes_cli.base.address_space import check_address_space

    check_address_space()  # before OpenDP and DuckDB are loaded, and before anything is charged
    from dpbayes_cli.base.process_hardening import disable_core_dumps
    from dpbayes_cli.workflow.assumed import assumed_values
    from dpbayes_cli.workflow.prepare import ReleaseOptions, prepare
    from dpbayes_cli.workflow.release import release

    if release_id is not None and not _LABEL.fullmatch(release_id):
        raise click.UsageError("--release-id takes at most 128 letters, digits, '.', '_', ':' and '-'")
    if purpose != printable(purpose):
        raise click.UsageError("--purpose holds a control character")
    if fresh and release_id is not None:
        raise click.UsageError("--fresh and --release-id exclude each other: a new --release-id is a new draw")
    disable_core_dumps()
    stated = read_document(spec_path, pop_document(flags))
    spec, location = _read_request(data, spec_path, stated)
    options = ReleaseOptions(release_id, fresh, same_data, not no_open_account, purpose, out, analyst)
    ledger = open_ledger(ledger_place)
    with prepare(spec, location, options, ledger) as prepared:
        detail(f"ledger: {ledger.location}")
        if dry_run:
            _show_cost(prepared, ledger, as_json=as_json)
            return
        say(_in_lines(f"assumed: {'; '.join(assumed_values(prepared, stated))}"))
        with reading_shown():
            outcome = release(prepared, ledger, say)
    if as_json:
        emit_json(_document(outcome))
    else:
        _show(outcome)


def _read_request(
    data: tuple[str, ...], spec_path: Path | None, stated: dict[str, Any]
) -> tuple[ReleaseSpec, Location]:
    """Check the stated request and find the data; a path in a spec file is relative to the file."""
    from dpbayes_cli.base.errors import SpecError
    from dpbayes_cli.sources.location import is_remote
    from dpbayes_cli.spec.release_spec import build_spec
    from dpbayes_cli.workflow.release_data import locate_data

    spec = build_spec(stated)
    if not data and spec.data is None:
        raise SpecError("no data set is named", where="data", hint="dpbayes release DATA, or data: FILE in the spec")
    if not data:
        base = spec_path.parent if spec_path is not None else Path()
        named = (spec.data,) if isinstance(spec.data, str) else spec.data or ()
        data = tuple(name if name == "-" or is_remote(name) else str(base / name) for name in named)
    return spec, locate_data(spec.source, *data)


def _in_lines(text: str) -> str:
    """Return a text in lines of at most 80 characters."""
    import textwrap

    return textwrap.fill(text, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _show_cost(prepared: PreparedRelease, ledger: Ledger, *, as_json: bool) -> None:
    """Print what a release would cost; only the header of the data is read, and nothing is charged."""
    import msgspec

    from dpbayes_cli.bundle.assemble import guarantee_part
    from dpbayes_cli.ledger.budgets import component_texts
    from dpbayes_cli.ledger.charging import price_text

    preview = ledger.preview(prepared.charge)
    if preview.known is None:
        prepared.data.open_source()
    step, private = prepared.plan.final_step, prepared.plan.bounds
    names = step.statistic.names
    scales = {} if step.draws else dict(zip(names, step.noise.scales(len(names)), strict=True))
    document = {
        "release_id": preview.release_id,
        "account": prepared.charge.account,
        "model": prepared.model.name,
        "mechanism": prepared.mechanism.name,
        "statistics": [{"name": name, "noise_scale": scale} for name, scale in scales.items()],
        "parameters": dict(prepared.plan.parameters),
        "sensitivity_l1": None if step.rows else step.statistic.sensitivity_l1,
        "guarantee": msgspec.to_builtins(
            guarantee_part(prepared.plan.guarantee, prepared.spec.privacy.neighbors, Decimal(0))
        ),
        "already_charged": preview.known is not None,
        "remaining": component_texts(preview.remaining),
    }
    if as_json:
        emit_json(document)
        return
    cost = "nothing: it is charged already" if preview.known else price_text(prepared.plan.guarantee)
    emit(f"would cost {cost}, from account {prepared.charge.account}{' (to be opened)' if preview.opened else ''}")
    if private is not None and preview.known is None:
        emit(f"private bounds cost {price_text(private.guarantee)} of this; the noise scale is for the widest bounds")
    if step.draws:
        what = "estimates of the posterior's mode" if prepared.mechanism.estimates else "posterior draws"
        emit(f"{step.draws} {what}: {components(prepared.plan.parameters)}")
    else:
        emit(f"noise scale {step.noise.scale:.6g} counts, on {len(names)} statistic{'s' * (len(names) != 1)}")
    emit(f"would remain: {components(document['remaining'])}")


def _document(outcome: PublishedRelease) -> dict[str, Any]:
    """Return the JSON document of a release; its keys are stable."""
    from dpbayes_cli.ledger.budgets import component_texts

    public = json.loads(outcome.document.payload())
    copied = ("release_id", "account", "model", "mechanism", "statistics", "bounds", "guarantee", "posterior")
    return {
        **{key: public[key] for key in copied if key in public},
        "bundle": str(outcome.bundle),
        "remaining": component_texts(outcome.remaining),
        "replayed": outcome.replayed,
        "receipt": {"sequence": outcome.sequence, "head": outcome.head},
    }


def _show(outcome: PublishedRelease) -> None:
    from dpbayes_cli.bundle.report.wording import are_estimates, bounds_text, guarantee_text
    from dpbayes_cli.ledger.budgets import component_texts

    document = outcome.document
    guarantee = document.guarantee
    emit(f"release   {document.release_id}")
    emit(f"bundle    {outcome.bundle}")
    emit(f"guarantee {guarantee_text(guarantee)}, {guarantee.neighbors} ({guarantee.kind})")
    if bounds := bounds_text(document):
        emit(f"bounds    {bounds}")
    head = "estimate" if are_estimates(document) else "posterior"
    for line in posterior_lines(document.posterior, document.inference.warnings, head):
        emit(line)
    emit(f"remaining {components(component_texts(outcome.remaining))} in account {document.account}")
    emit(f"receipt   entry {outcome.sequence}, head {outcome.head}")
