"""Describe a plan in sentences for a reader who knows no differential privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.numeric import float_text
from dpbayes_cli.bundle.report.digits import percent, rounded, size_text
from dpbayes_cli.core.coefficient_law import HasCoefficients
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.privacy.key_threshold import KeyThreshold
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.workflow.expectation import Expectation, ExpectedPredictions
from dpbayes_cli.workflow.planning import MechanismPlan
from dpbayes_cli.workflow.target_search import FoundCost, WidthTarget

if TYPE_CHECKING:
    from dpbayes_cli.workflow.simulated_groups import ExpectedGroups

_FEW_TRIALS, _MANY_TRIALS = 20, 100
_ACCURACY = 0.1
"""Scores of predictions are rounded as if their interval were at least this share of the score wide."""
_TOO_NARROW = 0.8
"""Draws whose interval is narrower than this share of the interval without privacy mostly repeat the prior."""


def plan_sentences(spec: ReleaseSpec, planned: MechanismPlan, n_records: int) -> list[str]:
    """Return texts of one or two sentences that describe the expected result of a release."""
    expected = planned.expected
    if planned.groups is not None:
        return _group_sentences(spec, planned, planned.groups)
    if planned.plan is not None and planned.plan.threshold is not None:
        return [_about_found_keys(planned.plan.threshold), planned.not_simulated]
    if expected is None:
        return [planned.not_simulated] if planned.not_simulated else []
    model = spec.build_model()
    is_share = model.main_fact.is_share
    first, *others = filter(None, [_predictions(expected.predictions), _width(planned, expected, is_share)])
    sentences = [f"{_cost(spec, planned)}, {first}", *(f"{each[:1].upper()}{each[1:]}" for each in others)]
    if isinstance(model, HasCoefficients):
        from dpbayes_cli.workflow.simulated_coefficients import COMMONEST, leaves_out_one_class

        sentences.append(
            "Features are simulated with any spread between their bounds. If yours vary little within this range, "
            "intervals are wider."
        )
        if leaves_out_one_class(spec, model.prior):
            sentences.append(f"Data sets where more than {100 * COMMONEST:g} % of the targets are equal are left out.")
    if planned.plan is not None and planned.plan.note:
        sentences.append(f"{planned.plan.note[:1].upper()}{planned.plan.note[1:]}.")
    if spec.mechanism == model.default_mechanism and model.default_with_delta:
        sentences.append(
            f"If the account has a delta, releases without --mechanism use {model.default_with_delta}; to plan these: "
            "--delta DELTA."
        )
    known = planned.plan.all_warnings(model, n_records) if planned.plan else ()
    warnings = [*warnings_of(model, spec.mechanism, expected), *(f"{warning}." for warning in known)]
    sentences += [f"WARNING: {warning}" for warning in warnings]
    if spec.structure is not None:
        sentences.append("These numbers are for a tree that is known in advance.")
    if planned.tree_split is not None:
        sentences.append(planned.tree_split.sentence)
    if expected.trials < _FEW_TRIALS:
        sentences.append(f"Only {expected.trials} releases were simulated. For more: --trials {_MANY_TRIALS}.")
    return sentences


def found_sentence(cost: FoundCost, target: WidthTarget, spec: ReleaseSpec) -> str:
    """Return the result of the search for a cost, one or two sentences."""
    is_share = spec.build_model().main_fact.is_share
    wanted, at_limit, nonprivate = (
        size_text(value, is_share) for value in (target.value, cost.at_limit, cost.nonprivate)
    )
    measure = "90 % interval" if target.measure == "width" else "standard deviation"
    most = "nine in ten" if target.share == 0.9 else f"{100 * target.share:g} % of"
    goal = f"a {measure} of {cost.parameter} of at most {wanted} in {most} simulated data sets"
    if cost.value is not None and cost.low is not None:
        low, high = (f"more than {cost.limit:g}" if end is None else f"{end:.2g}" for end in (cost.low, cost.high))
        is_open = cost.high is None and cost.trials < _MANY_TRIALS
        more = f" To know it better, simulate more data sets: --trials {_MANY_TRIALS}." if is_open else ""
        return (
            f"The smallest {cost.key} that gives {goal} is about {cost.value.normalize():f}. This number comes from "
            f"{cost.trials} data sets; more of them would probably give a number between {low} and {high}.{more}"
        )
    text = (
        f"No {cost.key} up to {cost.limit:g} gives {goal}: at {cost.key} {cost.limit:g} it would be {at_limit}, "
        f"and without privacy {nonprivate}."
    )
    expected = ""
    if mechanism_type(spec.mechanism).post_processing:
        expected = " Parameters are drawn from the prior: if you know roughly what to expect, state it there."
    if cost.nonprivate <= target.value:
        return f"{text} Use more records or another mechanism (--compare).{expected}"
    factor = (cost.nonprivate / target.value) ** 2
    return f"{text} You need {f'at least {factor:.2g} times as many' if factor >= 1.1 else 'more'} records.{expected}"


def _width(planned: MechanismPlan, expected: Expectation, is_share: bool) -> str:
    name, interval = expected.main, expected.intervals[expected.main]
    if expected.sd_of == "estimate":
        error, sd = (size_text(each, is_share) for each in (interval.sd, expected.nonprivate_sd))
        return f"expect an estimate of {name} about {error} from the truth; without privacy it would be {sd}."
    width, plain = size_text(interval.width.median, is_share), size_text(interval.nonprivate_width, is_share, "")
    plain = plain if interval.nonprivate_width < interval.width.median else "about the same"  # by chance wider
    low, high = (size_text(each, is_share, "") for each in (interval.width.low, interval.width.high))
    most = size_text(interval.width_9_in_10, is_share, "")
    released = planned.plan is not None and planned.plan.final_step.draws
    what = f"draws of {name} from a distribution whose central 90 % is" if released else f"a 90 % interval for {name}"
    return (
        f"expect {what} about {width} wide; without privacy it would be {plain}. About half of the data sets give a "
        f"wider interval; nine in ten give one of at most {most}. The first number is the median of {expected.trials} "
        f"simulated data sets; more of them would probably give a number between {low} and {high}."
    )


def _group_sentences(spec: ReleaseSpec, planned: MechanismPlan, groups: ExpectedGroups) -> list[str]:
    width, sd = size_text(groups.width.median, groups.is_share), size_text(groups.sd, groups.is_share)
    plain, unseen = (size_text(each, groups.is_share, "") for each in (groups.nonprivate_width, groups.unseen_width))
    mean, of_100 = rounded(groups.mean, groups.sd), ""
    if groups.is_share:
        mean, of_100 = percent(groups.mean, groups.sd), ", where the whole range is 100"
    size = groups.n_records / groups.n_groups
    sentences = [
        f"{_cost(spec, planned)}, expect a 90 % interval for {groups.parameter} of a group about {width} "
        f"wide{of_100}; without privacy it would be {plain}. The numbers are medians over {groups.trials} "
        f"simulated data sets of {groups.n_groups:,} groups with {rounded(size, size)} records on average.",
        f"Over the groups, {groups.parameter} is assumed to average {mean}, with a standard deviation of {sd}"
        f"{f'; that within a group is {rounded(groups.sd_within, groups.sd_within)}' if groups.sd_within else ''}.",
    ]
    if not isinstance(spec.stated_in_full["by"]["column"], str):
        sentences.append("The simulated groups are not within larger groups, from which they would learn more.")
    if groups.is_worthless:
        sentences.append(
            f"WARNING: without any records of the group, the interval would be {unseen} wide, so the release would say "
            "little about one group. Spend more epsilon, or use more records."
        )
    return sentences


def _about_found_keys(threshold: KeyThreshold) -> str:
    likely, sure = rounded(threshold.records, threshold.records), f"{threshold.sure_records:,}"
    return (
        f"The keys of the groups will be found in the data: a group with fewer than about {likely} records is likely "
        f"missing, and one with at least {sure} records is published with a probability of 95 % or more."
    )


def _predictions(expected: ExpectedPredictions | None) -> str:
    if expected is None:
        return ""
    right, score = expected.measure == "accuracy", expected.score
    numbers = score.median, score.low, score.high, expected.nonprivate_score, expected.guessing_score
    width = max(score.high - score.low, _ACCURACY * abs(score.median))
    about, low, high, plain, guessing = ((percent if right else rounded)(each, width) for each in numbers)
    seems_better = numbers[0] > numbers[3] if right else numbers[0] < numbers[3]  # by chance, in few simulations
    plain = "about the same" if seems_better else plain
    between = f"(90 % interval {low} to {high}); without privacy it would be {plain}, and by"
    if right:
        return (
            f"expect about {about} of new records to be classified correctly {between} guessing the commonest class "
            f"{guessing}. This holds for data sets simulated from the prior; yours may be easier or harder to predict."
        )
    return (
        f"expect predictions with a {expected.measure} of about {about} {between} always guessing the same number "
        f"{guessing}."
    )


def warnings_of(model: Model, mechanism: str, expected: Expectation) -> list[str]:
    """Return what makes the expected result worth nothing, or hardly about the data; empty if nothing does."""
    warnings = []
    predictions, interval = expected.predictions, expected.intervals[expected.main]
    if predictions and predictions.is_worthless:
        than = "guessing the commonest class" if predictions.measure == "accuracy" else "always guessing one number"
        warnings.append(f"predictions would be worth nothing: no better than {than}.")
    if interval.is_worthless and (warning := worthless_answer(model, expected)):
        warnings.append(warning)
    if expected.sd_of == "posterior" and interval.width.median < _TOO_NARROW * interval.nonprivate_width:
        warnings.append(
            f"{mechanism} strengthens the prior so much that draws of {expected.main} are closer together than "
            "without privacy: they say more about the prior than about the data."
        )
    return warnings


def worthless_answer(model: Model, expected: Expectation) -> str:
    """Return a warning that the posterior tells no more than the prior; empty if no posterior is expected."""
    interval, is_share = expected.intervals[expected.main], model.main_fact.is_share
    if expected.sd_of != "posterior" or interval.prior_width is None:
        return ""
    return (
        f"the answer about {expected.main} would be worth nothing: its interval would be no narrower than before "
        f"the release. The prior alone gives {size_text(interval.prior_width, is_share)}. Spend more epsilon, or "
        "use more records."
    )


def _cost(spec: ReleaseSpec, planned: MechanismPlan) -> str:
    """Return the stated privacy cost as the start of a sentence."""
    order = planned.plan.parameters.get("order") if planned.plan else None
    stated = {key: spec.privacy.values.get(key) for key in ("epsilon", "delta", "rho", "mu")}
    costs = [f"{key} {float_text(float(value))}" for key, value in stated.items() if value is not None]
    if not costs:
        return f"With {spec.mechanism}"
    return f"At {' and '.join(costs)}" if order is None else f"At Renyi {' and '.join(costs)} of order {order:g}"


def best_sentence(plans: Sequence[Mapping[str, Any]]) -> str:
    """Return by how much the first plan's posterior is narrower than the second one's; empty if there are not two.

    Of regressions, errors of estimated effects are compared.

    Args:
        plans: the described plans, the best first; point estimates and dearer plans do not count.
    """
    affordable = [each for each in plans if each["expected"] and not each["costs_more"]]
    simulated = [each for each in affordable if each["expected"].get("sd_of") != "estimate"]
    if len(simulated) < 2:
        return ""
    first, second = simulated[:2]
    if first["expected"]["effect_error"] is not None:
        less = 100.0 * (1.0 - first["expected"]["effect_error"] / second["expected"]["effect_error"])
        than = f"those of {second['mechanism']}"
        if less < 1.0:
            return f"effects estimated by {first['mechanism']} err about as much as {than}"
        return f"effects estimated by {first['mechanism']} err {less:.0f} % less than {than}"
    less = 100.0 * (1.0 - first["expected"]["posterior_sd"] / second["expected"]["posterior_sd"])
    best, next_best = first["mechanism"], second["mechanism"]
    if less < 1.0:
        return f"{best} and {next_best} have about equally narrow posteriors"
    return f"{best} has the narrowest posterior: its sd is {less:.0f} % below that of {next_best}"
