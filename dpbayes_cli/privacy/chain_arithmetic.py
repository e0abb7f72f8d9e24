"""A noisy descent in double precision that is as private as one in real numbers: its lattice, its box and its noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbayes_cli.privacy.noisy_descent import contraction_gap

MAX_CHUNK_RECORDS = 1 << 17
"""Records whose gradients are added up at once, in any order; the sums of pieces are added without losing more."""
SLOPE_ERROR = 2.0**-44
"""What a slope in double precision, at a predictor as it is, may be off in units of the largest slope."""
_UNIT = 2.0**-53
_FINE, _ROOM = 36, 52
"""A step's noise is 2^36 spacings of the lattice where the box leaves room; the box is 2^52 of them, and a step leaves
it by half its width at most: so whole numbers stay below 2^53, and are exact."""
_FAR = 12.0
"""Standard deviations beyond which no coefficient gets: the probability is below 1e-31 a step."""
_SECOND_ORDER = 1.01
"""Products of two relative errors, each far below a percent."""


@dataclass(frozen=True)
class ChainArithmetic:
    """The numbers that a chain w <- f(w) + noise N(0, I) runs on.

    Attributes:
        lattice: iterates are multiples of it, a power of two.
        reach: the half width of the box into which an iterate is clipped before its gradient is taken, a power of two
            and a multiple of the lattice; no chain gets there.
        noise: the standard deviation of a step's noise.
        widening: by how much that is more than sqrt(2 h), relative to it.
    """

    lattice: float
    reach: float
    noise: float
    widening: float


def chain_arithmetic(
    *,
    width: int,
    n_records: int,
    row_norm: float,
    slope: float,
    excess: float,
    curvature: float,
    power: float,
    tau: float,
    step_size: float,
) -> ChainArithmetic:
    """Return the numbers on which w <- w - h grad U(w) + sqrt(2h) N(0, I) runs without costing more.

    The chain that runs is X <- F(X) + noise N(0, I), of which every X is rounded to the lattice. F clips the rounded X
    to a box, computes w - h grad U(w) in double precision, and rounds that to the lattice. So F(X) is a multiple of it,
    and the rounded X is F(X) plus the rounded noise: this sum of whole multiples is what is computed, exactly.

    Privacy: the mu of ``descent_mu``, exactly: no probability is left aside, and no number stands in for a real one.
        The proof of that price asks of the maps f, f' of neighbors only that |f(x) - f'(y)| <= c |x - y| + s for all x
        and y, with s = h D and D = 2 beta L r. For it compares X' with chains between the two, X~ <- l F(X) +
        (1 - l) F'(X~) + noise: the inequality bounds |X - X~|, hence by how much a step of X~ differs from one of X'.
        The maps that run keep it with s = h D + 2 e + sqrt(d) lattice: rounding to the lattice moves a point by
        sqrt(d) lattice / 2 at most, clipping brings no two points farther apart, and F differs from the real map by e
        at most (below). The noise is larger than sqrt(2 h) in the same ratio, so that mu is the same.
    Source: Bok, Su and Altschuler 2024 (shifted interpolation); Higham 2002, sec. 3.1: a sum of m products in any order
        errs by g(m) = m u / (1 - m u) of the sum of their sizes at most, u = 2^-53.

    For W = sqrt(d) reach, the longest w of the box, and all data, e adds up
        h beta n L r (``SLOPE_ERROR`` + g(m + 16)): slopes, and sums of m terms or fewer at once, each of norm L r;
        h (M - tau) ((g(d) + 8 u) W + 8 u / r): linear predictors x'w, |x| <= r, in which slopes are Lipschitz;
        2 u ((1 + 4 h tau) W + 4 h beta n L r): the step itself; sqrt(d) lattice / 2: its rounding.

    Args:
        width: d, the number of coefficients.
        n_records: n, how many records there are at most.
        row_norm: r.
        slope: L r, the largest gradient norm of one record's loss.
        excess: the most by which one record's loss at w = 0 exceeds its infimum.
        curvature: M - tau, the most by which the losses curve the potential.
        power, tau: likelihood power, beta, and prior precision.
        step_size: h.
    """
    sd, gap = math.sqrt(2.0 * step_size), contraction_gap(step_size, tau, curvature + tau)
    push, root = step_size * power * n_records * slope, math.sqrt(width)
    mode = math.sqrt(2.0 * power * n_records * excess / tau)  # U(w) <= U(0) at the mode
    farthest = 2.0 * mode + (root + _FAR) * sd / math.sqrt(gap * (2.0 - gap))
    reach = 2.0 ** math.ceil(math.log2(max(farthest, 2.0 * push)))
    lattice = max(2.0 ** (math.floor(math.log2(sd)) - _FINE), reach * 2.0**-_ROOM)
    longest = root * reach
    sums = push * (SLOPE_ERROR + _sum_error(min(n_records, MAX_CHUNK_RECORDS) + 16))
    predictors = step_size * curvature * ((_sum_error(width) + 8.0 * _UNIT) * longest + 8.0 * _UNIT / row_norm)
    moves = 2.0 * _UNIT * ((1.0 + 4.0 * step_size * tau) * longest + 4.0 * push)
    error = _SECOND_ORDER * (sums + predictors + moves) + root * lattice / 2.0
    widening = (2.0 * error + root * lattice) / (step_size * 2.0 * power * slope)
    return ChainArithmetic(lattice, reach, sd * (1.0 + widening), widening)


def _sum_error(terms: int) -> float:
    return terms * _UNIT / (1.0 - terms * _UNIT)
