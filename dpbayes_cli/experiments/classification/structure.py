"""What the graph of a case alone says about parities against cells: how many numbers are noised, and how much."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.options import EpsilonOptions
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.privacy.parities import n_bits

if TYPE_CHECKING:
    from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet


@dataclass(frozen=True)
class NetworkStructure:
    """The tables of a network, as two mechanisms see them.

    Attributes:
        cells: the number of cells of all tables.
        parities: the number of patterns that say the same, with the number of records.
        shared: the most variables that two tables share.
        cell_noise: the scale of Laplace noise on a cell, times epsilon.
        parity_noise: the scale of noise on a parity, times epsilon.
        ratio: the standard deviation of the noise of a rebuilt cell, the mean over all cells, as a part of that of a
            noised one.
    """

    cells: int
    parities: int
    shared: int
    cell_noise: float
    parity_noise: float
    ratio: float

    @property
    def sentence(self) -> str:
        """What follows from it, in words."""
        overlap = "one variable at most" if self.shared == 1 else f"up to {self.shared} variables"
        parts = [
            f"Its tables share {overlap}. {self.cells} cells with noise of scale {self.cell_noise:g} / epsilon stand "
            f"against {self.parities} parities with noise of scale {self.parity_noise:g} / epsilon: the noise of a "
            f"cell that is rebuilt from parities has {self.ratio:.2f} times the standard deviation of a noised one's. "
            "(As a sum of many noises it is off by up to 0.80 of that in the mean, a single one by 0.71.)"
        ]
        if self.shared == 1:
            parts.append(
                "Only the parities of single variables are noised once in place of several times; plain Laplace tells "
                "these variables' totals in several tables, and the noise-aware posterior puts them together."
            )
        if self.parities > self.cells:
            parts.append("Values that are coded by several bits take more parities than there are cells.")
        if self.ratio > 1.0:
            parts.append("A record moves half of the parities of a wide table, and two of its cells.")
        return " ".join(parts)


def structure_of(model: DiscreteBayesNet, policy: RecordPolicy) -> NetworkStructure:
    """Return the structure of a network whose records are complete.

    A cell that is rebuilt from the 2^b - 1 parities of a table of b bits and the number of records is off by 2 / 2^b
    times the sum of their noises, each with a sign of its own.

    Source: Barak et al. 2007; the inverse Walsh-Hadamard transform of the numbers of odd records.
    """
    network = model.network
    (cells, cell_noise), (parities, parity_noise) = (
        (len(step.statistic.names), step.noise.scale)
        for name in ("laplace", "fourier-laplace")
        for step in mechanism_type(name)().plan(model, policy, EpsilonOptions(epsilon=parse_decimal("1"))).steps
    )
    entries = [1 << sum(n_bits(network.sizes[v]) for v in family) for family in network.families]
    spread = [2.0 / size * math.sqrt(size - 1.0) for size in entries]
    mean = math.fsum(s * n for s, n in zip(spread, network.n_cells, strict=True)) / cells
    families = [set(family) for family in network.families]
    shared = max((len(a & b) for a, b in itertools.combinations(families, 2)), default=0)
    return NetworkStructure(cells, parities, shared, cell_noise, parity_noise, mean * parity_noise / cell_noise)
