"""``dpbayes audit``: test with made-up data whether the code keeps the guarantee of a release request."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.output import detail, emit, emit_json, emit_table, output_options, say, verbosity
from dpbayes_cli.commands.request_flags import RequestCommand, merge, pop_document, request_options

if TYPE_CHECKING:
    from dpbayes_cli.audit.attack import Audit, Progress
    from dpbayes_cli.spec.release_spec import ReleaseSpec


@click.command("audit", cls=RequestCommand)
@click.option(
    "--spec", "spec_path", type=click.Path(path_type=Path), metavar="FILE", help="A YAML spec; flags override it."
)
@click.option(
    "--bundle", type=click.Path(path_type=Path), metavar="BUNDLE", help="Audit the release request of a bundle."
)
@request_options()
@click.option(
    "--trials",
    type=click.IntRange(1000, 10_000_000),
    metavar="N",
    help="Releases per data set, however long they take [as many as time allows, at most 20,000].",
)
@click.option("--thorough", is_flag=True, help="Take ten minutes to try more data sets and releases.")
@output_options
def command(
    spec_path: Path | None, bundle: Path | None, trials: int | None, thorough: bool, as_json: bool, **flags: Any
) -> None:
    """Attack the mechanism of a release request with made-up data; exit 7 if it leaks more than its guarantee allows.

    \b
    dpbayes audit --model beta-bernoulli --mechanism laplace --eps 1
    dpbayes audit --spec clinic.yaml --thorough
    dpbayes audit --bundle out/

    The engine reads made-up data sets of a few records (--records N, 8 by default), some of them invalid or out of
    bounds. For every two neighbors among them, the exact distributions of all draws are compared with the guarantee.
    Draws are repeated, in fresh processes too, and compared with their distributions. Then two neighbors are released
    many times: an event is chosen on one half of the draws, and the other half gives a lower bound on epsilon.

    The audit takes less than a minute on two cores, and lists what it did not attack. It calls a sound mechanism
    unsound once in a million audits. No real data are read, and nothing is charged or released. With --bundle, it
    audits the release request of a bundle, whose guarantee and parameters must match the plan.
    """
    from dpbayes_cli.audit.attack import DOES_NOT_PROVE, audit
    from dpbayes_cli.base.errors import Interrupted, VerificationError

    flag_values = pop_document(flags)
    if bundle is not None and (spec_path is not None or flag_values.keys() - {"records"}):
        raise click.UsageError("--bundle states the whole release request: leave out --spec and the flags of a request")
    records = flag_values.pop("records", None)
    spec = _read_bundle_spec(bundle) if bundle is not None else _read_spec(spec_path, flag_values)
    n_records = None if records is None else _parse_count(records)
    try:
        with _progress() as progress:
            result = audit(spec, n_records, trials, thorough=thorough, progress=progress)
    except Interrupted as error:
        hint = "nothing was read, charged or released; the findings so far are not shown, so run the audit again"
        raise Interrupted(error.signal, hint) from None
    if as_json:
        emit_json({"ok": not result.findings, **_audit_document(spec, result), "does_not_prove": list(DOES_NOT_PROVE)})
    else:
        _show(spec, result)
    if result.findings:
        raise VerificationError("the audit disproves the guarantee", findings=result.findings)
    if not as_json:
        for text in DOES_NOT_PROVE:
            say(text)


@contextmanager
def _progress() -> Iterator[Progress]:
    """Yield a callback that shows progress: as a bar on a terminal, as messages under ``-v``."""
    shown: list[str] = []
    bar = None
    if sys.stderr is not None and sys.stderr.isatty() and verbosity() >= 0:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        task = bar.add_task("pricing", total=1.0)

    def progress(share: float, what: str) -> None:
        if bar is not None:
            bar.update(task, completed=share, description=what)
        if what not in shown:
            shown.append(what)
            detail(what)

    if bar is None:
        yield progress
        return
    with bar:
        yield progress


def _parse_count(records: Any) -> int:
    try:
        n_records = int(str(records))
    except ValueError:
        n_records = 0
    if not 2 <= n_records <= 10_000:
        raise click.UsageError(
            "--records must be from 2 to 10,000: the number of made-up records; a small number shows the most"
        )
    return n_records


def _read_spec(spec_path: Path | None, flags: dict[str, Any]) -> ReleaseSpec:
    from dpbayes_cli.spec.release_spec import build_spec
    from dpbayes_cli.spec.yaml_reader import read_spec_file

    document: dict[str, Any] = {} if spec_path is None else read_spec_file(spec_path)
    document.pop("records", None)
    return build_spec(merge(document, flags))


def _read_bundle_spec(bundle: Path) -> ReleaseSpec:
    """Return the spec of a bundle, after verifying the bundle without a ledger."""
    from dpbayes_cli.base.errors import VerificationError
    from dpbayes_cli.workflow.verification import verify_bundle

    verification = verify_bundle(bundle, None)
    if verification.findings:
        raise VerificationError(f"the bundle {str(bundle)!r} does not verify", findings=verification.findings)
    return verification.bundle.spec


def _audit_document(spec: ReleaseSpec, result: Audit) -> dict[str, Any]:
    from dpbayes_cli.audit.attack import FALSE_ALARM

    n_attacked, n_choices = result.stars
    return {
        "model": spec.model,
        "mechanism": spec.mechanism,
        "guarantee": result.guarantee.serialize(),
        "neighbors": str(spec.privacy.neighbors),
        "records": result.n_records,
        "trials": result.draws,
        "confidence": 1.0 - FALSE_ALARM,
        "data_sets": result.pair,
        "attacked": {
            "kinds_of_record": result.kinds,
            "choices_of_the_other_records": n_attacked,
            "choices_there_are": n_choices,
            "pairs_of_data_sets": result.data_pairs,
            "pairs_from_outside": list(dict.fromkeys(claim.pair for claim in result.claims)),
        },
        "not_attacked": list(result.not_attacked),
        "checks": [
            {"name": check.name, "ok": check.ok, "measured": check.measured, "allowed": check.allowed}
            for check in result.checks
        ],
        "claims": [
            {
                "delta": claim.bound.delta,
                "epsilon_claimed": claim.epsilon,
                "epsilon_at_least": claim.bound.epsilon,
                "delta_at_least": claim.delta_at_epsilon,
                "data_sets": claim.pair,
                "ok": claim.ok,
            }
            for claim in result.claims
        ],
        "findings": result.findings,
    }


def _show(spec: ReleaseSpec, result: Audit) -> None:
    from dpbayes_cli.ledger.charging import price_text

    emit(
        f"{spec.model} by {spec.mechanism}: {price_text(result.guarantee)} under {spec.privacy.neighbors} neighbors; "
        f"{result.data_pairs:,} pairs of data sets, each of {result.n_records} records of {result.kinds} kinds; "
        f"{result.draws:,} releases of each data set of one pair"
    )
    checks = [[check.name, check.measured, check.allowed, "ok" if check.ok else "WRONG"] for check in result.checks]
    if checks:
        emit_table(["check", "measured", "allowed", ""], checks)
    claims = [
        [
            f"{claim.bound.delta:g}",
            f"{claim.epsilon:.4g}",
            f"{claim.bound.epsilon:.4g}",
            f"{claim.delta_at_epsilon:.3g}",
            claim.pair,
            "ok" if claim.ok else "WRONG",
        ]
        for claim in result.claims
    ]
    if claims:
        columns = ["delta", "claimed epsilon", "epsilon at least", "delta at claimed epsilon at least", "data sets", ""]
        emit_table(columns, claims)
    for text in result.not_attacked:
        emit(f"not attacked: {text}")
