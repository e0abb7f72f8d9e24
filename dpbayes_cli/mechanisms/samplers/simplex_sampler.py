"""The tempered posterior of a probability vector on a public lattice.

The probabilities of the vector are called shares. A sampler does not depend on the number of records, so that all rows
of a table share one sampler. A replaced record takes one count from a row and adds one to the same or another row. So
the log ratio of a whole table varies by at most ``SharesCover.spread`` times the likelihood power.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.options import PowerTarget
from dpbayes_cli.core.plan import Sampler
from dpbayes_cli.mechanisms.samplers.tempering import UP, weighted_moments
from dpbayes_cli.privacy.grid import EXACT
from dpbayes_cli.privacy.lattice import SimplexLattice, share_table
from dpbayes_cli.privacy.lazy_numpy import np

_MAX_SHARES = 64
"""The largest length of a probability vector: ``LATTICE_SLACK`` is proved up to this length, and convolutions take a
second."""


@dataclass(frozen=True)
class SharesCover:
    """The public lattice {k / G : sum k = G, k_j >= least} of probability vectors.

    Attributes:
        n_shares: the length of a vector.
        resolution: G.
        least: the smallest k_j.
    """

    n_shares: int
    resolution: int
    least: int

    @property
    def most(self) -> int:
        """The largest k_j."""
        return self.resolution - (self.n_shares - 1) * self.least

    @property
    def spread(self) -> Decimal:
        """R = 2 log(most / least), rounded up: the range of log theta_i - log theta_j over the lattice."""
        return UP.multiply(Decimal(2), UP.ln(UP.divide(Decimal(self.most), Decimal(self.least)))) + Decimal("1e-25")

    @property
    def n_points(self) -> int:
        """The number of points."""
        return math.comb(self.most - self.least + self.n_shares - 1, self.n_shares - 1)

    def plan_parameters(self) -> dict[str, Any]:
        """Return the parameters that a plan states about the lattice."""
        ends = [self.least / self.resolution, self.most / self.resolution]
        return {"support": ends, "resolution": self.resolution}

    def points(self) -> Integers:
        """Return k - least for all lattice points k / G, shape (n_points, n_shares), in lexical order."""
        free = self.most - self.least
        rows = np.zeros((1, 0), dtype=np.int64)
        for _ in range(self.n_shares - 1):
            remaining = free - rows.sum(axis=1)
            parents = np.repeat(np.arange(len(rows)), remaining + 1)
            starts = np.cumsum(remaining + 1) - (remaining + 1)
            rows = np.column_stack([rows[parents], np.arange(len(parents)) - starts[parents]])
        return np.column_stack([rows, free - rows.sum(axis=1)])


@dataclass(frozen=True)
class SimplexSampler(Sampler):
    """The tempered Dirichlet posterior of a probability vector on a public lattice.

    Privacy: replacing a record divides the weight of a point theta by theta_i^T and multiplies it by theta_j^T. The log
        of this factor varies over the lattice by at most T R, where R is ``SharesCover.spread``. The rounding of
        decimals adds less than ``LATTICE_SLACK``.
    Source: Foulds et al. 2016 sec. 3.1; Zhang et al. 2016 Lemma 2; the rest is derived here.
    """

    cover: SharesCover
    concentration: tuple[float, ...]
    likelihood_power: Decimal
    power_applies_to: PowerTarget

    def exponents(self, values: Sequence[int]) -> list[Decimal]:
        """Return the exponent of each probability in the tempered posterior density."""
        power = self.likelihood_power
        of_prior = power if self.power_applies_to == "joint" else Decimal(1)
        return [
            EXACT.fma(power, Decimal(count), EXACT.multiply(EXACT.subtract(Decimal(a), Decimal(1)), of_prior))
            for a, count in zip(self.concentration, values, strict=True)
        ]

    def lattice(self, values: Sequence[int]) -> SimplexLattice:
        """Return the law of the lattice points for exact counts."""
        cover = self.cover

        @cache
        def table(exponent: Decimal) -> tuple[Decimal, ...]:
            return share_table(
                cover.resolution, cover.least, cover.most, lambda share: EXACT.multiply(exponent, log_share(share))
            )

        return SimplexLattice(cover.resolution, cover.least, tuple(map(table, self.exponents(values))))

    def draw(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        return [tuple(k / self.cover.resolution for k in point) for point in self.lattice(values).draw(size)]

    def is_possible(self, draw: Sequence[float]) -> bool:
        cover = self.cover
        if len(draw) != cover.n_shares or not all(0.0 <= share <= 1.0 for share in draw):
            return False
        counts = [round(share * cover.resolution) for share in draw]
        inside = all(cover.least <= k <= cover.most for k in counts) and sum(counts) == cover.resolution
        return inside and [k / cover.resolution for k in counts] == list(draw)

    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        shares, tables = centered_tables(self.cover, list(map(float, self.exponents(values))))
        rest = tables[-1]
        for table in tables[1:-1]:
            rest = np.convolve(rest, table)[: len(shares)]
        masses = tables[0] * rest[::-1]
        return weighted_moments(masses / masses.sum(), shares)


@lru_cache(maxsize=4096)
def log_share(share: Decimal) -> Decimal:
    """Return the logarithm of a share in ``EXACT`` arithmetic."""
    return EXACT.ln(share)


def centered_tables(cover: SharesCover, exponents: Sequence[float]) -> tuple[Floats, list[Floats]]:
    """Return the possible shares, and for each exponent a table of share^exponent in floats.

    The tables are scaled so that likely shares do not underflow. For this, share^exponent is multiplied by exp(-tilt *
    share) for every coordinate, which does not change the law, because shares add up to one. The tilt is chosen so that
    the shares at which the tables have their maxima add up to one.
    """
    shares = np.arange(cover.least, cover.most + 1) / cover.resolution
    tilt = _tilt(exponents, float(shares[0]), float(shares[-1]))
    logs = [exponent * np.log(shares) - tilt * shares for exponent in exponents]
    return shares, [np.exp(log - log.max()) for log in logs]


def _tilt(exponents: Sequence[float], least: float, most: float) -> float:
    if sum(exponents) <= 0.0:
        return 0.0
    low, high = 0.0, sum(max(0.0, exponent) for exponent in exponents) / least
    for _ in range(60):
        middle = (low + high) / 2.0
        shares = sum(min(max(exponent / middle, least), most) for exponent in exponents)
        low, high = (middle, high) if shares > 1.0 else (low, middle)
    return high


def simplex_cover(n_shares: int, support: tuple[float, float] | None, n_records: int) -> SharesCover:
    """Return the public lattice for probability vectors of a given length and a number of records.

    Raises:
        SpecError: the vectors are too long, or the support holds no lattice point.
    """
    k = n_shares
    if k > _MAX_SHARES:
        raise SpecError(
            f"the model has {k} probabilities in one vector; exact draws allow at most {_MAX_SHARES}", where="mechanism"
        )
    a0 = support[0] if support else min(0.1, 0.5 / k)
    if not 0.0 < a0 < 1.0 / k or (support and abs(support[1] - (1.0 - (k - 1) * a0)) > 1e-9):
        raise SpecError(
            f"the support of probabilities must be [a0, 1 - {k - 1} a0] with 0 < a0 < 1 / {k}", where="sampling.support"
        )
    wanted_resolution = 1 << math.ceil(math.log2(max(8.0 * math.sqrt(n_records), 8.0 * k, 2.0 / a0)))
    resolution = min(1024 if k <= 8 else 512, max(64, wanted_resolution))
    cover = SharesCover(k, resolution, math.ceil(Decimal(a0) * resolution))
    if cover.most <= cover.least:
        raise SpecError(
            "the support is too narrow: it holds no point of the grid",
            where="sampling.support",
            hint="state a smaller lower end",
        )
    return cover
