"""``dpbayes plan``: what a release request costs, and how wide its posterior would be; without data."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.options import DecimalType
from dpbayes_cli.commands.output import emit, emit_json, emit_table, output_options
from dpbayes_cli.commands.request_command import (
    RequestCommand,
    parse_count,
    pop_document,
    read_document,
    request_options,
    spec_option,
)

if TYPE_CHECKING:
    from dpbayes_cli.core.plan import Plan, Step
    from dpbayes_cli.spec.release_spec import ReleaseSpec
    from dpbayes_cli.workflow.planning import MechanismPlan

_RECORDS = "state the number of records to plan for: --records N, from 1 to 1,000,000,000"
_ESTIMATE = "a point estimate has no posterior: estimate_error is its root mean square distance from the true parameter"
_PARAMETERS = ("scale", "sigma", "rho", "likelihood_power", "r", "m")


@click.command("plan", cls=RequestCommand)
@spec_option
@request_options()
@click.option("--compare", is_flag=True, help="Plan with every mechanism of the model, and rank them.")
@click.option("--trials", type=click.IntRange(0, 100_000), default=200, metavar="N", help="Releases to simulate [200].")
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="S", help="Seed of the simulation [0].")
@click.option(
    "--at-delta", type=DecimalType(), default="1e-6", metavar="D", help="Delta at which epsilon is computed [1e-6]."
)
@output_options
def command(
    spec_path: Path | None, compare: bool, trials: int, seed: int, at_delta: Decimal, as_json: bool, **flags: Any
) -> None:
    """Show what a release would cost, and how precise its posterior would be. No data are read, nothing is charged.

    \b
    dpbayes plan --model beta-bernoulli --eps 1 --records 1000
    dpbayes plan --spec clinic.yaml --records 10000 --compare

    The release is simulated. Parameters are drawn from the prior, and valid records are drawn from the model.
    noise_scale is the scale of the noise, in counts. posterior_sd and nonprivate_sd are the standard deviations of the
    posterior with and without privacy, and inflation is their ratio. coverage is the share of 90 % intervals that
    contain the true parameter.
    """
    from dpbayes_cli.privacy.guarantee import check_delta
    from dpbayes_cli.spec.foreign_options import pair_of, request_to
    from dpbayes_cli.spec.release_spec import build_spec
    from dpbayes_cli.workflow.planning import plan_every_mechanism, plan_mechanism

    check_delta(at_delta)
    document = read_document(spec_path, pop_document(flags))
    n_records = parse_count(document.pop("records", None), range(1, 10**9 + 1), _RECORDS)
    if compare:
        spec = build_spec(request_to(document, pair_of(document)[1].name))
        described = [
            _described(spec, planned, at_delta) for planned in plan_every_mechanism(document, n_records, trials, seed)
        ]
        emit_json(described) if as_json else _compare(described)
        return
    spec = build_spec(document)
    plan = _described(spec, plan_mechanism(spec, n_records, trials, seed), at_delta)
    emit_json(plan) if as_json else _show(plan)


def _described(spec: ReleaseSpec, planned: MechanismPlan, delta: Decimal) -> dict[str, Any]:
    import msgspec

    from dpbayes_cli.workflow.planning import guarantee_in_full

    if planned.plan is None:
        return {"mechanism": planned.mechanism, "refused": planned.refusal}

    def in_full(priced: Plan | Step) -> dict[str, Any]:
        return guarantee_in_full(priced.guarantee, spec.privacy.neighbors, delta)

    steps = planned.plan.steps
    return {
        "model": spec.model,
        "mechanism": planned.mechanism,
        "parameters": dict(planned.plan.parameters),
        "guarantee": in_full(planned.plan),
        **({"steps": dict(zip(("bounds", "statistics"), map(in_full, steps), strict=True))} if len(steps) > 1 else {}),
        "expected": msgspec.to_builtins(planned.expected),
    }


def _show(described: dict[str, Any]) -> None:
    guarantee, expected = described["guarantee"], described["expected"]
    for name, value in described["parameters"].items():
        emit(f"{name:18} {value}")
    emit(f"{'guarantee':18} {guarantee['kind']}, {guarantee['neighbors']}")
    for name in ("epsilon", "rho", "mu", "order_max"):
        if guarantee[name] is not None:
            at = f" at delta {guarantee['delta']:g} ({guarantee['route']})" if name == "epsilon" else ""
            emit(f"{name:18} {guarantee[name]:.6g}{at}")
    for name, part in described.get("steps", {}).items():
        rho = "" if part["rho"] is None else f", rho {part['rho']:.6g}"
        emit(f"{f'  {name}':18} {part['kind']}, epsilon {part['epsilon']:.6g} at delta {part['delta']:g}{rho}")
    if guarantee["at_edge"]:
        emit(f"{'':18} the best Renyi order is at the end of the grid: an order beyond it may be better")
    if expected is not None:
        for name in ("n_records", "noise_scale", "posterior_sd", "nonprivate_sd", "inflation"):
            if expected[name] is not None:
                of_estimate = name == "posterior_sd" and expected["sd_of"] == "estimate"
                emit(f"{'estimate_error' if of_estimate else name:18} {expected[name]:.6g}")
        if expected["sd_of"] == "estimate":
            emit(f"{'':18} {_ESTIMATE}")
        for method, share in (expected["coverage"] or {}).items():
            emit(f"{'coverage':18} {share:.3f} of the 90 % intervals ({method}) hold the true parameter")


def _compare(described: list[dict[str, Any]]) -> None:
    rows = []
    for each in described:
        if "refused" in each:
            rows.append([each["mechanism"], "", "", "", "", each["refused"]])
            continue
        guarantee, expected = each["guarantee"], each["expected"] or {}
        epsilon = "-" if guarantee["epsilon"] is None else f"{guarantee['epsilon']:.4g}"
        coverage = (expected.get("coverage") or {}).get("noise-aware")
        rows.append(
            [
                each["mechanism"],
                f"{epsilon} at {guarantee['delta']:g}",
                f"{expected['posterior_sd']:.4g}" if expected else "",
                f"{expected['inflation']:.3f}" if expected else "",
                "" if coverage is None else f"{coverage:.3f}",
                ", ".join(f"{name} {value:.5g}" for name, value in each["parameters"].items() if name in _PARAMETERS),
            ]
        )
    emit_table(["mechanism", "epsilon at delta", "sd", "inflation", "coverage", "parameters"], rows)
    for each in described:
        if (each.get("expected") or {}).get("sd_of") == "estimate":
            emit(f"{each['mechanism']}: {_ESTIMATE}")
