"""One cell of a study: what defines its numbers, the digest and the seeds that follow from it, and what came out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbayes_cli.canonical import canonical_json, digest

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.numeric import Floats


@dataclass(frozen=True)
class Outcome:
    """What came out of a cell.

    Attributes:
        measures: the numbers of the cell, by name; None where something was not measured.
        trials: the numbers of its trials, by name, each of shape (n_trials,).
    """

    measures: Mapping[str, float | None]
    trials: Mapping[str, Floats]


class Cell(ABC):
    """One place in the grid of a study, with everything that its numbers depend on."""

    name: str
    """The name of the case, which changes no number."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The cell in one line, for people."""

    @property
    @abstractmethod
    def definition(self) -> dict[str, Any]:
        """Everything that the cell's numbers depend on, and nothing else: a change elsewhere recomputes no cell."""

    @abstractmethod
    def compute(self) -> Outcome:
        """Run all trials; equal definitions give equal numbers, in any process.

        Raises:
            SpecError: the cell cannot be simulated; the message names it.
        """

    @property
    def digest(self) -> str:
        """The digest of the definition, which names the cell's file."""
        return digest("experiment cell", canonical_json(self.definition))


def seed_by(seed: int, key: str) -> np.random.SeedSequence:
    """Return the seed of what a digest defines, in a study of a seed."""
    import numpy as np

    return np.random.SeedSequence([seed, int(key, 16)])
