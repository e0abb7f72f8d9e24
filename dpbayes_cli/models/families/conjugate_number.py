"""Records that are one number each, of a family whose posterior itself can be drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpbayes_cli.models.families.capabilities import ConjugatePosterior, OneParameterFamily, OneParameterNumber


class ConjugateNumber(OneParameterNumber, OneParameterFamily, ConjugatePosterior):
    """The capability of models of one number a record whose conjugate update adds the sum of the numbers.

    Draws take clamped numbers for the numbers themselves, so that the likelihood is conjugate: a record counts as its
    code, and whatever its cell holds the code is between the public bounds. That biases draws where many numbers lie
    out of bounds, and costs no privacy.
    """

    @property
    def grid(self) -> tuple[Fraction, Fraction, int]:
        """Numbers are the lower bound plus multiples of (upper - lower) over the steps between them."""
        column = self.column
        lower = Fraction(column.lower)
        return lower, (Fraction(column.upper) - lower) / column.steps, column.steps

    def sums(self, values: Sequence[int], n_records: int) -> tuple[Fraction, ...]:
        """Return the sum of the numbers."""
        return (self.total(values, n_records),)
