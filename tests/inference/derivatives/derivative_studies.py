"""Studies of posteriors given noisy derivatives: records, noisy rounds at public points, posterior, coverage."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.columns import Column, NumericColumn
from dpbayes_cli.core.design import Design, Feature
from dpbayes_cli.core.losses import CountLoss, CurvedLoss, LogisticLoss, ProbitLoss
from dpbayes_cli.core.noisy_observation import NoisyDerivatives, RecordCount
from dpbayes_cli.experiments.regression_calibration import LEVELS, Kind, draw_codes, kinds_of
from dpbayes_cli.inference.derivatives.infer_derivatives import next_point
from dpbayes_cli.inference.posterior import Effort, Posterior
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.mechanisms.noisy_newton import PERCENT, n_rounds
from dpbayes_cli.models.families.regression_domain import StatedPrior
from dpbayes_cli.models.logistic_regression import LogisticRegression
from dpbayes_cli.models.poisson_regression import PoissonRegression
from dpbayes_cli.models.probit_regression import ProbitRegression
from dpbayes_cli.privacy.noisy_descent import mu_of_statement

DELTA = 1e-6
LOGISTIC = LogisticLoss()
_STEPS = 1 << 12


@dataclass(frozen=True)
class Cell:
    """One cell of a study: the kind and number of features, the number of records, and epsilon."""

    kind: Kind
    d: int
    n: int
    epsilon: float
    loss: CurvedLoss = LOGISTIC
    spread: float | None = None

    def __str__(self) -> str:
        family = "counts-" if isinstance(self.loss, CountLoss) else ""
        return f"{family}{self.kind}-d{self.d}-n{self.n}-eps{self.epsilon:g}"

    @property
    def prior(self) -> CoefficientLaw:
        """The default prior of the model, unless a spread is stated."""
        kind = {LogisticLoss: LogisticRegression, ProbitLoss: ProbitRegression, CountLoss: PoissonRegression}
        model = kind[type(self.loss)]
        stated = StatedPrior(spread=self.spread).complete(model.default_effect)
        return stated.law_of(self.design(), self.loss.start(), model.intercept_factor)

    def kinds(self) -> list[Kind]:
        return kinds_of(self.kind, self.d)

    def design(self) -> Design:
        def feature(j: int, kind: Kind) -> Feature:
            if kind not in {"binary", "categorical"}:
                return Feature(NumericColumn(f"x{j}", -1.0, 1.0, _STEPS))
            size = 2 if kind == "binary" else LEVELS
            return Feature(Column(f"x{j}", tuple(str(level) for level in range(size))))

        return Design(tuple(feature(j, kind) for j, kind in enumerate(self.kinds())))

    def codes(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return draw_codes(self.kinds(), [each.column for each in self.design().features], n, rng)


def observe(
    design: Design,
    rows: Floats,
    outcomes: Floats,
    epsilon: float,
    rng: np.random.Generator,
    loss: CurvedLoss,
    total: RecordCount | None,
    prior: CoefficientLaw,
) -> NoisyDerivatives:
    """Simulate the release: noisy gradients and Hessians at public points, each the mode given the rounds before."""
    mu = mu_of_statement(epsilon, DELTA)
    width, norm = design.width, design.row_norm
    empty = np.empty((0, width))
    observation = NoisyDerivatives(
        design,
        loss,
        prior,
        empty,
        empty,
        np.empty((0, width, width)),
        np.empty(0),
        np.empty((0, 2)),
        total or RecordCount("known", len(rows)),
    )
    n = None if total and total.kind == "unbounded" else len(rows)
    for share in np.array(PERCENT[n_rounds(width, mu, n)]) / 100:
        point = next_point(observation) if len(observation.points) else np.eye(width)[0] * loss.start()
        half = min(design.radius * float(np.linalg.norm(point[1:])), float(np.abs(point[1:]).sum()))
        predictors = np.linspace(point[0] - half, point[0] + half, 501)
        means = loss.mean(predictors)
        steepest = max(float(means.max()), loss.largest_outcome - float(means.min()))
        gradient_sd = 2.0 * norm * steepest / (mu * math.sqrt(share[0]))
        hessian_sd = math.sqrt(2.0) * float(loss.curvature(predictors).max()) * norm**2 / (mu * math.sqrt(share[1]))
        predictors = rows @ point
        gradient = -(loss.slope(predictors, outcomes) @ rows) + rng.normal(0.0, gradient_sd, width)
        noise = rng.normal(0.0, hessian_sd, (width, width))
        noise = np.triu(noise, 1) / math.sqrt(2.0) + np.tril(noise).T * np.eye(width)
        noise += np.triu(noise, 1).T
        hessian = (rows * loss.curvature(predictors)[:, None]).T @ rows + noise
        observation = replace(
            observation,
            points=np.vstack([observation.points, point]),
            gradients=np.vstack([observation.gradients, gradient]),
            hessians=np.concatenate([observation.hessians, hessian[None]]),
            gradient_sds=np.append(observation.gradient_sds, gradient_sd),
            hessian_sds=np.vstack([observation.hessian_sds, [hessian_sd, hessian_sd / math.sqrt(2.0)]]),
        )
    return observation


def simulated(
    cell: Cell, rng: np.random.Generator, total: RecordCount | None = None
) -> tuple[Floats, NoisyDerivatives]:
    """Draw coefficients from their prior, records and a release; return the coefficients and the observation."""
    design, loss, prior = cell.design(), cell.loss, cell.prior
    rows = design.rows(cell.codes(cell.n, rng))
    rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
    beta = prior.given(rows).draw(1, rng)[0]
    if isinstance(loss, CountLoss):
        outcomes = np.minimum(rng.poisson(np.exp(np.clip(rows @ beta, -30.0, 30.0))), loss.upper).astype(np.float64)
    else:
        outcomes = (rng.random(cell.n) < loss.mean(rows @ beta)).astype(np.float64)
    return beta, observe(design, rows, outcomes, cell.epsilon, rng, loss, total, prior)


class Study(NamedTuple):
    """Results by data set and coefficient: whether the interval covers, the squared error, the sd."""

    covered: Floats
    squared_errors: Floats
    sds: Floats

    def __str__(self) -> str:
        return (
            f"coverage {self.covered.mean():.3f} +- {self.covered.mean(axis=1).std() / len(self.covered) ** 0.5:.3f}"
            f", RMSE {self.squared_errors.mean() ** 0.5:.3f}, mean sd {(self.sds**2).mean() ** 0.5:.3f}"
        )


Inference = Callable[[NoisyDerivatives, np.random.Generator], Posterior]


def noise_aware(observation: NoisyDerivatives, rng: np.random.Generator) -> Posterior:
    return infer(observation, "noise-aware", 400, rng, Effort())


def naive(observation: NoisyDerivatives, rng: np.random.Generator) -> Posterior:
    return infer(observation, "naive", 400, rng, Effort())


def study(cell: Cell, trials: int, seed: int, inference: Inference = noise_aware) -> Study:
    """Return the coverage of 90 % intervals, and errors of posterior means.

    Chains end after a fifth of the usual number of effective draws: what one data set's intervals lack in precision,
    the average over data sets does not notice.
    """
    results = []
    for trial in range(trials):
        rng = np.random.default_rng([seed, trial])
        beta, observation = simulated(cell, rng)
        with patch("dpbayes_cli.inference.convergence.DETECTED_SHIFT", 0.7):
            posterior = inference(observation, rng)
        low, mean, high, sd = (
            np.array([each.quantiles["q05"] for each in posterior.marginals]),
            np.array([each.mean for each in posterior.marginals]),
            np.array([each.quantiles["q95"] for each in posterior.marginals]),
            np.array([each.sd for each in posterior.marginals]),
        )
        results.append(((low <= beta) & (beta <= high), (mean - beta) ** 2, sd))
    return Study(*(np.array(each, dtype=np.float64) for each in zip(*results, strict=True)))
