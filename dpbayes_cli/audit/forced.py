"""What a release draws, with every outcome dictated: the exact law of each draw, and what gets out all the same.

A mechanism learns from the data only what its draws depend on. So each draw of a release is replaced by an outcome that
is fixed beforehand, and its law is kept. Run so on two neighbors, the draws come in the same order, and what privacy is
lost is in the laws alone; and what is released must be the same, for it is a function of the outcomes.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpbayes_cli.audit.laws import AddedNoise, Choices, Element, normalized
from dpbayes_cli.core.registry import noise_law_kinds, noise_law_type
from dpbayes_cli.core.released import Draws, Payload
from dpbayes_cli.core.statistic import Statistics
from dpbayes_cli.mechanisms import map as map_mechanism
from dpbayes_cli.mechanisms.samplers import barker_kernel, private_gibbs
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler
from dpbayes_cli.mechanisms.samplers.simplex_sampler import SharesCover
from dpbayes_cli.privacy.choices import choice_weights, choose
from dpbayes_cli.privacy.coordinate import Lattice
from dpbayes_cli.privacy.grid import MIN_WEIGHT, CellWeights
from dpbayes_cli.privacy.lattice import SimplexLattice, choose_index
from dpbayes_cli.privacy.noise import NoiseLaw
from dpbayes_cli.privacy.permute_and_flip import FlipWeights, flip_law, permute_and_flip
from dpbayes_cli.workflow.pricing import PlannedRelease
from dpbayes_cli.workflow.release import privatized

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_MOST_POINTS = 1 << 16
_MOST_FLIPPED = 1 << 12


class UnknownDrawError(Exception):
    """A release asks for randomness in a way that is not known here."""


@dataclass(frozen=True)
class Run:
    """A release with dictated outcomes.

    Attributes:
        elements: the laws of its draws, in their order.
        released: all that got out.
    """

    elements: tuple[Element, ...]
    released: tuple[float, ...]


class Dictated:
    """Outcomes that are fixed beforehand, and a memory of what they were fixed for.

    Args:
        path: 0: the ends of every range, in turn; others: at random, alike for all data sets.
    """

    def __init__(self, path: int) -> None:
        import numpy as np

        self.elements: list[Element] = []
        self._path, self._points = path, 0
        self._rng = np.random.default_rng(path)

    def cells(self, weights: CellWeights, size: int) -> list[int]:
        """Stand in for ``CellWeights.draw``."""

        self.elements.append(Choices("choice of a cell", _log_masses(weights), lambda: weights.draw(1), size))
        n = weights.n_cells
        return [n - 1 if self._path == 0 else int(self._rng.integers(n)) for _ in range(size)]

    def points(self, lattice: SimplexLattice, size: int) -> list[tuple[int, ...]]:
        """Stand in for ``SimplexLattice.draw``: a corner of the lattice."""
        import numpy as np

        k = len(lattice.tables)
        cover = SharesCover(k, lattice.resolution, lattice.least)
        whole = cover.n_points <= _MOST_POINTS
        points = _points(cover) if whole else _corners(cover)
        logs = np.array([_logs(table)[points[:, j]] for j, table in enumerate(lattice.tables)]).sum(axis=0)

        def again() -> list[int]:
            return [_index(cover)[point] for point in lattice.draw(1)]

        logs = normalized(logs[None, :])
        self.elements.append(Choices("choice of shares", logs, again if whole else None, size, whole=whole))
        corners = []
        for _ in range(size):
            corner = self._points % k if self._path == 0 else int(self._rng.integers(k))
            self._points += 1
            corners.append(tuple(cover.most if j == corner else cover.least for j in range(k)))
        return corners

    def states(self, utilities: Integers, bits: int) -> Integers:
        """Stand in for ``choose``."""
        import numpy as np

        logs = normalized(np.log(choice_weights(utilities, bits).astype(np.float64)))
        self.elements.append(Choices("choice of states", logs, lambda: choose(utilities, bits).tolist()))
        places, outcomes = utilities.shape
        return np.asarray(
            np.arange(places) % outcomes if self._path == 0 else self._rng.integers(outcomes, size=places)
        )

    def step(self, weights: Sequence[Any]) -> int:
        """Stand in for ``choose_index``, where it chooses between two points."""
        logs = normalized(_logs(weights)[None, :])
        self.elements.append(Choices("step of a walk", logs, lambda: [choose_index(weights)]))
        return len(weights) - 1 if self._path == 0 else int(self._rng.integers(len(weights)))

    def flip(self, weights: FlipWeights) -> int:
        """Stand in for ``permute_and_flip``."""
        import numpy as np

        if weights.n_cells > _MOST_FLIPPED:
            raise UnknownDrawError(f"permute-and-flip among more than {_MOST_FLIPPED} points")
        coins = np.array([float(weights.weight(cell)) for cell in range(weights.n_cells)])
        with np.errstate(divide="ignore"):
            logs = np.log(flip_law(np.log(coins)))
        self.elements.append(Choices("permute-and-flip", logs[None, :], lambda: [permute_and_flip(weights)]))
        return weights.n_cells - 1 if self._path == 0 else int(self._rng.integers(weights.n_cells))

    def noise(self, law: NoiseLaw, values: Sequence[int]) -> list[int]:
        """Stand in for the ``release`` of a law of noise: what it returns is dictated, and not the noise."""
        self.elements.append(AddedNoise(law, tuple(values)))
        return [self._path] * len(values)


def run(planned: PlannedRelease, evidence: Statistics, path: int, memory: dict[Any, Any]) -> Run:
    """Release once with dictated outcomes.

    Args:
        planned: what is run.
        evidence: of made-up data.
        path: which outcomes; see ``Dictated``.
        memory: weights that were computed before, for any data.

    Raises:
        UnknownDrawError: the release draws in a way that is not known here.
    """
    with dictated(path, memory) as found:
        released = privatized(planned, evidence)
    return Run(tuple(found.elements), tuple(numbers(released)))


@contextmanager
def dictated(path: int, memory: dict[Any, Any]) -> Iterator[Dictated]:
    """Dictate every draw of this process while the context lasts."""
    found = Dictated(path)

    def refused(*_: object) -> Any:
        raise UnknownDrawError("randomness that no known law draws on")

    def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
        def weights(self: Any, argument: Any) -> Any:
            key = self, argument if isinstance(self, Lattice) else tuple(argument)
            if key not in memory:
                memory[key] = function(self, argument)
            return memory[key]

        return weights

    places: list[tuple[Any, str, Any]] = [
        (CellWeights, "draw", _method(found.cells)),
        (SimplexLattice, "draw", _method(found.points)),
        *((noise_law_type(kind), "release", _method(found.noise)) for kind in noise_law_kinds()),
        (private_gibbs, "choose", found.states),
        (barker_kernel, "choose_index", found.step),
        (map_mechanism, "permute_and_flip", found.flip),
        (Lattice, "weights", remembered(Lattice.weights)),
        (ScalarSampler, "weights", remembered(ScalarSampler.weights)),
        (secrets, "randbits", lambda bits: (1 << bits - 1) + path),  # public coins, and places within a cell
        (secrets, "randbelow", refused),
        (os, "urandom", refused),
    ]
    with ExitStack() as stack:
        for owner, name, stand_in in places:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, stand_in)
        yield found


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that a class hands its instance to."""
    return lambda *arguments: function(*arguments)  # noqa: PLW0108 - a bound method is handed none


def numbers(released: Payload | Draws) -> list[float]:
    """Return all numbers that one release lets out."""
    if isinstance(released, Payload):
        return [*map(float, released.values), *(released.bounds or ())]
    rows = (*released.values, *released.states)
    weight = [] if released.log_weight is None else [released.log_weight]
    return [*(float(value) for row in rows for value in row), *weight]


def can_be_dictated(planned: PlannedRelease) -> bool:
    """Return whether all randomness of a release is that of known laws; a Langevin chain has its own."""
    return planned.plan.final_step.law.can_be_dictated


def on_smaller_covers(planned: PlannedRelease) -> PlannedRelease:
    """Return the release whose draws are from covers of few points, at the same price and likelihood power."""
    answer = planned.plan.final_step
    coarser = answer.law.coarsened()
    if coarser == answer.law:
        return planned
    steps = (*planned.plan.steps[:-1], replace(answer, law=coarser))
    return replace(planned, plan=replace(planned.plan, steps=steps))


def _log_masses(weights: CellWeights) -> Floats:
    import numpy as np

    whole = np.full(weights.n_cells, float(MIN_WEIGHT))
    whole[weights.first : weights.first + len(weights.extra)] += np.array([float(extra) for extra in weights.extra])
    return normalized(np.log(whole)[None, :])


def _logs(table: Sequence[Any]) -> Floats:
    """Return the logarithms of positive decimals, of any size."""
    import numpy as np

    floats = np.array([float(weight) for weight in table])
    if floats.min() > 1e-300:
        return np.asarray(np.log(floats))
    return np.array([float(weight.ln()) for weight in table])


@lru_cache(maxsize=8)
def _points(cover: SharesCover) -> Integers:
    return cover.points()


@lru_cache(maxsize=2)
def _index(cover: SharesCover) -> dict[tuple[int, ...], int]:
    return {tuple(point): i for i, point in enumerate((_points(cover) + cover.least).tolist())}


def _corners(cover: SharesCover) -> Integers:
    """Return the corners of a lattice of too many points, where log ratios of one record are largest and smallest."""
    import numpy as np

    return np.eye(cover.n_shares, dtype=np.int64) * (cover.most - cover.least)
