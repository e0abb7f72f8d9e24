"""``dpbayes release``: one private posterior, from data to disk."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.options import ledger_option, open_ledger
from dpbayes_cli.commands.output import detail, emit, emit_json, output_options, printable, say
from dpbayes_cli.commands.progress import reading_shown
from dpbayes_cli.commands.request_flags import RequestCommand, asked, request_options, stated

if TYPE_CHECKING:
    from dpbayes_cli.core.plan import Step
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.sources.location import Location
    from dpbayes_cli.spec.release_spec import ReleaseSpec
    from dpbayes_cli.workflow.prepare import PreparedRelease
    from dpbayes_cli.workflow.release import Outcome

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", re.ASCII)


@click.command("release", cls=RequestCommand)
@click.argument("data", nargs=-1)
@click.option(
    "--spec", "spec_path", type=click.Path(path_type=Path), metavar="FILE", help="A YAML spec; flags override it."
)
@request_options()
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="The bundle [./dpbayes-ID].")
@ledger_option
@click.option("--release-id", metavar="NAME", help="Name this release; the same name is never charged twice.")
@click.option("--fresh", is_flag=True, help="Pay for a new draw of a question that was answered.")
@click.option("--same-data", is_flag=True, help="The data are those of the earlier release: show it.")
@click.option("--no-open-account", is_flag=True, help="Refuse an account that is not open yet (for cron).")
@click.option("--analyst", metavar="NAME", help="Who asks, where the account has limits of analysts.")
@click.option("--purpose", default="", metavar="TEXT", help="Why, for the ledger's history.")
@click.option("--dry-run", is_flag=True, help="Price it, read no record; exit 5 if it does not fit.")
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
    """Release a private posterior from DATA: files and globs (one data set together), -, or a table's address.

    \b
    dpbayes release data.csv --model beta-bernoulli --eps 1
    dpbayes release data.parquet --spec clinic.yaml --out out/ --json
    dpbayes release postgresql://ada@db/clinic/patients --spec clinic.yaml

    Killed at any moment, the same command finishes the same release: one charge, one draw. Asked twice, it shows it
    again, free. One account (--dataset) is one population: data that another has paid for are refused.
    """
    from dpbayes_cli.base.address_space import check_address_space

    check_address_space()  # before OpenDP and DuckDB are loaded, and before anything is charged
    from dpbayes_cli.base.process_hardening import no_core_dumps
    from dpbayes_cli.workflow.prepare import ReleaseOptions, prepare
    from dpbayes_cli.workflow.release import release

    if release_id is not None and not _LABEL.fullmatch(release_id):
        raise click.UsageError("--release-id takes letters, digits, '.', '_', ':' and '-', at most 128")
    if purpose != printable(purpose):
        raise click.UsageError("--purpose holds a control character")
    if fresh and release_id is not None:
        raise click.UsageError("--fresh and --release-id exclude each other: another --release-id is a new draw")
    no_core_dumps()
    spec, location = _stated_release(data, spec_path, stated(flags))
    options = ReleaseOptions(release_id, fresh, same_data, not no_open_account, purpose, out, analyst)
    ledger = open_ledger(ledger_place)
    with prepare(spec, location, options, ledger) as prepared:
        detail(f"ledger: {ledger.location}")
        if dry_run:
            _price(prepared, ledger, as_json=as_json)
            return
        say(f"assumed: {', '.join(_assumed(prepared))}")
        with reading_shown():
            outcome = release(prepared, ledger, say)
    if as_json:
        emit_json(_document(outcome))
    else:
        _show(outcome)


def _stated_release(
    data: tuple[str, ...], spec_path: Path | None, flags: dict[str, Any]
) -> tuple[ReleaseSpec, Location]:
    """Read the spec and find the data; flags override the file, and a path in the file is relative to it."""
    from dpbayes_cli.base.errors import SpecError
    from dpbayes_cli.sources.location import is_remote
    from dpbayes_cli.spec.release_spec import build_spec
    from dpbayes_cli.workflow.release_data import located

    spec = build_spec(asked(spec_path, flags))
    if not data and spec.data is None:
        raise SpecError("no data are named", where="data", hint="dpbayes release DATA, or a key data: in the spec")
    if not data:
        base = spec_path.parent if spec_path is not None else Path()
        named = (spec.data,) if isinstance(spec.data, str) else spec.data or ()
        data = tuple(name if name == "-" or is_remote(name) else str(base / name) for name in named)
    return spec, located(spec.source, *data)


def _assumed(prepared: PreparedRelease) -> list[str]:
    """Return what was not stated but matters."""
    spec, private = prepared.spec, prepared.plan.bounds
    return [
        f"account {prepared.charge.account}",
        f"{spec.privacy.neighbors} neighbors",
        *([] if spec.privacy.unit is None else [f"privacy unit {spec.privacy.unit.column!r}"]),
        f"invalid records: {spec.on_invalid}",
        f"mechanism {spec.mechanism}",
        *([] if private is None else [f"bounds near the {private.described()} of the data"]),
        *(
            f"{name} {prepared.plan.parameters[name]}"
            for name in ("support", "power_applies_to")
            if name in prepared.plan.parameters
        ),
    ]


def _noise_scales(step: Step) -> list[tuple[str, float]]:
    """Return the scale of the noise on each statistic, by its name."""
    names = step.statistic.names
    return list(zip(names, step.noise.scales(len(names)), strict=True))


def _price(prepared: PreparedRelease, ledger: Ledger, *, as_json: bool) -> None:
    """Print what a release would cost; nothing is opened, charged or read but the header."""
    import msgspec

    from dpbayes_cli.bundle.assemble import guarantee_part
    from dpbayes_cli.ledger.budgets import component_texts
    from dpbayes_cli.ledger.charging import price_text

    preview = ledger.preview(prepared.charge)
    if preview.known is None:
        prepared.data.opened()
    step, private = prepared.plan.final_step, prepared.plan.bounds
    document = {
        "release_id": preview.release_id,
        "account": prepared.charge.account,
        "model": prepared.model.name,
        "mechanism": prepared.mechanism.name,
        "statistics": [
            {"name": name, "noise_scale": scale} for name, scale in ([] if step.draws else _noise_scales(step))
        ],
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
    price = "nothing: it is charged already" if preview.known else price_text(prepared.plan.guarantee)
    emit(f"would cost {price}, from account {prepared.charge.account}{' (to be opened)' if preview.opened else ''}")
    if private is not None and preview.known is None:
        emit(f"of which the bounds {price_text(private.guarantee)}; noise scales are those of the widest bounds")
    if step.draws:
        what = "estimates of the posterior's mode" if prepared.mechanism.estimates else "posterior draws"
        emit(f"{step.draws} {what}: {_components(prepared.plan.parameters)}")
    else:
        emit(f"noise scale {step.noise.scale:.6g} counts on {len(step.statistic.names)} statistics")
    emit(f"would remain: {_components(document['remaining'])}")


def _document(outcome: Outcome) -> dict[str, Any]:
    """Return the result for other programs; the names are stable."""
    from dpbayes_cli.ledger.budgets import component_texts

    public = outcome.document.builtins()
    return {
        "release_id": public["release_id"],
        "account": public["account"],
        "bundle": str(outcome.bundle),
        "model": public["model"],
        "mechanism": public["mechanism"],
        "statistics": public["statistics"],
        **({"bounds": public["bounds"]} if "bounds" in public else {}),
        "guarantee": public["guarantee"],
        "remaining": component_texts(outcome.remaining),
        "posterior": public["posterior"],
        "replayed": outcome.replayed,
        "receipt": {"sequence": outcome.sequence, "head": outcome.head},
    }


def _show(outcome: Outcome) -> None:
    """Print the result for a person."""
    from dpbayes_cli.bundle.report.wording import are_estimates, bounds_text, guarantee_text
    from dpbayes_cli.commands.posterior_table import posterior_lines
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
    emit(f"remaining {_components(component_texts(outcome.remaining))} in account {document.account}")
    emit(f"receipt   entry {outcome.sequence}, head {outcome.head}")


def _components(remaining: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in remaining.items())
