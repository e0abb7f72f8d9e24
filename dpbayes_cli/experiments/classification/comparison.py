"""Who wins, in trials that both saw: paired differences of two methods at one price."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpbayes_cli.experiments.classification.cell import ClassificationCell
from dpbayes_cli.experiments.means import mean_difference
from dpbayes_cli.experiments.tables import Results

CLEAR = 3.0
"""A difference of so many standard errors is called one: among fifty comparisons of equals one in seven errs."""

PAIRS = (
    ("noise-aware", "fourier-laplace", "laplace", "accuracy"),
    ("naive", "fourier-naive", "laplace-naive", "accuracy"),
    ("tables as released", "fourier-naive", "laplace-naive", "released_error"),
    ("tables taken for true", "fourier-naive", "laplace-naive", "cell_error"),
)
"""What is compared: a name, Fourier's method, plain Laplace's, and the measure."""


@dataclass(frozen=True)
class PairedDifference:
    """The mean over trials of one method's measure less another's.

    Attributes:
        value, error: the mean and its standard error.
        sign: 1 where more of the measure is better, -1 where less is.
    """

    value: float
    error: float
    sign: int

    @property
    def verdict(self) -> str:
        """Who wins: ``Fourier``, ``Laplace``, or ``neither``."""
        if abs(self.value) <= CLEAR * self.error or self.value == 0.0:
            return "neither"
        return "Fourier" if self.value * self.sign > 0.0 else "Laplace"


def paired(first: Sequence[float], second: Sequence[float], sign: int) -> PairedDifference:
    """Return the difference of two methods over the same trials.

    Args:
        first, second: a measure in each trial, in the same order.
        sign: 1 where more of it is better, -1 where less is.

    Raises:
        ValueError: there are not as many trials of both.
    """
    return PairedDifference(*mean_difference(first, second), sign)


def differences(name: str, results: Results[ClassificationCell]) -> Iterator[tuple[str, str, PairedDifference]]:
    """Return what is compared, the price and the difference, for all pairs of a case that the study holds."""
    found = {(cell.epsilon, str(cell.method)): result for cell, result in results if cell.name == name}
    prices = list(dict.fromkeys(cell.epsilon for cell, _ in results if cell.name == name and cell.epsilon is not None))
    for label, fourier, laplace, measure in PAIRS:
        for epsilon in prices:
            first, second = (found.get((epsilon, method)) for method in (fourier, laplace))
            if first is not None and second is not None:
                sign = 1 if measure == "accuracy" else -1
                yield label, epsilon, paired(first.trials[measure], second.trials[measure], sign)
