"""Run a release with dictated outcomes: record the exact law of each draw, and the released values.

A release may depend on the data only through the laws of its draws. So the audit replaces each draw by an outcome that
is fixed beforehand, and records the law of the draw. On two neighboring data sets, the code must ask for the same kinds
of draws in the same order; only their laws may differ, and the privacy loss is computed from these laws. The
released values must be the same, because they may depend only on the outcomes.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import log_softmax

from dpbayes_cli.audit.laws import AddedNoise, Choices, Element
from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.private_choice import bounds_in, parents_in
from dpbayes_cli.core.registry import noise_law_kinds, noise_law_type
from dpbayes_cli.core.released import Draws, Payload
from dpbayes_cli.core.statistic import ExactEvidence
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
from dpbayes_cli.workflow.release import privatize

_MAX_POINTS = 1 << 16
_MAX_FLIPPED = 1 << 12


class UnknownDrawError(Exception):
    """The release draws in a way that the audit does not know."""


@dataclass(frozen=True)
class DictatedRun:
    """The law of each draw of a release with dictated outcomes, in the order of the draws, and the released numbers."""

    elements: tuple[Element, ...]
    released: tuple[float, ...]


class DictatedOutcomes:
    """Stands in for every draw: returns an outcome that is fixed beforehand, and records the law of the draw.

    The path 0 has outcomes at the ends of their ranges; any other number is the seed of random outcomes. In both cases
    all data sets get the same outcomes.
    """

    def __init__(self, path: int) -> None:
        self.elements: list[Element] = []
        self._path, self._points = path, 0
        self._rng = np.random.default_rng(path)

    def _last_or_random(self, n_outcomes: int) -> int:
        return n_outcomes - 1 if self._path == 0 else int(self._rng.integers(n_outcomes))

    def cells(self, weights: CellWeights, size: int) -> list[int]:
        """Stand in for ``CellWeights.draw``."""
        self.elements.append(Choices("choice of a cell", _log_masses(weights), lambda: weights.draw(1), size))
        return [self._last_or_random(weights.n_cells) for _ in range(size)]

    def points(self, lattice: SimplexLattice, size: int) -> list[tuple[int, ...]]:
        """Stand in for ``SimplexLattice.draw``, and return corners of the lattice."""
        k = len(lattice.tables)
        cover = SharesCover(k, lattice.resolution, lattice.least)
        whole = cover.n_points <= _MAX_POINTS
        points = _points(cover) if whole else _corners(cover)
        logs = np.array([_logs(table)[points[:, j]] for j, table in enumerate(lattice.tables)]).sum(axis=0)

        def again() -> list[int]:
            return [_index(cover)[point] for point in lattice.draw(1)]

        logs = log_softmax(logs[None, :], axis=1)
        self.elements.append(Choices("choice of shares", logs, again if whole else None, size, whole=whole))
        corners = []
        for _ in range(size):
            corner = self._points % k if self._path == 0 else int(self._rng.integers(k))
            self._points += 1
            corners.append(tuple(cover.most if j == corner else cover.least for j in range(k)))
        return corners

    def states(self, utilities: Integers, bits: int) -> Integers:
        """Stand in for ``choose``."""
        logs = log_softmax(np.log(choice_weights(utilities, bits).astype(np.float64)), axis=1)
        self.elements.append(Choices("choice of states", logs, lambda: choose(utilities, bits).tolist()))
        places, outcomes = utilities.shape
        in_turn = np.arange(places) % outcomes
        return np.asarray(in_turn if self._path == 0 else self._rng.integers(outcomes, size=places))

    def step(self, weights: Sequence[Any]) -> int:
        """Stand in for ``choose_index`` if it chooses between two points."""
        logs = log_softmax(_logs(weights)[None, :], axis=1)
        self.elements.append(Choices("step of a walk", logs, lambda: [choose_index(weights)]))
        return self._last_or_random(len(weights))

    def flip(self, weights: FlipWeights) -> int:
        """Stand in for ``permute_and_flip``."""
        if weights.n_cells > _MAX_FLIPPED:
            raise UnknownDrawError(f"permute-and-flip among more than {_MAX_FLIPPED} points")
        coins = np.array([float(weights.weight(cell)) for cell in range(weights.n_cells)])
        with np.errstate(divide="ignore"):
            logs = np.log(flip_law(np.log(coins)))
        self.elements.append(Choices("permute-and-flip", logs[None, :], lambda: [permute_and_flip(weights)]))
        return self._last_or_random(weights.n_cells)

    def noise(self, law: NoiseLaw, values: Sequence[int]) -> list[int]:
        """Stand in for ``NoiseLaw.release``; the dictated outcomes are the sums of values and noise."""
        self.elements.append(AddedNoise(law, tuple(values)))
        return [self._path] * len(values)


def run_dictated(planned: PlannedRelease, evidence: ExactEvidence, path: int, memory: dict[Any, Any]) -> DictatedRun:
    """Run a release once with dictated outcomes, by replacing every function of this process that draws.

    For ``path`` see ``DictatedOutcomes``. ``memory`` is a cache of weights that the runs on all data sets share. If the
    release draws in a way that the audit does not know, the error is ``UnknownDrawError``.
    """
    outcomes = DictatedOutcomes(path)

    def refused(*_: object) -> Any:
        raise UnknownDrawError("it uses randomness outside the known laws")

    def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
        def weights(self: Any, argument: Any) -> Any:
            key = self, argument if isinstance(self, Lattice) else tuple(argument)
            if key not in memory:
                memory[key] = function(self, argument)
            return memory[key]

        return weights

    places: list[tuple[Any, str, Any]] = [
        (CellWeights, "draw", _method(outcomes.cells)),
        (SimplexLattice, "draw", _method(outcomes.points)),
        *((law, "release", _method(outcomes.noise)) for law in _noise_laws()),
        (private_gibbs, "choose", outcomes.states),
        (barker_kernel, "choose_index", outcomes.step),
        (map_mechanism, "permute_and_flip", outcomes.flip),
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
        released = privatize(planned, evidence)
    return DictatedRun(tuple(outcomes.elements), tuple(released_numbers(released)))


@lru_cache(maxsize=1)
def _noise_laws() -> list[type[NoiseLaw]]:
    return [noise_law_type(kind) for kind in noise_law_kinds()]


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a bound method, so that as an attribute of a class it receives the instance as its first argument."""
    return lambda *arguments: function(*arguments)  # noqa: PLW0108 - a bound method would not get it


def released_numbers(released: Payload | Draws) -> list[float]:
    """Return all numbers of one release."""
    if isinstance(released, Payload):
        chosen = released.chosen or ()
        indices = {name: i for i, (name, _) in enumerate(parents_in(chosen))}
        tree = [float(indices[parent]) for _, parents in parents_in(chosen) for parent in parents]
        values = released.values[: 4 * len(tree) + 2] if tree else released.values  # trees have tables of many sizes
        return [*map(float, values), *(bounds_in(chosen) or tree)]
    rows = (*released.values, *released.states)
    weight = [] if released.log_weight is None else [released.log_weight]
    return [*(float(value) for row in rows for value in row), *weight]


def _log_masses(weights: CellWeights) -> Floats:
    whole = np.full(weights.n_cells, float(MIN_WEIGHT))
    whole[weights.first : weights.first + len(weights.extra)] += np.array([float(extra) for extra in weights.extra])
    logs: Floats = log_softmax(np.log(whole)[None, :], axis=1)
    return logs


def _logs(table: Sequence[Any]) -> Floats:
    """Return the logarithms of positive decimals, which may be too small for a float."""
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
    """Return the corners of a large lattice; there the log ratio between neighbors is largest or smallest."""
    return np.eye(cover.n_shares, dtype=np.int64) * (cover.most - cover.least)
