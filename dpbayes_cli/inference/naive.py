"""The plug-in posterior of counts (method ``naive``), which uses the nearest possible counts as if they were exact.

This posterior ignores the noise and is therefore too narrow. It is offered because papers compare with it.

Source: Zhang, Rubinstein and Dimitrakakis 2016, Alg. 1 (projection); Foulds et al. 2016 sec. 3.2.
"""

from __future__ import annotations

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.noisy_observation import NoisyCounts, RecordCount


def naive_shape(observation: NoisyCounts) -> Floats:
    """Return the parameters of the plug-in Dirichlet posterior, shape (n_categories,)."""
    n = observation.total.n
    if None in observation.observed:  # one of two counts was released, and the record count is known
        counts = np.array([np.nan if y is None else min(max(y, 0), n) for y in observation.observed], dtype=float)
        counts[np.isnan(counts)] = n - np.nansum(counts)
        return counts + observation.concentration
    observed = np.array(observation.observed, dtype=float)
    return nearest_counts(observed, observation.total) + observation.concentration


def nearest_counts(observed: Floats, total: RecordCount) -> Floats:
    """Return the non-negative real counts nearest to noisy counts, of the same shape, with a sum that is possible."""
    counts = np.maximum(observed, 0.0)
    if total.kind == "known" or (total.kind == "at-most" and counts.sum() > total.n):
        return project_on_simplex(observed.ravel(), total.n).reshape(observed.shape)
    return counts


def project_on_simplex(point: Floats, total: float) -> Floats:
    """Return the non-negative point nearest in Euclidean distance whose components add up to the total.

    Source: Held, Wolfe and Crowder 1974: subtract one threshold from all components and clip at zero.
    """
    descending = np.sort(point)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(point) + 1)
    kept = int(np.flatnonzero(descending > excess)[-1]) if total > 0 else 0
    threshold = excess[kept] if total > 0 else descending[0]
    return np.asarray(np.maximum(point - threshold, 0.0))
