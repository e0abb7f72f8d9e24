"""The log importance weight of an annealed chain, released with noise at its own cost: annealed importance sampling.

A chain that starts from the prior and rises through powers T_1 < ... < T_m of the likelihood L has the weight prod
L(x_t)^(T_t - T_t-1), where x_t is the point before the sweeps at T_t. The mean weight is the evidence: the prior mean
of the likelihood to the power T_m. The points are public but the likelihood is not: so noise is added to the log
weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers

_GRID_BITS = 24
"""The weight is released in units of 2^-24 nats."""


@dataclass(frozen=True)
class NoisyLogWeight:
    """The law of the noise on a log weight.

    Privacy: from T_t-1 to T_t a record adds to the log weight one increment for each feature, an entry of a public
        table by the share of its value. Whatever the public points are, replacing the record moves the sum over all t
        by at most D, the sum over t and features of the tables' ranges: up to rounding, T log(most / least) per
        feature. The log weight is an exact integer, floored to a grid, which adds at most one unit to D. Discrete
        Laplace noise of scale D / epsilon makes it pure epsilon-DP given the points, which are charged separately.
    Source: Neal 2001; Foulds et al. 2016, supplement; design notes, additive noise.

    Attributes:
        law: the noise law, in units of the grid.
        shift: the number of bits that are floored away.
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
        """Return a log weight with noise, in nats, from the exact one in the units of the tables."""
        return int(self.law.release([exact >> self.shift])[0]) / 2.0**self.bits


def noisy_log_weight(increments: Sequence[Integers], bits: int, epsilon: Decimal) -> NoisyLogWeight:
    """Return the law of the noise for tables of increments, one per rise and feature, in units of 2^-bits nats.

    Raises:
        SpecError: epsilon is too small for 64-bit integers.
    """
    shift = max(0, bits - _GRID_BITS)
    largest = sum(int(table.max() - table.min()) for table in increments)
    return NoisyLogWeight(DiscreteLaplace.calibrate((largest >> shift) + 1, epsilon), shift, bits - shift)


def check_log_weight(epsilon: Decimal, whole: Decimal, *, annealed: bool) -> None:
    """Refuse an epsilon for the log weight that a chain of the whole epsilon cannot spend.

    Raises:
        SpecError: the chain is not annealed, or nothing remains for it.
    """
    where = "sampling.log_weight_epsilon"
    if not annealed:
        raise SpecError("only the annealed kernel computes a log weight", where=where, hint="kernel: annealed")
    if epsilon >= whole:
        raise SpecError(
            f"the log weight takes epsilon {epsilon:g} of {whole:g} and leaves nothing for the chain", where=where
        )
