"""Nodes at which the likelihood of a group's noisy sum is computed: numbers of records, and coordinates.

Both are placed group by group, close together where the posterior of the group is large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.groups.record_moments import RecordMoments
from dpbayes_cli.inference.groups.size_law import log_sizes

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.privacy.noise import NoiseLaw

_SIZE_NODES, _MORE_SIZE_NODES, _SIZE_CANDIDATES = 21, 50, 200
"""More nodes are used if the noise is wider than the law of the sizes: the window is then much wider, too."""
_NEAR_NOISY_SIZE = np.linspace(-8.0, 8.0, 65)
"""Distances of candidates from the noisy size, in noise scales."""
_SMALLEST = np.array([1.0, 2.0, 3.0, 5.0, 8.0])
"""The smallest possible sizes are nodes, because the law of the sizes may be concentrated on them."""
_WINDOW_NATS, _NEAR_SCALES = 16.0, 4.0
"""The window of sizes ends where the noise is exp(-16) times less likely than zero noise, and contains sizes within
four noise scales of the noisy size."""
_TABLE_POINTS = 2049
_MOST_MOVED = 0.45
"""A parabola takes at most this share of the weights of its outer nodes; a node may be the outer node of two."""
_MOST_PARTS = 12
"""A gap between nodes of sizes is divided into at most this many parts."""
_COMMON, _LOCAL, _FEW_COMMON = 18, 21, 5
"""The numbers of nodes that are evenly spaced in the core, that follow the group's posterior, and that are evenly
spaced in the core after a refinement."""
_LOCAL_REACH = 6.0
_TAIL_OFFSETS = np.array([2.4, 3.0, 3.6, 4.3, 5.2])
"""Distances of nodes from the mean, in standard deviations, where the posterior may fall fast between other nodes."""
_OUTSIDE = (0.02, 0.1, 0.4)
"""Places of nodes outside the core, as shares of the distance from the core to an end of the domain."""
_SIZE_POWER, _MONITOR_POWER = 0.28, 0.25
"""The density of nodes of sizes, and of coordinates, is proportional to this power of the posterior density, so that
nodes reach into its tails."""
_TINY = 1e-9


def log_noise_of_size(noise: NoiseLaw, steps: float, observed: Floats, numbers: Floats) -> Floats:
    """Return the log-probability of each group's noisy size, up to a constant, given possible sizes.

    Args:
        noise: the noise.
        steps: the amount that a record adds to the noisy size.
        observed: the noisy sizes, shape (n_groups,).
        numbers: the possible sizes, shape (n_groups, n_nodes).
    """
    return noise.log_pmf(np.rint(observed[:, None] - steps * numbers).astype(np.int64))


def number_nodes(noise: NoiseLaw, steps: float, observed: Floats, laws: Floats, fewest: int = 0) -> Floats:
    """Return numbers of records, ascending integers, shape (n_groups, n_nodes).

    They cover the window around the noisy size, unless the laws of the sizes are much narrower. If the window has more
    integers than there are nodes, more nodes lie where the size is likely.

    Args:
        noise: the noise.
        steps: the amount that a record adds to the noisy size.
        observed: the noisy sizes, shape (n_groups,).
        laws: possible laws of the sizes, each a log mean and a log shape, shape (n_laws, 2).
        fewest: the smallest possible number of records.
    """
    # groups whose noisy sizes round to the same integer have the same nodes
    seen, group = np.unique(np.rint(observed / steps), return_inverse=True)
    radius, scale = noise.radius(_WINDOW_NATS) / steps + 1.0, noise.scale / steps
    mean, shape = np.exp(laws).T
    sd = np.sqrt(mean + mean**2 / shape)
    near = np.maximum(seen, 0.0)
    least, most = (mean - 8.0 * sd).min() - 5.0, (mean + 16.0 * sd).max() + 5.0
    low = np.maximum(seen - radius, np.minimum(least, near - _NEAR_SCALES * scale))
    high = np.minimum(seen + radius, np.maximum(most, near + _NEAR_SCALES * scale))
    # if the noisy size is far from all plausible sizes, the window reaches them
    low = np.where(low > (mean + 4.0 * sd).max(), least, low)
    high = np.where(high < (mean - 4.0 * sd).min(), most, high)
    low = np.floor(np.maximum(low, fewest))
    high = np.ceil(np.maximum(high, low + 2.0))
    candidates = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, _SIZE_CANDIDATES)
    likely = np.clip(near[:, None] + scale * _NEAR_NOISY_SIZE, low[:, None], high[:, None])
    candidates = np.sort(np.concatenate([candidates, likely], axis=1), axis=1)
    table = np.expm1(np.linspace(0.0, np.log1p(high.max()), _TABLE_POINTS))
    sizes = np.logaddexp.reduce([log_sizes(table, *law) for law in zip(mean, shape, strict=True)])
    log_weight = log_noise_of_size(noise, steps, steps * seen, candidates) + np.interp(candidates, table, sizes)
    monitor = np.exp(_SIZE_POWER * (log_weight - log_weight.max(axis=1, keepdims=True)))
    count = _SIZE_NODES if scale <= sd.max() else _MORE_SIZE_NODES
    nodes = np.rint(distribute_evenly(candidates, monitor, count, 0.1))
    kink = np.clip(seen, low, high)[:, None]
    smallest = np.minimum(low[:, None] + _SMALLEST, high[:, None])
    nodes = np.sort(np.concatenate([nodes, kink, smallest], axis=1), axis=1)
    count = nodes.shape[1]
    few = np.minimum(low[:, None] + np.arange(float(count)), high[:, None])
    return np.asarray(np.where((high - low < count)[:, None], few, nodes)[group])


def log_size_weights(noise: NoiseLaw, steps: float, observed: Floats, numbers: Floats) -> Floats:
    """Return log weights of the nodes, so that sums over nodes replace sums over all sizes.

    The sum over all sizes of the probability of the noisy size, times a function, is the sum over nodes of weight times
    function. The function may be a parabola near each node; it may be linear if the gaps between nodes differ so much
    that parabolas would give negative weights. Repeated nodes share a weight, or have the weight zero.

    Args:
        noise, steps, observed: see ``number_nodes``.
        numbers: ascending integers, shape (n_groups, n_nodes).
    """
    gaps = np.diff(numbers, axis=1)
    parts = np.clip(gaps, 1.0, _MOST_PARTS)
    left, right, bend = np.zeros((3, *gaps.shape))
    ends = log_noise_of_size(noise, steps, observed, numbers)
    nearest = np.clip(observed / steps, numbers[:, 0], numbers[:, -1])[:, None]  # it may be between nodes
    largest = log_noise_of_size(noise, steps, observed, nearest)
    for i in range(_MOST_PARTS + 1):
        share = np.minimum(i / parts, 1.0)
        terms = np.exp(log_noise_of_size(noise, steps, observed, numbers[:, :-1] + share * gaps) - largest)
        terms *= np.where(i > parts, 0.0, np.where((i == 0) | (i == parts), 0.5, 1.0)) * gaps / parts
        left += (1.0 - share) * terms
        right += share * terms
        bend += share * (1.0 - share) * terms
    weights = np.zeros_like(numbers)
    weights[:, :-1] += left
    weights[:, 1:] += right
    bend *= gaps**2
    # each gap has the mean of the parabolas through its two ends and the node before, and the node after
    is_whole = (gaps[:, :-1] > 0.0) & (gaps[:, 1:] > 0.0)
    before, after = np.where(is_whole, gaps[:, :-1], 1.0), np.where(is_whole, gaps[:, 1:], 1.0)
    n_parabolas = np.zeros_like(gaps)
    n_parabolas[:, :-1] += is_whole
    n_parabolas[:, 1:] += is_whole
    bend /= np.maximum(n_parabolas, 1.0)
    moved = is_whole * (bend[:, :-1] + bend[:, 1:])
    from_left, from_right = before * (before + after), after * (before + after)
    moved = np.minimum(moved, _MOST_MOVED * np.minimum(weights[:, :-2] * from_left, weights[:, 2:] * from_right))
    weights[:, 1:-1] += moved / (before * after)
    weights[:, :-2] -= moved / from_left
    weights[:, 2:] -= moved / from_right
    for end in (0, -1):
        weights[:, end] += 0.5 * np.exp(ends[:, end] - largest[:, 0])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights) + largest)


def distribute_evenly(nodes: Floats, monitor: Floats, count: int, even_share: float) -> Floats:
    """Return nodes with equal integrals of a monitor function between them, shape (n_groups, count).

    Args:
        nodes: ascending nodes, shape (n_groups, n_nodes).
        monitor: the values of the function at the nodes, not negative; between nodes it is taken to be exponential.
        count: the number of new nodes; the first and the last are the ends of the old range.
        even_share: the share of the new nodes that is spread evenly over the range.
    """
    gaps = np.diff(nodes, axis=1)
    ratio = np.log((monitor[:, 1:] + _TINY) / (monitor[:, :-1] + _TINY))
    is_flat = np.abs(ratio) < 1e-3
    average = np.diff(monitor, axis=1) / np.where(is_flat, 1.0, ratio)
    pieces = gaps * (np.where(is_flat, monitor[:, 1:], average) + _TINY)
    pieces = (1.0 - even_share) * pieces / pieces.sum(axis=1, keepdims=True) + even_share * gaps / gaps.sum(
        axis=1, keepdims=True
    )
    places = np.concatenate([np.zeros((len(nodes), 1)), np.cumsum(pieces, axis=1)], axis=1)
    places /= places[:, -1:]
    result = interpolate_rows(np.linspace(0.0, 1.0, count), places, nodes)
    result[:, [0, -1]] = nodes[:, [0, -1]]
    return result


def interpolate_rows(levels: Floats, places: Floats, values: Floats) -> Floats:
    """Return values interpolated at the same levels in each row, given those at ascending places from 0 to 1."""
    # the rows one after another are one ascending function, which is interpolated at once
    row = np.arange(len(values))[:, None]
    return np.interp(levels + row, (places + row).ravel(), values.ravel())


def first_coordinates(
    moments: RecordMoments, noise: NoiseLaw, observed: Floats, sizes: Floats, size_variances: Floats, spread: float
) -> Floats:
    """Return coordinates around a normal approximation of each group's posterior, shape (n_groups, n_nodes).

    Args:
        moments: the moments of a record.
        noise: the noise.
        observed: the noisy sums, shape (n_groups,).
        sizes, size_variances: the approximate sizes and their variances, shape (n_groups,).
        spread: the assumed standard deviation of the groups' coordinates.
    """
    n = np.maximum(sizes, 0.5)
    overall = float(moments.coordinate_of(np.array(observed.sum() / n.sum())))
    guess = moments.coordinate_of(observed / n)
    # a group whose noisy mean is near an end of the range would have no slope there, hence the shrinkage
    guess = overall + np.clip(guess - overall, -3.0 * spread, 3.0 * spread)
    mean, sd = moments.at(guess)
    variance = n * sd**2 + size_variances * mean**2 + noise.variance
    slope = n * moments.slope(guess)
    precision = slope**2 / variance
    total = precision + spread**-2
    middle = overall + (guess - overall) * precision / total
    local = middle[:, None] + total[:, None] ** -0.5 * np.linspace(-_LOCAL_REACH, _LOCAL_REACH, _LOCAL)
    return merge_nodes(moments, local, _COMMON)


def refined_coordinates(moments: RecordMoments, nodes: Floats, masses: Floats) -> Floats:
    """Return nodes that are closer together where the posterior on the old nodes is large; same shape.

    Args:
        moments: the moments of a record.
        nodes: ascending coordinates, shape (n_groups, n_nodes).
        masses: the posterior probabilities of the nodes.
    """
    edges = np.concatenate([nodes[:, :1], (nodes[:, 1:] + nodes[:, :-1]) / 2.0, nodes[:, -1:]], axis=1)
    density = masses / np.diff(edges, axis=1)
    monitor = (density / density.max(axis=1, keepdims=True)) ** _MONITOR_POWER
    mean, sd = weighted_moments(nodes, masses)
    tails = mean[:, None] + sd[:, None] * np.concatenate([-_TAIL_OFFSETS, _TAIL_OFFSETS])
    local = distribute_evenly(nodes, monitor, _LOCAL + _COMMON - _FEW_COMMON - tails.shape[1], 0.0)
    return merge_nodes(moments, np.concatenate([local, tails], axis=1), _FEW_COMMON)


def weighted_moments(values: Floats, masses: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of each row of values under the probabilities in that row."""
    mean = (values * masses).sum(axis=1)
    return mean, np.sqrt((masses * (values - mean[:, None]) ** 2).sum(axis=1))


def merge_nodes(moments: RecordMoments, local: Floats, count: int) -> Floats:
    """Return the local nodes, evenly spaced nodes of the core, a few beyond, and the ends of the domain, ascending."""
    (begin, end), (low, high) = moments.domain, moments.core
    beyond = [low + (begin - low) * share for share in _OUTSIDE] + [high + (end - high) * share for share in _OUTSIDE]
    common = np.concatenate([np.linspace(low, high, count), beyond])
    inner = np.concatenate([local, np.broadcast_to(common, (len(local), len(common)))], axis=1)
    count = inner.shape[1]
    least = 1e-9 * (end - begin)
    inner = np.sort(np.clip(inner, begin + least, end - least), axis=1)
    # equal nodes are moved apart by tiny distances
    ramp = least * np.arange(1, count + 1) / (count + 1)
    inner = np.maximum.accumulate(inner - ramp, axis=1) + 2.0 * ramp - least
    ends = np.broadcast_to(np.array([[begin, end]]), (len(local), 2))
    nodes = np.concatenate([ends[:, :1], inner, ends[:, 1:]], axis=1)
    # rounded to a power of two that is at most a fourth of the gap, the nodes of many groups are the same numbers
    gaps = np.diff(nodes, axis=1)
    _, exponent = np.frexp(np.minimum(gaps[:, 1:], gaps[:, :-1]))
    nodes[:, 1:-1] = np.ldexp(np.rint(np.ldexp(inner, 3 - exponent)), exponent - 3)
    return nodes
