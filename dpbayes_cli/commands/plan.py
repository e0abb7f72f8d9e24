"""``dpbayes plan``: what a release request costs, and how wide its posterior would be; without data."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.output import emit, emit_json, emit_table, output_options
from dpbayes_cli.commands.request_flags import RequestCommand, pop_document, read_document, request_options
from dpbayes_cli.commands.totals import DecimalType

if TYPE_CHECKING:
    from dpbayes_cli.core.plan import Plan
    from dpbayes_cli.spec.release_spec import ReleaseSpec
    from dpbayes_cli.workflow.planning import MechanismPlan


@click.command("plan", cls=RequestCommand)
@click.option(
    "--spec", "spec_path", type=click.Path(path_type=Path), metavar="FILE", help="A YAML spec; flags override it."
)
@request_options()
@click.option("--compare", is_flag=True, help="Plan with every mechanism of the model, and rank them.")
@click.option("--trials", type=click.IntRange(0, 100_000), default=200, metavar="N", help="Releases to simulate [200].")
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="S", help="Seed of the simulation [0].")
@click.option(
    "--at-delta",
    type=DecimalType(),
    default="1e-6",
    metavar="D",
    help="Delta at which to state epsilon [1e-6].",
)
@output_options
def command(
    spec_path: Path | None, compare: bool, trials: int, seed: int, at_delta: Decimal, as_json: bool, **flags: Any
) -> None:
    """Price a release request and simulate how precise its posterior would be. Reads no data, charges nothing.

    \b
    dpbayes plan --model beta-bernoulli --eps 1 --records 1000
    dpbayes plan --spec clinic.yaml --records 10000 --compare

    Parameters and records are simulated from the model and its prior; all simulated records are valid. noise_scale
    is the size of the noise in counts; posterior_sd and nonprivate_sd are the standard deviations of the posterior with
    and without privacy; inflation is their ratio; coverage is how often 90 % intervals hold the true parameter.
    """
    from dpbayes_cli.privacy.guarantee import check_delta
    from dpbayes_cli.spec.foreign_options import pair_of, request_to
    from dpbayes_cli.spec.release_spec import build_spec
    from dpbayes_cli.workflow.planning import plan_every_mechanism, plan_mechanism

    check_delta(at_delta)
    flag_values = pop_document(flags)
    records = flag_values.pop("records", None)
    document = read_document(spec_path, flag_values)
    n_records = _parse_count(document.pop("records", None) if records is None else records)
    if compare:
        spec = build_spec(request_to(document, pair_of(document)[1].name))
        _compare(spec, plan_every_mechanism(document, n_records, trials, seed), at_delta, as_json=as_json)
        return
    spec = build_spec(document)
    _show(spec, plan_mechanism(spec, n_records, trials, seed), at_delta, as_json=as_json)


def _parse_count(records: Any) -> int:
    try:
        n_records = int(str(records)) if records is not None else 0
    except ValueError:
        n_records = 0
    if not 1 <= n_records <= 10**9:
        raise click.UsageError("state the number of records to plan for: --records N, from 1 to 1,000,000,000")
    return n_records


def _described(spec: ReleaseSpec, planned: MechanismPlan, delta: Decimal) -> dict[str, Any]:
    import msgspec

    from dpbayes_cli.workflow.planning import guarantee_in_full

    if planned.plan is None:
        return {"mechanism": planned.mechanism, "refused": planned.refusal}
    return {
        "model": spec.model,
        "mechanism": planned.mechanism,
        "parameters": dict(planned.plan.parameters),
        "guarantee": guarantee_in_full(planned.plan.guarantee, spec.privacy.neighbors, delta),
        **_steps(spec, planned.plan, delta),
        "expected": msgspec.to_builtins(planned.expected),
    }


def _steps(spec: ReleaseSpec, plan: Plan, delta: Decimal) -> dict[str, Any]:
    """Return the guarantee of each step by its name; empty for a plan of one step."""
    from dpbayes_cli.workflow.planning import guarantee_in_full

    if len(plan.steps) == 1:
        return {}
    guarantees = [guarantee_in_full(step.guarantee, spec.privacy.neighbors, delta) for step in plan.steps]
    return {"steps": dict(zip(("bounds", "statistics"), guarantees, strict=True))}


def _show(spec: ReleaseSpec, planned: MechanismPlan, delta: Decimal, *, as_json: bool) -> None:
    described = _described(spec, planned, delta)
    if as_json:
        emit_json(described)
        return
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


def _compare(spec: ReleaseSpec, planned: list[MechanismPlan], delta: Decimal, *, as_json: bool) -> None:
    described = [_described(spec, each, delta) for each in planned]
    if as_json:
        emit_json(described)
        return
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


_ESTIMATE = "a point estimate has no posterior: this is its root mean square distance from the true parameter"
_PARAMETERS = ("scale", "sigma", "rho", "likelihood_power", "r", "m")
