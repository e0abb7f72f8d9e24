"""Simulate releases of coefficients by Langevin chains on convex losses, from the prior predictive law.

A chain may take half a minute, so no chain is run. Its last iterate is approximated by the normal law that it would
have if the loss were quadratic, with the mean curvature around the mode. For a quadratic loss with curvature k in some
direction and step size h, the mean after T steps is 1 - (1 - h k)^T of the way from 0 to the mode, and the variance is
(1 - (1 - h k)^2T) / (k (1 - h k / 2)).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.core.coefficient_law import CoefficientLaw, HasCoefficients
from dpbayes_cli.core.derivatives import DerivativeRows, Point
from dpbayes_cli.core.design import Design, DesignRows
from dpbayes_cli.core.langevin import Langevin
from dpbayes_cli.core.losses import Loss
from dpbayes_cli.core.plan import Step
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.derivatives.first_round import without_data
from dpbayes_cli.inference.derivatives.infer_derivatives import normal_approximation
from dpbayes_cli.mechanisms.noisy_newton import rounds
from dpbayes_cli.privacy.laws.part_noise import PartNoise
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.workflow.simulated_releases import Simulation, Trials
from dpbayes_cli.workflow.tested_predictions import TESTED, TestRecords

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_MAX_RECORDS = 10_000
"""For a larger data set, only this many records are simulated, and each counts several times."""
_PLAIN_DRAWS = 50
COMMONEST, _MAX_TRIES = 0.95, 100
"""Under the default prior, data sets in which a larger share of the records has the same target are simulated anew, so
many times at most: it is wide, so that these data sets are many."""
_DIFFERENCE = 1e-4
_NODES, _ROUNDS = 7, 4
"""The number of quadrature nodes for the mean curvature of a record, and of rounds until this curvature converges."""


def leaves_out_one_class(spec: ReleaseSpec, prior: CoefficientLaw) -> bool:
    """Return whether data sets are simulated anew if nearly all targets are equal: only under a wide default prior."""
    return prior.tau is None and spec.prior == spec.complete_prior(spec.domain, type(spec.prior)())


class CoefficientSimulation(Simulation):
    """Normal approximations of what is known about coefficients, and scores of predictions from it."""

    def run(self, trials: int) -> Trials:
        """Simulate the next data sets, and approximate the law of the coefficients given a release from each."""
        drawn_from = require_type(self.asked.build_model(), HasCoefficients).prior
        rows = [self._release(drawn_from) for _ in range(trials)]
        sd, plain, scores, errors = map(np.array, zip(*rows, strict=True))
        laws = Trials.of_normal_laws(sd[:, self.indices], plain[:, self.indices])
        has_likelihood = require_type(self.model, HasCoefficients).has_likelihood
        return replace(laws, scores=scores, errors=errors if has_likelihood else laws.errors)

    def prior_widths(self) -> Floats:
        """See ``Simulation``; a prior that refers to standard deviations is that of a release that tells nothing."""
        prior = without_data(require_type(self.model, HasCoefficients).prior)
        return np.asarray(np.diff(prior.quantiles(np.array([0.05, 0.95])), axis=1)[:, 0])

    def _release(self, drawn_from: CoefficientLaw) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the standard deviations with and without privacy, the scores of predictions, and the errors."""
        step, size = self.planned.plan.final_step, min(self.n_records, _MAX_RECORDS)
        model = require_type(self.model, HasCoefficients)
        rows = require_type(step.rows, DesignRows)
        is_wide = leaves_out_one_class(self.asked, drawn_from)
        for _ in range(_MAX_TRIES):
            features = model.simulated_features(size + TESTED, self.data_rng)
            x = model.design.rows(features)
            truth = drawn_from.given(x).draw(1, self.data_rng)[0]
            both = np.column_stack([features, model.simulated_targets(x @ truth, self.data_rng)])
            commonest = np.bincount(both[:, -1]).max()
            if commonest <= COMMONEST * len(both) or not is_wide:
                break
        codes, others = both[:size], both[size:]
        records = DesignRows(rows.design, rows.target).hold(size)
        records.take(codes)
        ((x, y),) = records.blocks
        mean, factor, loss = self._released(step, rows, codes, (x, y))
        mode, curvature = _mode_and_curvature(loss, x, y, self.n_records / size, model.prior.as_normal.given(x))
        plain_factor = np.linalg.cholesky(np.linalg.inv(curvature))
        drawn, exact = (
            center + self.release_rng.normal(size=(k, root.shape[1])) @ root.T
            for center, root, k in ((mean, factor, step.draws or _PLAIN_DRAWS), (mode, plain_factor, _PLAIN_DRAWS))
        )
        tested = TestRecords(self.model, others, self.model.predicted_column(None))
        private_sd, plain_sd = (np.sqrt(np.square(root).sum(axis=1)) for root in (factor, plain_factor))
        effects = _effects(rows.design)
        estimates = np.stack([drawn.mean(axis=0) if step.draws else mean, mode])
        errors = np.square((estimates - (truth if self.n_records == size else mode)) @ effects.T).mean(axis=1)
        if self.n_records > size:  # the records that are simulated are fewer, so their sampling error is too large
            errors += np.square(effects @ plain_factor).sum(axis=1).mean()
        return private_sd, plain_sd, tested.scores(drawn, exact), errors

    @abstractmethod
    def _released(
        self, step: Step, rows: DesignRows, codes: Integers, matrix: tuple[Any, Floats]
    ) -> tuple[Floats, Floats, Loss]:
        """Return mean and a square root of the covariance of the coefficients given a release, and the loss.

        Args:
            codes: the codes of the simulated records.
            matrix: their rows and targets.
        """


class ChainSimulation(CoefficientSimulation):
    """Normal approximations of the last iterate of a chain."""

    def _released(
        self, step: Step, rows: DesignRows, codes: Integers, matrix: tuple[Any, Floats]
    ) -> tuple[Floats, Floats, Loss]:
        law = require_type(step.law, Langevin)
        return *chain_law(law, *matrix, self.n_records / len(codes)), law.loss


class DerivativeSimulation(CoefficientSimulation):
    """Normal approximations of the posterior given noisy derivatives, at its mode."""

    def _released(
        self, step: Step, rows: DesignRows, codes: Integers, matrix: tuple[Any, Floats]
    ) -> tuple[Floats, Floats, Loss]:
        stated = require_type(rows, DerivativeRows)
        records, noise = stated.hold(len(codes)), self.release_rng
        records.take(codes)
        weight = self.n_records / len(codes)
        public = self.n_records if self.planned.policy.neighbors is Neighbors.REPLACE_ONE else None

        def derivatives(point: Point) -> list[int]:
            return [round(weight * value) for value in records.derivatives(point)]

        def add_noise(law: PartNoise, values: list[int]) -> list[int]:
            return [
                value + drawn for value, drawn in zip(values, law.simulate(noise, len(values)).tolist(), strict=True)
            ]

        values, points = rounds(step, stated, public, derivatives, add_noise)
        seen = stated.observation(values, step.noise.scales(len(values)), points, public)
        # at the kink of a Laplace law, the curvature says nothing about its width
        return *normal_approximation(replace(seen, prior=seen.prior.as_normal)), stated.loss


def _effects(design: Design) -> Floats:
    """Return the effects of which errors are stated as functions of the coefficients, shape (n_effects, width)."""
    unit: Floats = np.eye(design.width)
    return np.array([each.of_coefficients(unit) / each.factor for each in design.contrasts] or unit)


def chain_law(law: Langevin, x: Any, y: Floats, weight: float = 1.0) -> tuple[Floats, Floats]:
    """Return mean and a square root of the covariance of the normal approximation of a chain's last iterate.

    Args:
        x, y: rows and targets of the records.
        weight: how many times each record counts.
    """
    mode, curvature = _mode_and_curvature(
        law.loss, x, y, law.likelihood_power * weight, CoefficientLaw.common(law.width, law.tau)
    )
    k, directions = np.linalg.eigh(curvature)
    left = (1.0 - law.step_size * k) ** law.n_steps
    mean = directions @ ((1.0 - left) * (directions.T @ mode))
    variance = (1.0 - left**2) / (k * (1.0 - law.step_size * k / 2.0))
    return mean, directions * np.sqrt(variance)


def _mode_and_curvature(loss: Any, x: Any, y: Floats, power: float, prior: CoefficientLaw) -> tuple[Floats, Floats]:
    """Return the minimum of the potential, shape (width,), and its mean Hessian around it, shape (width, width).

    The mean is over the normal law with this Hessian, because the curvature of some losses vanishes away from the mode.
    """
    from scipy.optimize import minimize

    def potential(w: Floats) -> tuple[float, Floats]:
        t = x @ w
        (log_prior,), (slope,) = prior.log_density(w[None])
        return power * float(loss.value(t, y).sum()) - float(log_prior), power * (x.T @ loss.slope(t, y)) - slope

    mode = minimize(potential, prior.location, jac=True, method="L-BFGS-B").x
    t = x @ mode
    dense = x.toarray() if hasattr(x, "toarray") else x
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    spread = np.zeros(len(y))
    for _ in range(_ROUNDS):
        second = np.zeros(len(y))
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            near = t + node * spread
            slopes = (loss.slope(near + step, y) for step in (_DIFFERENCE, -_DIFFERENCE))
            second += weight * np.subtract(*slopes) / (2.0 * _DIFFERENCE)
        curvature = power * (dense.T @ (second[:, None] * dense)) + prior.precision
        spread = np.sqrt(((dense @ np.linalg.inv(curvature)) * dense).sum(axis=1))
    return mode, curvature
