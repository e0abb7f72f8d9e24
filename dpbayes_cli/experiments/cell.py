"""One cell of a study: what defines its numbers, the digest and the seeds that follow from it, and what came out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.canonical import canonical_json, digest

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats


@dataclass(frozen=True)
class CellOutcome:
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
    trials: int
    """How often it is repeated."""
    seed: int
    """The seed of the study."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The cell in one line, for people."""

    @property
    @abstractmethod
    def data(self) -> dict[str, Any]:
        """What the simulated data depend on; all methods see the same."""

    @property
    @abstractmethod
    def definition(self) -> dict[str, Any]:
        """Everything that the cell's numbers depend on, and nothing else: a change elsewhere recomputes no cell."""

    @property
    def digest(self) -> str:
        """The digest of the definition, which names the cell's file."""
        return digest("experiment cell", canonical_json(self.definition))

    def data_seed(self) -> np.random.SeedSequence:
        """Return the seed of the data: the same for every method."""
        return self.seed_of("experiment data", self.data)

    def inference_seed(self) -> np.random.SeedSequence:
        """Return the seed of the method's own draws."""
        return _seed_by(self.seed, self.digest)

    def seed_of(self, purpose: str, content: dict[str, Any]) -> np.random.SeedSequence:
        """Return the seed of what depends on some content alone."""
        return _seed_by(self.seed, digest(purpose, canonical_json(content)))


def _seed_by(seed: int, key: str) -> np.random.SeedSequence:
    """Return the seed of what a digest defines, in a study of a seed."""
    import numpy as np

    return np.random.SeedSequence([seed, int(key, 16)])
