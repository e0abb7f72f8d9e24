"""What holds over all records of the groups together, from the sums of the released integers.

The mean over groups gives each group the same weight, and its model takes large and small groups to be alike. Sums over
groups need no such assumption. They describe the records that were read, so that the noise alone makes them uncertain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import UnsetType

from dpbayes_cli.bundle.report.digits import percent, rounded
from dpbayes_cli.bundle.report.wording import is_pooled
from dpbayes_cli.bundle.stated_request import model_of
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.model import Model
from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.document_parts import ReleasedGroups

_NORMAL_QUANTILE = 1.645
_LEAST_RATIO = 5.0
"""Nothing is said if the number of records is smaller than this multiple of the noise on it."""


def overall_sentences(document: ReleaseDocument) -> Iterator[str]:
    """Yield a sentence about all records of groups with listed keys, and a note if the mean over groups differs.

    Within larger groups there is no note: the mean gives each larger group the same weight, so it differs anyway.
    """
    groups, model = document.groups, model_of(document)
    if isinstance(groups, UnsetType) or not groups.values:
        return
    sd = groups.noise_scale * (2.0**0.5 if document.mechanism == "laplace" else 1.0)
    means = _means(groups, model, sd)
    if means is None:
        return
    estimates, errors = means
    low, high = estimates - _NORMAL_QUANTILE * errors, estimates + _NORMAL_QUANTILE * errors
    write, shown, is_apart = percent if model.main_fact.is_share else rounded, [], False
    names = model.group_parameters[: len(estimates)]
    for k, (name, overall) in enumerate(zip(names, document.posterior.values(), strict=False)):
        number, *ends = (write(float(x), float(high[k] - low[k])) for x in (estimates[k], low[k], high[k]))
        of = f"{name} " if len(estimates) > 1 else ""
        shown.append(f"{of}{number} ({ends[0]} to {ends[1]})")
        if overall.q05 is not None and overall.q95 is not None:
            is_apart |= high[k] < overall.q05 or low[k] > overall.q95
    yield (
        f"In all records of the groups together, where large groups count more: {', '.join(shown)}, with a 90 % "
        "interval for the noise alone."
    )
    if is_apart and is_pooled(document) and isinstance(document.extreme_larger_groups, UnsetType):
        yield (
            "NOTE: that is outside the interval of the mean over groups, so groups with many records seem to differ "
            "from groups with few. The model takes them to be alike: the mean over groups and the estimates of small "
            "groups may be too near to those of large groups."
        )


def _means(groups: ReleasedGroups, model: Model, sd: float) -> tuple[Floats, Floats] | None:
    """Return the shares or the mean of all records and their errors, each of shape (n_parameters,) or (1,).

    The result is None if noise hides the number of records, or if the groups' parameters are no means or shares.

    Args:
        sd: the standard deviation of the noise on each integer.
    """
    rows = np.array(groups.values, dtype=np.float64).reshape(-1, len(groups.components))
    totals, error, column = rows.sum(axis=0), sd * len(rows) ** 0.5, model.columns[-1]
    if not isinstance(column, NumericColumn):
        n = float(totals.sum())
        if n < _LEAST_RATIO * error * len(totals) ** 0.5:
            return None
        shares = totals / n
        errors = error / n * np.sqrt((1.0 - shares) ** 2 + (len(totals) - 1) * shares**2)
        n_parameters = len(model.group_parameters)
        return np.clip(shares[:n_parameters], 0.0, 1.0), errors[:n_parameters]
    n = float(totals[-1]) * (2.0 if model.sums_squares else 1.0)
    of_group = getattr(model, "base", None)
    if of_group is None or not of_group.has_linear_mean or float(totals[-1]) < _LEAST_RATIO * error:
        return None
    place, half = float(totals[0]) / n, (column.upper - column.lower) / 2.0
    slope = place * (2.0 if model.sums_squares else 1.0)
    mean = float(np.clip(column.lower + half * (1.0 + place), column.lower, column.upper))
    return np.array([mean]), np.array([half * error / n * (1.0 + slope**2) ** 0.5])
