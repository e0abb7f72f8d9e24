"""The exact laws of draws by integer weights and from lattices, computed apart from the code that draws."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpbayes_cli.privacy.grid import MIN_WEIGHT, CellWeights
from dpbayes_cli.privacy.lattice import SimplexLattice


def weights_of(law: CellWeights) -> list[int]:
    """Return the integer weights of all cells."""
    after = law.n_cells - law.first - len(law.extra)
    return [MIN_WEIGHT + extra for extra in (*[0] * law.first, *law.extra, *[0] * after)]


def probability(lattice: SimplexLattice, point: Sequence[int]) -> Fraction:
    """Return the exact probability with which ``draw`` returns a lattice point."""
    rest, result = lattice._free, Fraction(1)
    for place, suffix in enumerate(lattice._suffixes()):
        weights = list(map(Fraction, lattice._weights(place, suffix, rest)))
        result *= weights[point[place] - lattice.least] / sum(weights)
        rest -= point[place] - lattice.least
    return result
