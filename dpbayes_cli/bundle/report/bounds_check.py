"""Warnings that the prior or the posterior does not fit the public bounds, made from public values alone."""

from __future__ import annotations

from collections.abc import Sequence

from dpbayes_cli.base.numeric import float_text
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.stated_request import model_of
from dpbayes_cli.core.columns import NumericColumn, RecordPolicy
from dpbayes_cli.core.model import Model, NoisyStatistics
from dpbayes_cli.privacy.lazy_numpy import np

_PRIOR_DRAWS = 2000
_NEAR_SHARE = 0.05
"""A mean is close to a bound if its interval is within this share of the range between the bounds."""
_MIN_PRIOR_SHARE = 0.01
"""The smallest share of the prior inside the bounds that causes no warning."""


def prior_outside_bounds(model: Model, policy: RecordPolicy) -> str:
    """Return a warning if, under the prior, the mean of a column is hardly ever inside its bounds; else an empty text.

    Parameters are drawn from the prior with a fixed seed. For a regression, the mean is that of the target if every
    feature is in the middle of its bounds.
    """
    columns = _columns(model)
    if not columns or not isinstance(model, NoisyStatistics):
        return ""
    rng = np.random.default_rng(0)
    inside = dict.fromkeys(columns, 0)
    for _ in range(_PRIOR_DRAWS):
        means = model.predictive(model.simulated(policy, 1, rng)[0])
        for name, mean in means.items():
            inside[name] += columns[name].lower <= mean <= columns[name].upper
    for name in means:
        if inside[name] < _MIN_PRIOR_SHARE * _PRIOR_DRAWS:
            of_column = f" of {name}" if model.column_names else ""
            return (
                f"under the stated prior, the mean{of_column} is inside the bounds, {_range(columns[name])}, with a "
                "probability of less than 1 %: the posterior may follow the prior, not the data; the default prior "
                "fits the bounds"
            )
    return ""


def left_bounds(document: ReleaseDocument) -> list[str]:
    """Return a warning for each column whose mean has a 90 % interval that leaves the public bounds or is near one.

    For a regression, the result is empty, because the mean of its target depends on several parameters at once.
    """
    model = model_of(document)
    columns, summaries = _columns(model), list(document.posterior.values())
    if model.column_names and not all(f"mean[{name}]" in document.posterior for name in columns):
        return []
    ends: list[Sequence[float]] = [
        [end for end in (getattr(summary, name) for summary in summaries) if end is not None] for name in ("q05", "q95")
    ]
    if not columns or any(len(each) < len(summaries) for each in ends):
        return []
    low, high = (model.predictive(each) for each in ends)
    warnings = []
    for name in low:
        bounds = columns[name]
        of_column, near = f" of {name}" if model.column_names else "", _NEAR_SHARE * (bounds.upper - bounds.lower)
        if not all(bounds.lower <= end[name] <= bounds.upper for end in (low, high)):
            warnings.append(
                f"the 90 % interval of the mean{of_column} leaves the public bounds, {_range(bounds)}: the noise is "
                "too large, or the prior or the bounds do not fit the numbers"
            )
        elif low[name] > bounds.upper - near or (bounds.lower != 0.0 and high[name] < bounds.lower + near):
            warnings.append(
                f"the mean{of_column} is close to one of the public bounds, {_range(bounds)}: most numbers may be "
                "beyond them; check the bounds and their unit"
            )
    return warnings


def _columns(model: Model) -> dict[str, NumericColumn]:
    """Return the columns of numbers by the keys of ``predictive``; empty for any other model."""
    numbers = [column for column in model.columns if isinstance(column, NumericColumn)]
    if len(numbers) < len(model.columns):
        return {}
    return {column.role: column for column in numbers} if model.column_names else {"mean": numbers[0]}


def _range(column: NumericColumn) -> str:
    return f"{float_text(column.lower)} to {float_text(column.upper)}"
