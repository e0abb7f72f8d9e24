"""``dpbayes plan``: what a release request costs, and how wide its posterior would be; without data."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.base.errors import Interrupted
from dpbayes_cli.base.numeric import float_text
from dpbayes_cli.commands.options import DecimalType
from dpbayes_cli.commands.output import emit, emit_json, emit_table, output_options, verbosity
from dpbayes_cli.commands.plan_comparison import COLUMNS, ESTIMATE, show_comparison
from dpbayes_cli.commands.progress import delayed_bar
from dpbayes_cli.commands.request_command import RequestCommand, parse_count, pop_request, request_options, spec_option

if TYPE_CHECKING:
    from dpbayes_cli.core.plan import Plan, Step
    from dpbayes_cli.spec.release_spec import ReleaseSpec
    from dpbayes_cli.workflow.account_costs import AccountCost
    from dpbayes_cli.workflow.planning import MechanismPlan, SimulationEffort
    from dpbayes_cli.workflow.target_search import WidthTarget

_RECORDS = "state the number of records to plan for: --records N, from 1 to 1,000,000,000"
_POSITIVE = click.FloatRange(min=0.0, min_open=True)
_MAX_ROWS = 12  # the largest number of parameters whose widths are shown without ``-v``


@click.command("plan", cls=RequestCommand)
@spec_option
@request_options()
@click.option("--compare", is_flag=True, help="Plan with every mechanism of the model, and rank them.")
@click.option(
    "--target-width", type=_POSITIVE, metavar="W", help="Find the epsilon that gives 90 % intervals this wide."
)
@click.option("--target-sd", type=_POSITIVE, metavar="S", help="Find the epsilon that gives this standard deviation.")
@click.option(
    "--target-share",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    metavar="Q",
    help="The share of simulated data sets that must reach the target [0.9].",
)
@click.option("--parameter", metavar="P", help="The parameter whose interval is stated or sought [the first].")
@click.option(
    "--trials",
    type=click.IntRange(0, 100_000),
    metavar="N",
    help="Releases to simulate, however long they take [as many as three seconds allow, at most 200; "
    "20 to compare regressions].",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="S", help="Seed of the simulation [0].")
@click.option(
    "--at-delta", type=DecimalType(), default="1e-6", metavar="D", help="Delta at which epsilon is computed [1e-6]."
)
@output_options
def command(
    spec_path: Path | None,
    compare: bool,
    target_width: float | None,
    target_sd: float | None,
    target_share: float | None,
    parameter: str | None,
    trials: int | None,
    seed: int,
    at_delta: Decimal,
    as_json: bool,
    **flags: Any,
) -> None:
    """Show what a release would cost, and how precise its posterior would be. No data are read, nothing is charged.

    \b
    dpbayes plan --model beta-bernoulli --eps 1 --records 1000
    dpbayes plan --model beta-bernoulli --records 1000 --target-width 0.05
    dpbayes plan --spec clinic.yaml --records 10000 --compare

    The release is simulated. Parameters are drawn from the prior such that the mean of numbers is inside their bounds,
    and valid records are drawn from the model; features of a regression are drawn uniformly. Widths are medians over
    the simulated releases. With --target-width or --target-sd, the epsilon of the request is not used. Instead, the
    command finds the smallest epsilon with which nine in ten simulated data sets reach the target. For a probability,
    --target-width 0.05 is 5 percentage points.

    With --by, the width is that of one group's interval, for groups with the same number of records on average.

    -v prints more: noise_scale is the scale of the noise on integers. posterior_sd and nonprivate_sd are the
    standard deviations of the posterior with and without privacy, and inflation is their ratio. effect_error, of a
    regression, is the median over data sets of the root mean square error of its effects. coverage is the share of
    90 % intervals that contain the true parameter. The table of new accounts shows the cost of the release in
    accounts of epsilon alone, of epsilon and delta (which add up Renyi epsilons), of rho (zCDP) and of mu (Gaussian
    DP), and how many such releases each pays for. The last three have totals that imply epsilon 3 at delta
    0.000001.
    """
    from dpbayes_cli.privacy.guarantee import check_delta
    from dpbayes_cli.spec.foreign_options import pair_of
    from dpbayes_cli.workflow.planning import SimulationEffort

    check_delta(at_delta)
    if [target_width, target_sd, compare or None].count(None) < 2:
        raise click.UsageError("state only one of --target-width, --target-sd and --compare")
    if (target_width is not None or target_sd is not None) and trials == 0:
        raise click.UsageError("a target is found by simulation: --trials must be at least 1")
    document = pop_request(spec_path, flags)
    n_records = parse_count(document.pop("records", None), range(1, 10**9 + 1), _RECORDS)
    try:
        with delayed_bar("simulating releases") as progress:
            effort = SimulationEffort(trials, seed, parameter=parameter, progress=progress)
            if compare:
                plans = _every_plan(document, n_records, effort, at_delta)
                emit_json(plans) if as_json else show_comparison(plans, pair_of(document)[1].name)
                return
            target = _target(target_width, target_sd, target_share)
            plan = _one_plan(document, n_records, effort, at_delta, target)
    except Interrupted as error:
        hint = "a plan reads no data and charges nothing: run it again, or with fewer --trials"
        raise Interrupted(error.signal, hint) from None
    emit_json(plan) if as_json else _show(plan)


def _target(width: float | None, sd: float | None, share: float | None) -> WidthTarget | None:
    from dpbayes_cli.workflow.target_search import WidthTarget

    wanted_share = 0.9 if share is None else share
    if width is not None:
        return WidthTarget("width", width, wanted_share)
    if sd is not None:
        return WidthTarget("sd", sd, wanted_share)
    if share is not None:
        raise click.UsageError("--target-share needs --target-width or --target-sd")
    return None


def _every_plan(
    document: dict[str, Any], n_records: int, effort: SimulationEffort, delta: Decimal
) -> list[dict[str, Any]]:
    from dpbayes_cli.spec.foreign_options import pair_of, request_to
    from dpbayes_cli.spec.release_spec import build_spec
    from dpbayes_cli.workflow.planning import plan_every_mechanism

    spec = build_spec(request_to(document, pair_of(document)[1].name))
    plans = plan_every_mechanism(document, n_records, effort)
    return [
        {**_described(spec, each, n_records, delta), **({"costs_more": each.costs_more} if each.plan else {})}
        for each in plans
    ]


def _one_plan(
    document: dict[str, Any], n_records: int, effort: SimulationEffort, delta: Decimal, target: WidthTarget | None
) -> dict[str, Any]:
    """Return a plan as a JSON object; with a target, the plan at the smallest cost that reaches it."""
    from dpbayes_cli.spec.release_spec import build_spec
    from dpbayes_cli.workflow.planning import plan_mechanism

    if target is None:
        spec = build_spec(document)
        return _described(spec, plan_mechanism(spec, n_records, effort), n_records, delta)
    import msgspec

    from dpbayes_cli.workflow.plan_sentences import found_sentence
    from dpbayes_cli.workflow.target_search import find_cost

    smallest = find_cost(document, n_records, target, effort)
    cost = smallest.limit if smallest.value is None else smallest.value
    spec = build_spec(
        {**document, "privacy": {**document.get("privacy", {}), smallest.key: f"{Decimal(str(cost)).normalize():f}"}}
    )
    rest = replace(effort, trials=smallest.trials, parameter=smallest.parameter, progress=None)
    described = _described(spec, plan_mechanism(spec, n_records, rest), n_records, delta)
    sentences = [found_sentence(smallest, target, spec), *described["sentences"]]
    return {
        **described,
        "sentences": sentences,
        "target": {**msgspec.to_builtins(target), "found": msgspec.to_builtins(smallest)},
    }


def _described(spec: ReleaseSpec, planned: MechanismPlan, n_records: int, delta: Decimal) -> dict[str, Any]:
    import msgspec

    from dpbayes_cli.workflow.account_costs import account_costs, times_sentence
    from dpbayes_cli.workflow.plan_sentences import plan_sentences
    from dpbayes_cli.workflow.planning import guarantee_in_full

    if planned.plan is None:
        return {"mechanism": planned.mechanism, "refused": planned.refusal}

    def in_full(priced: Plan | Step) -> dict[str, Any]:
        return guarantee_in_full(priced.guarantee, spec.privacy.neighbors, delta)

    steps, choice, costs = planned.plan.steps, planned.plan.choice, account_costs(planned.plan.guarantee)
    return {
        "model": spec.model,
        "mechanism": planned.mechanism,
        "parameters": dict(planned.plan.parameters),
        "guarantee": in_full(planned.plan),
        **({"steps": dict(zip((choice.key, "statistics"), map(in_full, steps), strict=True))} if choice else {}),
        "accounts": [_described_cost(each) for each in costs],
        "expected": msgspec.to_builtins(planned.expected),
        **({"groups": msgspec.to_builtins(planned.groups)} if planned.groups else {}),
        "sentences": [*plan_sentences(spec, planned, n_records), times_sentence(costs)],
    }


def _described_cost(priced: AccountCost) -> dict[str, Any]:
    """Return the cost of a release in one kind of account as a JSON object; the cost is null if it is infinite."""

    def numbers(amounts: dict[str, Decimal]) -> dict[str, float]:
        return {name: float(amount) for name, amount in amounts.items()}

    cost = numbers(priced.cost) if priced.is_finite else None
    return {"kind": priced.kind, "total": numbers(priced.total), "cost": cost, "times": priced.times}


def _show(described: dict[str, Any]) -> None:
    guarantee, expected = described["guarantee"], described["expected"]
    for sentence in described["sentences"]:
        emit(fill(sentence, COLUMNS))
    if expected is not None and expected["sd_of"] == "posterior":
        _show_widths(expected["intervals"])
    emit("")
    emit(f"guarantee {_priced(guarantee)}, {guarantee['neighbors']} ({guarantee['kind']})")
    if verbosity() > 0:
        _show_details(described)


def _priced(guarantee: dict[str, Any]) -> str:
    """Return epsilon and delta, or the cost of a guarantee that has no epsilon."""
    if guarantee["epsilon"] is not None:
        return f"epsilon {guarantee['epsilon']:.6g}, delta {float_text(guarantee['delta'])}"
    return ", ".join(f"{name} {guarantee[name]:.6g}" for name in ("rho", "mu") if guarantee[name] is not None)


def _show_details(described: dict[str, Any]) -> None:
    """Print what statisticians and privacy engineers ask for."""
    guarantee, expected = described["guarantee"], described["expected"]
    emit("")
    shown_below = [guarantee["rho"], guarantee["mu"], guarantee["epsilon"], (expected or {}).get("noise_scale")]
    for name, value in described["parameters"].items():
        if value not in shown_below:
            emit(f"{name:18} {f'{value:.6g}' if isinstance(value, float) else value}")
    for name in ("epsilon", "rho", "mu", "order_max"):
        if guarantee[name] is not None:
            at = f" at delta {float_text(guarantee['delta'])} ({guarantee['route']})" if name == "epsilon" else ""
            emit(f"{name:18} {guarantee[name]:.6g}{at}")
    for name, part in described.get("steps", {}).items():
        rho = "" if part["rho"] is None else f", rho {part['rho']:.6g}"
        emit(
            f"{f'  {name}':18} {part['kind']}, epsilon {part['epsilon']:.6g} at delta {float_text(part['delta'])}{rho}"
        )
    if guarantee["at_edge"]:
        emit(f"{'':18} the best Renyi order is at the end of the grid: an order beyond it may be better")
    if expected is not None:
        sizes = "posterior_sd", "nonprivate_sd", "inflation", "effect_error"
        for name in ("n_records", "noise_scale", *sizes):
            if expected[name] is not None:
                of_estimate = name == "posterior_sd" and expected["sd_of"] == "estimate"
                emit(f"{'estimate_error' if of_estimate else name:18} {expected[name]:.6g}")
        if expected["sd_of"] == "estimate":
            emit(f"{'':18} {ESTIMATE.format('estimate_error')}")
        for method, share in (expected["coverage"] or {}).items():
            emit(f"{'coverage':18} {share:.3f} of the 90 % intervals ({method}) hold the truth")
    _show_accounts(described["accounts"])


def _show_accounts(accounts: list[dict[str, Any]]) -> None:
    """Print what a release costs in new accounts of each kind, and how many such releases they pay for."""
    from dpbayes_cli.workflow.account_costs import TOTALS, shown_amounts

    rows = [
        [TOTALS[each["kind"]], shown_amounts(each["total"]), shown_amounts(each["cost"]), f"{each['times']:,}"]
        for each in accounts
    ]
    emit("")
    emit_table(["new account", "total", "cost of a release", "times"], rows)


def _show_widths(intervals: dict[str, Any]) -> None:
    from dpbayes_cli.bundle.report.digits import rounded

    rows = []
    for name, each in intervals.items():
        width, prior = each["width"], each["prior_width"]
        numbers = (width["median"], each["width_9_in_10"], each["nonprivate_width"], prior)
        rows.append([name, *("" if number is None else rounded(number, number) for number in numbers)])
    emit("")
    shown = rows if verbosity() > 0 else rows[:_MAX_ROWS]
    emit_table(["width of 90 % interval", "median", "9 in 10 at most", "no privacy", "prior"], shown)
    if len(shown) < len(rows):
        emit(f"... and {len(rows) - len(shown)} more with -v")
