"""``dpbayes audit``: does the code keep the promise that a question is priced at? Attacked with made-up data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.output import detail, emit, emit_json, emit_table, output_options, say, verbosity
from dpbayes_cli.commands.request_flags import RequestCommand, merged, request_options, stated

if TYPE_CHECKING:
    from dpbayes_cli.audit.attack import Audit, Progress
    from dpbayes_cli.spec.release_spec import ReleaseSpec


@click.command("audit", cls=RequestCommand)
@click.option(
    "--spec", "spec_path", type=click.Path(path_type=Path), metavar="FILE", help="A YAML spec; flags override it."
)
@click.option(
    "--bundle", type=click.Path(path_type=Path), metavar="BUNDLE", help="Audit what a bundle says that it was made by."
)
@request_options()
@click.option(
    "--trials",
    type=click.IntRange(1000, 10_000_000),
    metavar="N",
    help="Releases of each of two data sets, however long they take [as many as the time allows, at most 20,000].",
)
@click.option("--thorough", is_flag=True, help="Take ten minutes, for more data sets and more releases.")
@output_options
def command(
    spec_path: Path | None, bundle: Path | None, trials: int | None, thorough: bool, as_json: bool, **flags: Any
) -> None:
    """Attack the mechanism that a question would be answered by; exit 7 if it loses more than it claims.

    \b
    dpbayes audit --model beta-bernoulli --mechanism laplace --eps 1
    dpbayes audit --spec clinic.yaml --thorough
    dpbayes audit --bundle out/

    Data sets of a few records (--records N, 8 by default) are made up, invalid and out-of-bounds ones included, and
    read by the engine. Of every two neighbors among them the exact laws of all draws are compared with the guarantee.
    Draws are repeated, in fresh processes too, and compared with their laws. Then neighbors are released many times:
    an event is fixed on one half of the draws, and the other half says which epsilon is disproved. It takes less than
    a minute on two cores, and says what it did not come to. A sound mechanism is called unsound once in a million
    audits. No data are read, nothing is charged, nothing is released. With --bundle, model, mechanism, domain and price
    are those of a bundle, whose guarantee and parameters must be those of the plan.
    """
    from dpbayes_cli.audit.attack import DOES_NOT_PROVE, audit
    from dpbayes_cli.base.errors import Interrupted, VerificationError

    flags_stated = stated(flags)
    if bundle is not None and (spec_path is not None or flags_stated.keys() - {"records"}):
        raise click.UsageError("--bundle states the whole question: leave the other options out")
    records = flags_stated.pop("records", None)
    spec = _of_bundle(bundle) if bundle is not None else _of_file(spec_path, flags_stated)
    n_records = None if records is None else _count(records)
    try:
        with _progress() as progress:
            found = audit(spec, n_records, trials, thorough=thorough, progress=progress)
    except Interrupted as error:
        hint = "nothing was read, charged or released, and what the audit had found so far is not told; run it again"
        raise Interrupted(error.signal, hint) from None
    if as_json:
        emit_json({"ok": not found.findings, **_described(spec, found), "does_not_prove": list(DOES_NOT_PROVE)})
    else:
        _show(spec, found)
    if found.findings:
        raise VerificationError("the audit disproves the guarantee", findings=found.findings)
    if not as_json:
        for text in DOES_NOT_PROVE:
            say(text)


@contextmanager
def _progress() -> Iterator[Progress]:
    """Yield what is told how the time passes: a bar on a terminal, and words under ``-v``."""
    told: list[str] = []
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
        if what not in told:
            told.append(what)
            detail(what)

    if bar is None:
        yield progress
        return
    with bar:
        yield progress


def _count(records: Any) -> int:
    try:
        n_records = int(str(records))
    except ValueError:
        n_records = 0
    if not 2 <= n_records <= 10_000:
        raise click.UsageError("--records N: from 2 to 10,000 made-up records; few show most")
    return n_records


def _of_file(spec_path: Path | None, flags: dict[str, Any]) -> ReleaseSpec:
    from dpbayes_cli.spec.release_spec import build_spec
    from dpbayes_cli.spec.yaml_reader import read_spec_file

    document: dict[str, Any] = {} if spec_path is None else read_spec_file(spec_path)
    document.pop("records", None)
    return build_spec(merged(document, flags))


def _of_bundle(bundle: Path) -> ReleaseSpec:
    """Return the question of a bundle, whose plan must be what the bundle says.

    Raises:
        VerificationError: it is not.
    """
    from dpbayes_cli.base.errors import VerificationError
    from dpbayes_cli.workflow.verification import verify_bundle

    found = verify_bundle(bundle, None)
    if found.findings:
        raise VerificationError("the bundle is not what it says", findings=found.findings)
    return found.bundle.spec


def _described(spec: ReleaseSpec, found: Audit) -> dict[str, Any]:
    from dpbayes_cli.audit.attack import FALSE_ALARM

    done, stars = found.stars
    return {
        "model": spec.model,
        "mechanism": spec.mechanism,
        "guarantee": found.guarantee.serialize(),
        "neighbors": str(spec.privacy.neighbors),
        "records": found.n_records,
        "trials": found.draws,
        "confidence": 1.0 - FALSE_ALARM,
        "data_sets": found.pair,
        "attacked": {
            "kinds_of_record": found.kinds,
            "choices_of_the_other_records": done,
            "choices_there_are": stars,
            "pairs_of_data_sets": found.data_pairs,
            "pairs_from_outside": list(dict.fromkeys(claim.pair for claim in found.claims)),
        },
        "not_attacked": list(found.not_attacked),
        "checks": [
            {"name": check.name, "ok": check.ok, "measured": check.measured, "allowed": check.allowed}
            for check in found.checks
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
            for claim in found.claims
        ],
        "findings": found.findings,
    }


def _show(spec: ReleaseSpec, found: Audit) -> None:
    from dpbayes_cli.ledger.charging import price_text

    emit(
        f"{spec.model} by {spec.mechanism}: {price_text(found.guarantee)} under {spec.privacy.neighbors} neighbors; "
        f"{found.data_pairs:,} pairs of data sets of {found.n_records} records of {found.kinds} kinds, and "
        f"{found.draws:,} releases of each of two"
    )
    checks = [[check.name, check.measured, check.allowed, "ok" if check.ok else "WRONG"] for check in found.checks]
    if checks:
        emit_table(["part", "measured", "allowed", ""], checks)
    claims = [
        [
            f"{claim.bound.delta:g}",
            f"{claim.epsilon:.4g}",
            f"{claim.bound.epsilon:.4g}",
            f"{claim.delta_at_epsilon:.3g}",
            claim.pair,
            "ok" if claim.ok else "WRONG",
        ]
        for claim in found.claims
    ]
    if claims:
        columns = ["delta", "epsilon claimed", "epsilon at least", "delta at least, at that epsilon", "data sets", ""]
        emit_table(columns, claims)
    for text in found.not_attacked:
        emit(f"not attacked: {text}")
