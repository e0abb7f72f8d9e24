"""Records that are one number each, of a family with a conjugate posterior to draw from."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpbayes_cli.models.families.capabilities import ConjugatePosterior, OneParameterFamily, OneParameterNumber


class ConjugateNumber(OneParameterNumber, OneParameterFamily, ConjugatePosterior):
    """The capability of models of one number a record whose conjugate update adds the sum of the numbers.

    Draws treat clamped numbers as the numbers themselves, so that the likelihood is conjugate. Whatever a cell holds,
    its code is between the public bounds: if many numbers are out of bounds, draws are biased, but privacy is kept.
    """

    @property
    def grid(self) -> tuple[Fraction, Fraction, int]:
        """The grid from the lower to the upper bound."""
        column = self.column
        lower = Fraction(column.lower)
        return lower, (Fraction(column.upper) - lower) / column.steps, column.steps

    def sums(self, values: Sequence[int], n_records: int) -> tuple[Fraction, ...]:
        """Return the sum of the numbers."""
        return (self.total(values, n_records),)
