"""Noisy gradient descent in double precision: its lattice, its clipping box and its noise.

They are chosen so that the computed chain has exactly the privacy cost of the same chain in real numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbayes_cli.privacy.noisy_descent import contraction_gap

MAX_CHUNK_RECORDS = 1 << 17
"""The gradients of up to this many records, a chunk, are added in any order. The sums of the chunks are added with
compensation for rounding errors."""
SLOPE_ERROR = 2.0**-44
"""Bound on the error of the derivative of a record's loss, as a fraction of the largest derivative. The derivative is
computed in double precision from an exact linear predictor."""
_UNIT = 2.0**-53
_NOISE_BITS, _BOX_BITS = 36, 52
"""The noise of a step has a standard deviation of about 2^36 lattice spacings, or less if the box is very wide. The
half width of the box is at most 2^52 spacings, and a step ends at most half as far outside the box. So all coordinates
are whole numbers of spacings below 2^53, which doubles represent exactly."""
_MAX_DEVIATIONS = 12.0
"""In one step, a coefficient is further than this many standard deviations from its mean with probability below
1e-31."""
_SECOND_ORDER = 1.01
"""Factor that covers products of two relative errors, each far below a percent."""


@dataclass(frozen=True)
class ChainArithmetic:
    """The lattice, the box and the noise of a chain w <- f(w) + noise * N(0, I).

    Attributes:
        lattice: the spacing of the lattice of iterates, a power of two.
        reach: the half width of the box, a power of two and a multiple of the spacing. An iterate is clipped into the
            box before its gradient is computed; in practice no iterate leaves the box.
        noise: the standard deviation of a step's noise.
        widening: the fraction by which the noise exceeds sqrt(2 h), for step size h.
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
    """Choose lattice, box and noise so that w <- w - h grad U(w) + sqrt(2h) N(0, I) costs no more in double precision.

    The chain that runs is X <- F(X) + noise * N(0, I), where every X is rounded to the lattice. F clips the rounded X
    to a box, computes w - h grad U(w) in double precision, and rounds the result to the lattice. So F(X) is a multiple
    of the lattice spacing, and the rounded X is F(X) plus the rounded noise: this sum of whole multiples is computed
    exactly.

    Privacy: the cost is exactly the mu of ``descent_mu``: the proof neglects no probability and treats no
        floating-point number as a real number. The proof of that mu requires only one property of the maps f and f' of
        neighbors: |f(x) - f'(y)| <= c |x - y| + s for all x and y, with s = h D and D = 2 beta L r. The proof
        interpolates between the chains X and X' of neighbors by X~ <- l F(X) + (1 - l) F'(X~) + noise. The inequality
        bounds |X - X~|, and hence the difference between a step of X~ and a step of X'. The computed maps F and F' have
        this property with s = h D + 2 e + sqrt(d) * lattice: rounding to the lattice moves a point by at most sqrt(d) *
        lattice / 2, clipping increases no distance, and F differs from the exact map by at most e, which is stated
        below. The noise exceeds sqrt(2 h) by the factor by which this s exceeds h D, so that mu is unchanged.
    Source: Bok, Su and Altschuler 2024 (shifted interpolation); Higham 2002, sec. 3.1: the error of a sum of m products
        in any order is at most g(m) = m u / (1 - m u) times the sum of their sizes, u = 2^-53.

    For W = sqrt(d) reach, the longest w of the box, and all data, e is the sum of
        h beta n L r (``SLOPE_ERROR`` + g(m + 16)): slopes, and sums of m terms or fewer at once, each of norm L r;
        h (M - tau) ((g(d) + 8 u) W + 8 u / r): linear predictors x'w, |x| <= r, in which slopes are Lipschitz;
        2 u ((1 + 4 h tau) W + 4 h beta n L r): the step itself; sqrt(d) lattice / 2: its rounding.

    Args:
        width: d, the number of coefficients.
        n_records: n, the largest number of records.
        row_norm: r.
        slope: L r, the largest gradient norm of one record's loss.
        excess: the largest amount by which a record's loss at w = 0 exceeds the infimum of its loss.
        curvature: M - tau, the largest curvature of the losses' part of the potential.
        power, tau: the likelihood power beta, and the prior precision.
        step_size: h.
    """
    sd, gap = math.sqrt(2.0 * step_size), contraction_gap(step_size, tau, curvature + tau)
    largest_drift, root_width = step_size * power * n_records * slope, math.sqrt(width)
    mode = math.sqrt(2.0 * power * n_records * excess / tau)  # U(w) <= U(0) at the mode
    largest_coefficient = 2.0 * mode + (root_width + _MAX_DEVIATIONS) * sd / math.sqrt(gap * (2.0 - gap))
    reach = 2.0 ** math.ceil(math.log2(max(largest_coefficient, 2.0 * largest_drift)))
    lattice = max(2.0 ** (math.floor(math.log2(sd)) - _NOISE_BITS), reach * 2.0**-_BOX_BITS)
    longest_w = root_width * reach
    gradient_error = largest_drift * (SLOPE_ERROR + _sum_error(min(n_records, MAX_CHUNK_RECORDS) + 16))
    predictor_error = step_size * curvature * ((_sum_error(width) + 8.0 * _UNIT) * longest_w + 8.0 * _UNIT / row_norm)
    step_error = 2.0 * _UNIT * ((1.0 + 4.0 * step_size * tau) * longest_w + 4.0 * largest_drift)
    error = _SECOND_ORDER * (gradient_error + predictor_error + step_error) + root_width * lattice / 2.0
    widening = (2.0 * error + root_width * lattice) / (step_size * 2.0 * power * slope)
    return ChainArithmetic(lattice, reach, sd * (1.0 + widening), widening)


def _sum_error(terms: int) -> float:
    return terms * _UNIT / (1.0 - terms * _UNIT)
