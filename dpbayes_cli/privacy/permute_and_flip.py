"""Permute-and-flip on exact integer weights: visit cells in random order until the coin of a cell shows heads.

The coin of cell i, which has weight W_i, shows heads with probability W_i / max W, a quotient of integers. The
exponential mechanism does the same, except that a cell whose coin showed tails may be visited again. So on a fine grid
the two mechanisms have almost equal laws.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.privacy.grid import EXACT, MIN_WEIGHT, WEIGHT_SCALE, WINDOW_NATS
from dpbayes_cli.privacy.lazy_numpy import np

_QUADRATURE_NODES = 40
_MAX_MEAN_HEADS = 45.0
"""The integral in ``flip_law`` ends where the mean number of heads among the visited cells is 45; the omitted part is
about exp(-45)."""


@dataclass(frozen=True)
class FlipWeights:
    """The integer weights W_i = floor(S exp(s_i - max s)) + c of the cells of a public grid with scores s_i.

    Weights are evaluated on demand; cells outside ``near`` have the weight c = ``MIN_WEIGHT``.

    Privacy: let s and s' be the scores under two neighbors, and u_i = exp(s_i - max s). Let r be the range of s'_i -
        s_i over the cells i. The quotients u'_i / u_i vary over the cells by a factor of at most exp(r). Because one
        cell has u_i = 1 and one cell has u'_i = 1, the interval of these quotients contains one. The constant c moves
        each quotient toward one. Flooring changes log W_i by less than -ln(1 - 1 / c) < 8.7e-19, and decimals change
        it by less than 1e-40. So log W'_i - log W_i varies by at most r + ``GRID_SLACK``.
    Source: McKenna and Sheldon 2020, Algorithm 1 (with real scores); the rest is derived here.

    Attributes:
        n_cells: the number of cells.
        near: the cells whose weight may exceed c.
        largest: max s.
        score: the function that returns the score of a cell in ``EXACT`` arithmetic.
    """

    n_cells: int
    near: frozenset[int]
    largest: Decimal
    score: Callable[[int], Decimal]

    def weight(self, cell: int) -> int:
        """Return the weight of a cell."""
        if cell not in self.near:
            return MIN_WEIGHT
        mass = EXACT.exp(EXACT.subtract(self.score(cell), self.largest))
        return MIN_WEIGHT + int(EXACT.multiply(mass, Decimal(WEIGHT_SCALE)))

    @property
    def most(self) -> int:
        """The largest possible weight."""
        return MIN_WEIGHT + WEIGHT_SCALE


def flip_weights(scores: Floats, exact: Callable[[int], Decimal], error: float) -> FlipWeights:
    """Return the weights of cells, given their scores.

    ``exact`` returns the score of a cell in ``EXACT`` arithmetic. The float ``scores`` only locate the likely cells;
    ``error`` is a bound on their error.
    """
    if not error <= 0.5:
        raise ValueError("the error of float scores must be at most half a nat")
    best = float(scores.max())
    (candidates,) = np.nonzero(scores >= best - 2.0 * error)
    (near,) = np.nonzero(scores > best - WINDOW_NATS)
    largest = max(exact(cell) for cell in candidates.tolist())
    return FlipWeights(len(scores), frozenset(near.tolist()), largest, exact)


def permute_and_flip(weights: FlipWeights) -> int:
    """Return the first cell, in a uniformly random order of the cells, whose coin shows heads.

    Privacy: give each cell an independent uniform time t in [0, 1], at which it is visited, and a coin with heads
        probability W_i / max W. Cell i is returned if its coin shows heads and no coin of an earlier cell does. With u
        = t / max W, its probability P_i is W_i times the integral of prod_{j != i} (1 - W_j u) over u from 0 to 1 / max
        W. Let W'_j / W_j lie in [a, a exp(e)] for all j. W' and W' / a give the same P', so let a = 1. Then W'_i <=
        exp(e) W_i. Under W' no other factor is larger, and the interval of integration is at most as long, so P'_i <=
        exp(e) P_i. This is pure e-DP, where e is the largest minus the smallest log W'_i - log W_i. The paper's coin
        exp(e (q_i - max q) / (2 D)) is the coin exp(s_i - max s) for q = s and D = e / 2: if a constant is added to all
        scores s', they differ from s by at most e / 2. Over the cells log P'_i / P_i may vary by more than e, so that
        there is no bounded-range guarantee.
    Source: McKenna and Sheldon 2020, Algorithm 1 and Theorem 1; the proof is ours.
    """
    moved: dict[int, int] = {}
    for n_unvisited in range(weights.n_cells, 0, -1):
        place = secrets.randbelow(n_unvisited)
        cell = moved.get(place, place)
        if secrets.randbelow(weights.most) < weights.weight(cell):
            return cell
        moved[place] = moved.pop(n_unvisited - 1, n_unvisited - 1)
    raise AssertionError("the coin of the best cell always shows heads")


def flip_law(scores: Floats) -> Floats:
    """Return the probabilities of permute-and-flip in floats, shape (n_cells,): for plans, never for a release."""
    coins = np.exp(scores - scores.max())
    relevant = coins > 1e-12
    likely_coins = coins[relevant]
    nodes, node_weights = np.polynomial.legendre.leggauss(_QUADRATURE_NODES)
    cutoff = min(1.0, _MAX_MEAN_HEADS / float(likely_coins.sum()))
    probabilities = np.zeros(len(scores))
    for node, weight in zip((nodes + 1.0) * cutoff / 2.0, node_weights * cutoff / 2.0, strict=True):
        log_tails = np.log1p(-likely_coins * node)
        probabilities[relevant] += weight * likely_coins * np.exp(log_tails.sum() - log_tails)
    return np.asarray(probabilities / probabilities.sum())
