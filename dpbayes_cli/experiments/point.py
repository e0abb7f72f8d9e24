"""One point in the grid of a study: its place, what its numbers depend on, and the seeds that follow from that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.canonical import canonical_json, digest

if TYPE_CHECKING:
    import numpy as np

_SPEAKING = {"case", "method", "price"}


@dataclass(frozen=True)
class GridPoint:
    """One point in the grid of a study.

    Attributes:
        place: where it is in the grid, by column; ``point["epsilon"]`` reads one. No number depends on a case's name.
        data: what the simulated data depend on; all methods see the same.
        definition: everything that the numbers depend on and nothing else: another change recomputes nothing.
        seed: the seed of the study; 0 if nothing is random.
        details: further values in its row of results, by column.
    """

    place: Mapping[str, Any]
    data: Mapping[str, Any]
    definition: Mapping[str, Any]
    seed: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, column: str) -> Any:
        return self.place[column]

    @property
    def case(self) -> str:
        """The name of its case."""
        return str(self.place["case"])

    @property
    def epsilon(self) -> float:
        """Its price as a float; nan if it has none."""
        return float(self.place["epsilon"] or "nan")

    @property
    def digest(self) -> str:
        """The digest of the definition, which names the point's file."""
        return digest("experiment cell", canonical_json(self.definition))

    def data_seed(self) -> np.random.SeedSequence:
        """Return the seed of the data: the same for every method."""
        return self.seed_of("experiment data", self.data)

    def noise_seed(self, **released: Any) -> np.random.SeedSequence:
        """Return the seed of a release's noise: the same for all that is made of one release of the data."""
        return self.seed_of("experiment noise", {**self.data, **released})

    def inference_seed(self) -> np.random.SeedSequence:
        """Return the seed of the method's own draws."""
        return _seed_by(self.seed, self.digest)

    def seed_of(self, purpose: str, content: Mapping[str, Any]) -> np.random.SeedSequence:
        """Return the seed of what depends on some content alone."""
        return _seed_by(self.seed, digest(purpose, canonical_json(content)))


def in_words(place: Mapping[str, Any]) -> str:
    """Return a place in one line, for people; a case, a method and a family of prices speak for themselves."""
    found = ((name, value) for name, value in place.items() if value is not None)
    return ", ".join(str(value) if name in _SPEAKING else f"{name.replace('_', ' ')} {value}" for name, value in found)


def _seed_by(seed: int, key: str) -> np.random.SeedSequence:
    """Return the seed of what a digest defines, in a study of a seed."""
    import numpy as np

    return np.random.SeedSequence([seed, int(key, 16)])
