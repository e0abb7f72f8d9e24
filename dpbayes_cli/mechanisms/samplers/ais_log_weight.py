"""Annealed importance sampling: the log importance weight of a chain, released with noise at its own cost.

A chain starts from the prior and raises the power of the likelihood L in steps T_1 < ... < T_m. Its weight is the
product over t of L(x_t)^(T_t - T_(t-1)), where x_t is the point before the sweeps at T_t, and T_0 = 0. The mean weight
is the prior mean of the likelihood to the power T_m (the evidence if T_m = 1). The points are public, but the
likelihood depends on the data, so the log weight needs noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Integers
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace

_GRID_BITS = 24
"""The weight is released in units of 2^-24 nats."""


@dataclass(frozen=True)
class NoisyLogWeight:
    """The law of the noise on a log weight.

    Privacy: when the power rises from T_(t-1) to T_t, a record adds one increment for each feature to the log weight:
        the entry of a public table for the current probability of its value. The points are public. Whatever they are,
        replacing the record changes the log weight by at most D, the sum of the ranges of all tables: up to rounding, T
        log(most / least) per feature. The log weight is computed exactly, as an integer number of grid units. Rounding
        it down to the grid adds at most one unit to D. Discrete Laplace noise of scale D / epsilon makes the log weight
        pure epsilon-DP given the points, which are charged separately.
    Source: Neal 2001; Foulds et al. 2016, supplement; the rest is derived here.

    Attributes:
        law: the noise law, in units of the grid.
        shift: the number of low bits that rounding down removes.
        bits: the number of fractional bits that remain.
    """

    law: DiscreteLaplace
    shift: int
    bits: int

    @property
    def scale(self) -> float:
        """The scale of the noise in nats."""
        return self.law.scale / 2.0**self.bits

    def release(self, exact: int) -> float:
        """Return the noisy log weight in nats; ``exact`` is in the units of the increments."""
        return int(self.law.release([exact >> self.shift])[0]) / 2.0**self.bits


def noisy_log_weight(increments: Sequence[Integers], bits: int, epsilon: Decimal) -> NoisyLogWeight:
    """Return the noise law, given a table of increments (in 2^-bits nats) for each rise and feature."""
    shift = max(0, bits - _GRID_BITS)
    largest = sum(int(table.max() - table.min()) for table in increments)
    return NoisyLogWeight(DiscreteLaplace.calibrate((largest >> shift) + 1, epsilon), shift, bits - shift)


def check_log_weight(epsilon: Decimal, whole: Decimal, *, annealed: bool) -> None:
    """Refuse a log weight if the chain computes none, or if its epsilon leaves nothing for the chain."""
    where = "sampling.log_weight_epsilon"
    if not annealed:
        raise SpecError("only the annealed kernel computes a log weight", where=where, hint="kernel: annealed")
    if epsilon >= whole:
        raise SpecError(
            f"the log weight takes epsilon {epsilon:g} of {whole:g} and leaves nothing for the chain", where=where
        )
