"""What a model says about its result in plain words, for readers who know no statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpbayes_cli.base.numeric import float_text

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_NOTICEABLE = 0.02
"""If the model expects a larger share of numbers beyond the bounds, a result states the mean of the clamped numbers."""
_ALARMING = 0.2
"""If the model expects a larger share of numbers beyond the bounds, a result says so in a warning, not in a note."""
_UNUSUAL = 0.05
"""If the model expects a larger share of numbers above an upper bound that should hold nearly all, a result warns."""


@dataclass(frozen=True)
class Fact:
    """A clause about one parameter; its text is ``before``, the estimate, then ``after``.

    Attributes:
        parameter: the index of the reported parameter.
        is_share: whether the estimate is a probability, which is shown in percent.
        convert: a monotone function from the parameter to the number that the clause is about.
        of_samples: the same number as a function of all parameters, from samples of shape (n_samples, n_parameters) to
            shape (n_samples,); None if the number depends on this parameter alone.
        row: the name of the number in the table of parameters; empty if the table holds the parameter itself.
        ratio: the name of the effect if the number is a ratio, such as an odds ratio; else empty.
        variance_of_record: the variance of one record's number if the fact is about the mean of these numbers, and
            depends on several parameters; else None.
    """

    before: str
    parameter: int
    after: str = ""
    is_share: bool = False
    convert: Callable[[float], float] = float
    of_samples: Callable[[Floats], Floats] | None = None
    row: str = ""
    ratio: str = ""
    variance_of_record: float | None = None


@dataclass(frozen=True)
class Effect:
    """A number in the units of the data that follows from several parameters, such as an odds ratio.

    Attributes:
        fact: the clause with which a result may begin.
        of_samples: a function of samples of all parameters, from shape (n_samples, n_parameters) to shape (n_samples,).
        kind: what the number is, such as ``odds ratio``.
    """

    name: str
    fact: Fact
    of_samples: Callable[[Floats], Floats]
    kind: str


@dataclass(frozen=True)
class Findings:
    """The most important results of a release.

    Attributes:
        facts: one or two clauses; at least one.
        topic: a clause on what was estimated; empty if the facts say it.
        note: what a reader must know about the table of parameters; empty if there is nothing.
        is_warning: whether the note is a warning.
        caption: what the parameters in the table describe; empty if they describe the records.
        n_effects: among how many effects the fact was chosen because it is the largest; 1 if it was not chosen.
    """

    facts: tuple[Fact, ...]
    topic: str = ""
    note: str = ""
    is_warning: bool = False
    caption: str = ""
    n_effects: int = 1


def share_of(column: str, value: str, parameter: int, before: str = "about") -> Fact:
    """Return the fact that a share of the records has a value; an empty ``column`` stands for the only column."""
    which = f"have {column} = {value}" if column else f"have the value {value}"
    return Fact(before, parameter, which, is_share=True)


def mean_of(column: str, parameter: int = 0, convert: Callable[[float], float] = float) -> Fact:
    """Return the fact that the numbers of a column have a mean; an empty ``column`` stands for the only column."""
    return Fact(f"the mean of {column or 'the numbers'} is about", parameter, convert=convert)


def mean_of_clamped(column: str, lower: float, upper: float) -> Fact:
    """Return the clause on the mean of numbers of which those beyond the bounds are counted at the bound."""
    bounds = f"{float_text(lower)} to {float_text(upper)}"
    return Fact(
        f"the mean of {column or 'the numbers'}, with numbers beyond {bounds} counted at the bound, is about", 0
    )


def with_numbers_above(findings: Findings, share: float, upper: float) -> Findings:
    """Return findings with a warning if the law of the model has a large share of numbers above the upper bound."""
    if share <= _UNUSUAL:
        return findings
    warning = (
        f"under the law of the model, about {100.0 * share:.0f} % of the numbers would be above the upper bound, "
        f"{float_text(upper)}. If many of them are, the bound is too low; if few are, this law does not fit the "
        "numbers, and the result is wrong: `--model normal --out-of-bounds recorded` assumes no law. In any case, "
    )
    return replace(findings, note=warning + findings.note, is_warning=True)


def about_clamped_groups(mean: float, variance: float, lower: float, upper: float) -> str:
    """Return a warning if normal numbers of all groups, with this mean and variance, are often beyond the bounds."""
    beyond = share_beyond(mean, variance, lower, upper)
    if beyond <= _NOTICEABLE:
        return ""
    return (
        f"a normal law with this mean and spread has {100.0 * beyond:.0f} % of its numbers beyond the bounds, "
        f"{float_text(lower)} to {float_text(upper)}, and the means of groups are those of such a law before its "
        "numbers are moved to the nearer bound. If few numbers are at a bound, this law does not fit them, and the "
        "means are wrong: with `--model normal --out-of-bounds recorded`, no law is assumed"
    )


def of_clamped_normal(
    column: str, mean: float, variance: float, lower: float, upper: float, *, is_variance_known: bool
) -> Findings | None:
    """Return the mean of a normal law after clamping to the bounds; None if few numbers are beyond the bounds.

    The model reports the mean of the normal law before clamping. If many numbers equal a bound, for example if many are
    zero, the two means differ, and only the mean after clamping describes the numbers as they were recorded.

    Args:
        column: the name of the column; empty for the only column.
        mean, variance: estimates of the parameters of the law.
        lower, upper: the bounds.
        is_variance_known: whether the mean is the only parameter of the model; else the parameters are the mean and the
            variance, and the interval comes from their samples together.
    """
    beyond = share_beyond(mean, variance, lower, upper)
    if beyond <= _NOTICEABLE:
        return None

    def moved(mean: float, variance: float = variance) -> float:
        sd = math.sqrt(max(variance, 1e-300))
        low, high = (lower - mean) / sd, (upper - mean) / sd
        inside = _cdf(high) - _cdf(low)
        return lower * _cdf(low) + upper * _cdf(-high) + mean * inside + sd * (_pdf(low) - _pdf(high))

    def moved_samples(samples: Floats) -> Floats:
        import numpy as np

        return np.array([moved(*sample) for sample in samples.tolist()])

    bounds = f"{float_text(lower)} to {float_text(upper)}"
    note = (
        f"a normal law with this mean and spread has {100.0 * beyond:.0f} % of its numbers beyond the bounds, "
        f"{bounds}. The samples and the parameters in the table describe this law. The sentence, the clamped "
        "mean in the table, and `results` in release.json describe the numbers as they were recorded. If few of these "
        "are at a bound, the law does not fit them: do not use its parameters; with `--model normal --out-of-bounds "
        "recorded`, no law is assumed"
    )
    caption = f"Parameters of the normal law before its numbers beyond {bounds} are moved to the nearer bound"
    of_samples = None if is_variance_known else moved_samples
    sd, clamped = math.sqrt(max(variance, 1e-300)), moved(mean)
    low, high = (lower - mean) / sd, (upper - mean) / sd
    squares = (mean**2 + variance) * (_cdf(high) - _cdf(low))
    squares += sd * ((mean + lower) * _pdf(low) - (mean + upper) * _pdf(high))
    squares += lower**2 * _cdf(low) + upper**2 * _cdf(-high)
    fact = replace(
        mean_of_clamped(column, lower, upper),
        convert=moved,
        of_samples=of_samples,
        row="clamped mean",
        variance_of_record=None if is_variance_known else max(squares - clamped**2, 0.0),
    )
    return Findings((fact,), note=note, is_warning=beyond > _ALARMING, caption=caption)


def _cdf(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def _pdf(z: float) -> float:
    return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


def share_beyond(mean: float, variance: float, lower: float, upper: float) -> float:
    """Return the probability that a normal law gives to numbers beyond the bounds."""
    sd = math.sqrt(max(variance, 1e-300))
    return _cdf((lower - mean) / sd) + _cdf((mean - upper) / sd)


def other_columns(number: int) -> str:
    """Return a number of other columns as a text, such as ``2 other columns``."""
    return f"{number} other column{'s' * (number != 1)}"
