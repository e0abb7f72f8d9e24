"""The first lines of a result: warnings, a sentence with the estimates, and how much the noise widens the interval.

The terminal, the Markdown report and the page show these lines before anything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

from msgspec import UnsetType

from dpbayes_cli.base.numeric import Floats, cost_text, float_text
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.document_parts import ParameterSummary, ReleasedGuarantee, StatedResult, ValidRecords
from dpbayes_cli.bundle.files import keys_of
from dpbayes_cli.bundle.group_table import larger_names
from dpbayes_cli.bundle.report.digits import percent, rounded, size_text
from dpbayes_cli.bundle.report.group_headline import extremes_sentence
from dpbayes_cli.bundle.report.intervals import (
    Intervals,
    share_of_log_without_noise,
    share_without_noise,
    stored_intervals,
)
from dpbayes_cli.bundle.report.prior import prior_ends
from dpbayes_cli.bundle.report.validity import left_bounds, not_counted_text, validity_warning
from dpbayes_cli.bundle.report.wording import are_estimates, guarantee_text, is_pooled
from dpbayes_cli.bundle.stated_request import model_of
from dpbayes_cli.core.findings import Fact, Findings
from dpbayes_cli.privacy.lazy_numpy import np

_MIN_DRAWS = 20
"""If fewer draws were released, the sentence shows their smallest and largest value instead of an interval."""
_NEARLY = 0.7
"""If an interval is wider than this share of the prior's, more than half of the prior's variance is left."""
_LEAST_RATIO = 1e-300
_WIDE_RATIO = 10.0
"""If the ends of a ratio's interval differ by a larger factor, each number has two digits of its own."""
_NAMED, _MANY = 3, 20
"""A warning names up to 3 parameters, and only their number if the model has more than 20."""


def result_lines(document: ReleaseDocument, intervals: Intervals | None = None) -> list[str]:
    """Return the first lines of a result, each of one or more sentences, by default with the document's intervals."""
    sentences = result_sentence(document, intervals), privacy_width_sentence(document, intervals)
    return [*warnings_before(document), *filter(None, sentences)]


def warnings_before(document: ReleaseDocument) -> list[str]:
    """Return the notes and warnings of a result, each a text of one or more sentences."""
    warnings = [*document.inference.warnings, *left_bounds(document), *hidden_by_noise(document)]
    about_records = not_counted_text(document) or validity_warning(document)
    findings = findings_of(document)
    about_table = f"{'WARNING' if findings.is_warning else 'note'}: {findings.note}" if findings.note else ""
    return [*filter(None, [about_records, about_table]), *(f"WARNING: {each}" for each in warnings)]


def hidden_by_noise(document: ReleaseDocument) -> list[str]:
    """Return a warning if the noise hides what the records say about parameters.

    Their intervals are then nearly as wide as those of the prior, and would be narrower without the noise.
    """
    if document.draws or is_pooled(document) or model_of(document).effects:  # inference warns about effects
        return []
    stored = stored_intervals(document)
    hidden = []
    for name, (prior_low, prior_high) in prior_ends(document, model_of(document), stored.tails).items():
        low, high = stored.ends.get(name, (0.0, 0.0))
        limit, remaining = _NEARLY * (prior_high - prior_low), share_without_noise(document, name)
        if remaining is not None and high - low > limit > remaining * (high - low):
            hidden.append(name)
    if not hidden:
        return []
    more = len(hidden) - _NAMED
    names = ", ".join(hidden[:_NAMED]) + (f" and {more} other parameter{'s' * (more > 1)}" if more > 0 else "")
    if len(document.posterior) > _MANY:
        names = f"{len(hidden):,} of {len(document.posterior):,} parameters"
    return [
        f"the noise hides most of what the records say about {names}: intervals are "
        "mainly those of the prior, and true values may be outside both. More epsilon, more records, or bounds closer "
        "to the numbers would tell more"
    ]


def result_sentence(document: ReleaseDocument, intervals: Intervals | None = None) -> str:
    """Return a sentence with the estimates, their intervals (by default those in the document) and the guarantee."""
    shown = intervals or stored_intervals(document)
    findings = findings_of(document)
    *others, last = (_clause(fact, document, shown) for fact in findings.facts)
    clauses = ", and ".join(filter(None, [", ".join(others), last]))
    start = f"{findings.topic}: " if findings.topic else ""
    people = "valid records" if isinstance(document.valid_records, ValidRecords) else "records"
    is_named = model_of(document).column_names or document.spec.get("column")
    of = "" if is_named else f" of '{document.account}'"
    start += f"in the population that the {people}{of} represent, "
    sentence = f"{start}{clauses}, under {_guarantee(document.guarantee)}."
    return " ".join(filter(None, [extremes_sentence(document), sentence[:1].upper() + sentence[1:]]))


def stated_results(document: ReleaseDocument, samples: Floats) -> list[StatedResult]:
    """Return the numbers that ``result_sentence`` states, with 90 % intervals, from the samples of the posterior."""
    shown, results = replace(stored_intervals(document), samples=samples), []
    for fact in findings_of(document).facts:
        name = list(document.posterior)[fact.parameter]
        estimate, ends = _estimate_and_ends(fact, document, shown)
        low, high = ends or (None, None)
        statement, _ = _statement(fact, document, shown)
        results.append(StatedResult(statement=statement, parameter=name, estimate=estimate, q05=low, q95=high))
    return results


def privacy_width_sentence(document: ReleaseDocument, intervals: Intervals | None = None) -> str:
    """Return how much of the width of the first interval the noise for privacy causes; empty if this is unknown.

    It is known for the interval of a parameter, of a ratio, or of a mean of clamped numbers.
    """
    shown = intervals or stored_intervals(document)
    facts = findings_of(document).facts
    fact = facts[0]
    _, ends = _estimate_and_ends(fact, document, shown)
    has_width = bool(ends) and ends[1] > ends[0]  # at a bound, all samples of a clamped mean may be equal
    remaining = _share_without_noise(fact, document, shown.level, ends) if has_width else None
    if remaining is None:
        return ""
    if validity_warning(document).startswith("WARNING"):  # the prior may make up most of the width
        return ""
    which = "the width of the first interval" if len(facts) > 1 else "the width of this interval"
    if not isinstance(document.extreme_groups, UnsetType):
        which = "the width of the interval of this average"
    if remaining > 0.99:
        return f"The noise for privacy makes up less than 1 % of {which}."
    low, high = ends
    if fact.ratio:  # its logarithm has the interval that the noise widens evenly
        times, without = (rounded(each, each - 1.0) for each in (high / low, (high / low) ** remaining))
        share = f"{100.0 * (1.0 - remaining):.0f} %"
        return (
            f"The noise for privacy makes up about {share} of {which}, on a log scale; without noise, its upper end "
            f"would be about {without} times its lower end, and not {times} times."
        )
    width = remaining * (high - low)
    return (
        f"The noise for privacy makes up about {100.0 * (1.0 - remaining):.0f} % of {which}; without noise, the "
        f"interval would be about {size_text(width, fact.is_share)} wide."
    )


def _share_without_noise(fact: Fact, document: ReleaseDocument, level: float, ends: Sequence[float]) -> float | None:
    """Return the share of the width of a fact's interval that would remain without noise; None if it is unknown."""
    if fact.ratio:
        return share_of_log_without_noise(document, fact.ratio)
    valid = document.valid_records
    n = valid.mean if isinstance(valid, ValidRecords) else document.n_records
    if fact.variance_of_record is not None and n and document.inference.method != "naive":
        sd = math.sqrt(fact.variance_of_record / n)
        return min(2.0 * NormalDist().inv_cdf((1.0 + level) / 2.0) * sd / (ends[1] - ends[0]), 1.0)
    name = list(document.posterior)[fact.parameter]
    return share_without_noise(document, name) if fact.of_samples is None else None


def findings_of(document: ReleaseDocument) -> Findings:
    """Return what the model reports as its most important results, with the name of the column if it is stated."""
    model = model_of(document)
    column = "" if model.column_names else document.spec.get("column") or ""
    column = f"column {column}" if column.isdigit() else column  # a position
    findings, chosen = model.findings(column, [_estimate(each) for each in document.posterior.values()]), "largest"
    stated = _stated_effects(document)
    if stated and model.effects:
        clearest = max(model.effects, key=lambda effect: _clearness(stated[effect.name]))
        findings, chosen = replace(findings, facts=(clearest.fact,)), "clearest"
        low, high = stated[clearest.name].q05, stated[clearest.name].q95
        if low is not None and high is not None and low < 1.0 < high:
            findings = replace(findings, topic=f"{findings.topic}, but no 90 % interval of a ratio excludes 1")
    if findings.n_effects > 1:
        findings = replace(findings, topic=f"{findings.topic}; the {chosen} of {findings.n_effects} estimated effects")
    if is_pooled(document):  # the mean is that of the law of the groups, of which these groups are a sample
        n_groups = len(keys_of(document, document.spec))
        these = f" like these {n_groups:,}" if n_groups > 1 else " like this one" * n_groups
        if not isinstance(document.extreme_larger_groups, UnsetType):
            n_larger = len(larger_names(keys_of(document, document.spec))[0])
            these += f", in larger groups like these {n_larger:,}"
        findings = replace(findings, topic=f"on average over groups{these}")
    return findings


def numbers_of_records(document: ReleaseDocument, shown: Intervals) -> list[tuple[str, float, list[float]]]:
    """Return the name, estimate and interval of each number in the sentence that is no parameter, but has a row."""
    facts = () if document.draws else findings_of(document).facts
    return [(fact.row, *_estimate_and_ends(fact, document, shown)) for fact in facts if fact.row]


def _stated_effects(document: ReleaseDocument) -> Mapping[str, ParameterSummary]:
    return {} if isinstance(document.effects, UnsetType) else document.effects


def _clearness(ratio: ParameterSummary) -> float:
    """Return how far the estimate of a ratio is from 1, in widths of its interval on the scale of logarithms."""
    low, middle, high = (math.log(max(end or 0.0, _LEAST_RATIO)) for end in (ratio.q05, ratio.q50, ratio.q95))
    return abs(middle) / max(high - low, _LEAST_RATIO)


def _estimate(summary: ParameterSummary) -> float:
    """Return the median, or the mean if there is no median."""
    return summary.mean if summary.q50 is None else summary.q50


def _few(fact: Fact, document: ReleaseDocument) -> list[float]:
    """Return the number that a fact is about in each draw, if the draws are too few for an interval."""
    return _of_draws(fact, document) if 1 < len(document.draws) < _MIN_DRAWS else []


def _of_draws(fact: Fact, document: ReleaseDocument) -> list[float]:
    if fact.of_samples is not None:
        return list(fact.of_samples(np.array(document.draws)).tolist())
    return [fact.convert(draw[fact.parameter]) for draw in document.draws]


def _estimate_and_ends(fact: Fact, document: ReleaseDocument, shown: Intervals) -> tuple[float, list[float]]:
    """Return the number that a fact is about, and the ends of its interval, if it has one."""
    if fact.of_samples is not None and document.draws:
        drawn = _of_draws(fact, document)
        return float(np.median(drawn)), [] if len(drawn) == 1 else np.quantile(drawn, shown.tails).tolist()
    if fact.of_samples is not None and shown.samples is not None:
        low, median, high = np.quantile(fact.of_samples(shown.samples), [shown.tails[0], 0.5, shown.tails[1]]).tolist()
        return median, [low, high]
    if fact.ratio and shown.samples is None and fact.ratio in (stated := _stated_effects(document)):
        ratio = stated[fact.ratio]
        return _estimate(ratio), [end for end in (ratio.q05, ratio.q95) if end is not None]
    if fact.of_samples is not None and document.results:
        for stored in document.results:
            if stored.statement.startswith(fact.before) and stored.q05 is not None and stored.q95 is not None:
                return stored.estimate, [stored.q05, stored.q95]
    name = list(document.posterior)[fact.parameter]
    return fact.convert(_estimate(document.posterior[name])), sorted(map(fact.convert, shown.ends.get(name, ())))


def _statement(fact: Fact, document: ReleaseDocument, shown: Intervals) -> tuple[str, list[float]]:
    """Return a fact with its estimate, and the ends of its interval or of its few draws, if there are any."""
    few = _few(fact, document)
    number, ends = _estimate_and_ends(fact, document, shown)
    if few:
        ends = [min(few), max(few)]
    return " ".join(filter(None, [fact.before, _writer(fact, ends)(number), fact.after])), ends


def _writer(fact: Fact, ends: Sequence[float]) -> Callable[[float], str]:
    width = ends[1] - ends[0] if ends else 0.0
    if fact.ratio and ends and ends[1] > _WIDE_RATIO * ends[0]:
        return lambda ratio: rounded(ratio, ratio)
    return lambda number: (percent if fact.is_share else rounded)(number, width)


def _clause(fact: Fact, document: ReleaseDocument, shown: Intervals) -> str:
    few = _few(fact, document)
    clause, ends = _statement(fact, document, shown)
    if are_estimates(document):
        return f"{clause} (a private estimate; its precision is unknown)"
    if not ends:
        return f"{clause} (one private draw from the posterior; a draw has no interval)"
    low, high = map(_writer(fact, ends), ends)
    if few:
        return f"{clause} ({len(few)} private draws are between {low} and {high})"
    if document.draws:
        return f"{clause} ({shown.percent} of {len(document.draws)} private draws are between {low} and {high})"
    return f"{clause} ({shown.percent} interval {low} to {high})"


def _guarantee(guarantee: ReleasedGuarantee) -> str:
    """Return epsilon, delta unless it is zero, and the neighbor relation."""
    if guarantee.epsilon is None:
        stated = guarantee_text(guarantee) or "differential privacy"
    else:
        delta = f" and delta {float_text(guarantee.delta)}" if guarantee.delta else ""
        stated = f"epsilon {cost_text(guarantee.epsilon)}{delta}"
    return f"{stated} for {guarantee.neighbors} neighbors"
