"""Checks of Langevin chains: neighbors' gradients, neighbors' chains with the same noise, and the noise itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
from scipy.special import ndtr, ndtri

from dpbayes_cli.audit.checks import Check, check_at_most
from dpbayes_cli.audit.datasets import Pair, Star
from dpbayes_cli.audit.laws import SHARES, Stream
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.design import DesignMatrix
from dpbayes_cli.core.langevin import Gradient, Langevin
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.privacy.conversions import gaussian_delta
from dpbayes_cli.privacy.noisy_descent import contraction_gap, descent_mu
from dpbayes_cli.workflow.pricing import PlannedRelease

_POINTS = 64
_COUPLED = 4
_ROUNDING = 1.0 + 1e-6
_EPSILONS = ("0.01", "0.1", "0.5", "1", "2", "4")


@dataclass
class CoupledChains:
    """The largest difference of gradients, and of chains with the same noise, over all pairs compared so far."""

    planned: PlannedRelease  # the release to attack
    n_pairs: int = 0  # the number of pairs compared so far
    _gradient: float = 0.0
    _curvature: float = 0.0
    _apart: float = 0.0
    _most: Pair | None = None

    @property
    def law(self) -> Langevin:
        """The chain."""
        return require_type(self.planned.plan.final_step.law, Langevin)

    def compare_star(self, star: Star) -> Iterator[None]:
        """Compare each data set of a star with all earlier ones; yield after each data set."""
        whole = [evidence for _, evidence in star.sets] + ([] if star.removed is None else [star.removed])
        points = _points(np.concatenate([_rows(_matrix(evidence)) for evidence in whole]), self.law.width)
        computed = {}
        if star.removed is not None:
            computed[id(star.removed)] = self._gradients_and_ends(star.removed, points)
        for last, (_, evidence) in enumerate(star.sets):
            computed[id(evidence)] = self._gradients_and_ends(evidence, points)
            for pair in star.pairs(last):
                self.n_pairs += 1
                one, other = computed[id(pair.one)], computed[id(pair.other)]
                apart = float(np.linalg.norm(one[0] - other[0], axis=0).max())
                if self._most is None or apart > self._gradient:
                    self._gradient, self._most = apart, pair
                self._apart = max(self._apart, float(np.linalg.norm(one[1] - other[1], axis=1).max()))
            yield

    def _gradients_and_ends(self, evidence: ExactEvidence, points: Floats) -> tuple[Floats, Floats]:
        """Return the gradients at points, and the last states of chains that use the same noise for all data sets."""
        law, matrix, rng = self.law, _matrix(evidence), np.random.default_rng(0)
        with ExitStack() as stack:
            gradient = Gradient(matrix, law.loss, stack, points.shape[1])(points)
        rows = _rows(matrix)
        if len(rows):
            steepest = float(np.linalg.eigvalsh(rows.T @ rows)[-1])
            self._curvature = max(self._curvature, law.likelihood_power * law.loss.curvature_bound * steepest + law.tau)
        return law.likelihood_power * gradient, law.draw(matrix, _COUPLED, lambda shape: rng.normal(size=shape))

    def checks(self) -> Iterator[Check]:
        """Yield the checks of all pairs that were compared."""
        stated, law, final_step = self.planned.plan.parameters, self.law, self.planned.plan.final_step
        claimed, smoothness = float(stated["sensitivity"]), float(stated["smoothness"])
        yield check_at_most("difference of neighbors' gradients", self._gradient, claimed * _ROUNDING)
        yield check_at_most("largest curvature", self._curvature, smoothness * _ROUNDING)
        gap = contraction_gap(law.step_size, law.tau, smoothness)
        reached = -math.expm1(law.n_steps * math.log1p(-gap)) if gap < 1.0 else 1.0
        rounded = 2.0 * law.grid * math.sqrt(law.width)
        allowed = law.step_size * claimed * reached / gap * _ROUNDING + rounded
        yield check_at_most("distance of neighbors' chains with the same noise", self._apart, allowed)
        mu = descent_mu(self._gradient, law.step_size, law.n_steps, law.tau, smoothness) * math.sqrt(final_step.draws)
        guarantee = self.planned.plan.guarantee
        for epsilon in _EPSILONS:
            delta = gaussian_delta(mu, float(epsilon))
            allowed = float(guarantee.delta_at(Decimal(epsilon)))
            if delta > allowed * _ROUNDING + 1e-15:
                yield check_at_most(
                    f"delta at epsilon {epsilon} of a chain with the measured difference of gradients", delta, allowed
                )
        yield check_at_most(
            "mu of a chain with the measured difference of gradients", mu, float(stated["mu"]) * _ROUNDING
        )

    def pairs_to_attack(self, most: int) -> list[Pair]:
        """Return the pair whose gradients differ most."""
        return [] if self._most is None else [self._most]


def noise_streams(law: Langevin, evidence: ExactEvidence) -> list[Stream]:
    """Return streams of noise with known laws: the noise of one step, and of all steps of a chain without data."""
    matrix, shrinks, noise = _matrix(evidence), 1.0 - law.step_size * law.tau, law.arithmetic.noise
    one, no_data = replace(law, n_steps=1), DesignMatrix(matrix.rows, matrix.expected)
    start = one.draw(matrix, 1, np.zeros)[0]
    sd = noise * math.sqrt(sum(shrinks ** (2 * t) for t in range(law.n_steps)))
    return [
        _normal_stream("noise of one Langevin step", one, matrix, start, noise),
        _normal_stream("noise of all Langevin steps", law, no_data, np.zeros(law.width), sd),
    ]


def _normal_stream(name: str, law: Langevin, matrix: DesignMatrix, mean: Floats, sd: float) -> Stream:
    points = (np.floor((mean[:, None] + sd * ndtri(SHARES)) / law.grid) + 0.5) * law.grid  # between released numbers

    def again() -> Sequence[float]:
        state: list[float] = law.draw(matrix, 1)[0].tolist()
        return state

    return Stream(name, again, points, ndtr((points - mean[:, None]) / sd))


def _matrix(evidence: ExactEvidence) -> DesignMatrix:
    return require_type(evidence.design, DesignMatrix)


def _rows(matrix: DesignMatrix) -> Floats:
    dense = [x.toarray() if hasattr(x, "toarray") else x for x, _ in matrix.blocks]
    return np.concatenate([np.empty((0, matrix.rows.design.width)), *dense], dtype=np.float64)


def _points(rows: Floats, width: int) -> Floats:
    """Return random points, and points far from zero in the directions of the rows, where losses are steepest."""
    points = np.random.default_rng(0).normal(size=(width, _POINTS))
    for i, row in enumerate(np.unique(rows, axis=0)[: _POINTS // 8]):
        ends = [length / max(float(row @ row), 1e-12) for length in (30.0, -30.0, 1e4, -1e4)]
        points[:, 4 * i : 4 * i + 4] = np.outer(row, ends)
    return points
