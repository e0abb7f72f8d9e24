"""``dpbayes audit``: test with made-up data whether the code keeps the guarantee of a release request."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.base.errors import VerificationError
from dpbayes_cli.commands import interruption
from dpbayes_cli.commands.options import PATH
from dpbayes_cli.commands.output import emit, emit_json, emit_table, output_options, say, say_detail
from dpbayes_cli.commands.progress import progress_bar
from dpbayes_cli.commands.request_command import (
    RequestCommand,
    parse_count,
    pop_document,
    read_document,
    request_options,
    spec_option,
)

if TYPE_CHECKING:
    from dpbayes_cli.audit.attack import Audit
    from dpbayes_cli.spec.release_spec import ReleaseSpec

_RECORDS = "--records is the number of made-up records, from 2 to 10,000; leaks show best with few records"


@click.command("audit", cls=RequestCommand)
@spec_option
@click.option("--bundle", type=PATH, metavar="BUNDLE", help="Audit the release request of a bundle.")
@request_options()
@click.option(
    "--trials",
    type=click.IntRange(1000, 10_000_000),
    metavar="N",
    help="Releases per data set, without a time limit [as many as time allows, at most 20,000].",
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

    The audit makes up data sets of a few records (--records N, 8 by default), some of them invalid or out of bounds. It
    computes the exact distribution of the release from each data set, and checks that the distributions of neighbors
    differ by no more than the guarantee allows. Then it makes many releases from two neighbors.
    One half of them serves to choose an event, and the other half to measure how much this event reveals (a lower bound
    on epsilon). The audit also repeats the draws in new processes, and tests whether they follow the computed
    distributions.

    The audit takes about 15 seconds of CPU time, and lists what it did not attack. If the mechanism keeps its
    guarantee, the audit reports a leak with a probability of at most one in a million. No real data are read, and
    nothing is charged or released. With --bundle, the audit verifies the bundle and takes the release request from it.
    """
    from dpbayes_cli.audit.attack import DOES_NOT_PROVE, audit
    from dpbayes_cli.spec.release_spec import build_spec

    flag_values = pop_document(flags)
    if bundle is not None and (spec_path is not None or flag_values.keys() - {"records"}):
        raise click.UsageError("--bundle states the whole release request: leave out --spec and the flags of a request")
    records = flag_values.pop("records", None)
    document = read_document(spec_path, flag_values)
    document.pop("records", None)
    spec = build_spec(document) if bundle is None else _read_bundle_spec(bundle)
    n_records = None if records is None else parse_count(records, range(2, 10_001), _RECORDS)
    steps: list[str] = []
    interruption.explain_with(lambda: "the findings so far are not shown; run the audit again")
    with progress_bar() as update:

        def progress(share: float, step: str) -> None:
            update(completed=share, description=step)
            if step not in steps:
                steps.append(step)
                say_detail(step)

        result = audit(spec, n_records, trials, thorough=thorough, progress=progress)
    if as_json:
        emit_json({"ok": not result.findings, **_audit_document(spec, result), "does_not_prove": list(DOES_NOT_PROVE)})
    else:
        _show(spec, result)
    if result.findings:
        raise VerificationError("the audit disproves the guarantee", findings=result.findings)
    if not as_json:
        for text in DOES_NOT_PROVE:
            say(text)


def _read_bundle_spec(bundle: Path) -> ReleaseSpec:
    """Return the spec of a bundle, after verifying the bundle without a ledger."""
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
        "checks": [dataclasses.asdict(check) for check in result.checks],
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
    from dpbayes_cli.ledger.charge_text import charge_text

    emit(
        f"{spec.model} by {spec.mechanism}: {charge_text(result.guarantee)} under {spec.privacy.neighbors} neighbors; "
        f"{result.data_pairs:,} pairs of data sets, each of {result.n_records} records with {result.kinds} different "
        "contents; "
        f"{result.draws:,} releases from each of two data sets"
    )
    verdict = {True: "ok", False: "WRONG"}
    if result.checks:
        emit("")
        checks = [[check.name, check.measured, check.allowed, verdict[check.ok]] for check in result.checks]
        emit_table(["check", "measured", "allowed", ""], checks)
    if result.claims:
        claims = [
            [
                f"{claim.bound.delta:g}",
                f"{claim.epsilon:.4g}",
                f"{claim.bound.epsilon:.4g}",
                f"{claim.delta_at_epsilon:.3g}",
                claim.pair,
                verdict[claim.ok],
            ]
            for claim in result.claims
        ]
        emit("")
        columns = ["delta", "claimed epsilon", "epsilon bound", "delta bound at claimed epsilon", "data sets", ""]
        emit_table(columns, claims)
    emit("")
    for text in result.not_attacked or ["nothing"]:
        emit(f"not attacked: {text}")
