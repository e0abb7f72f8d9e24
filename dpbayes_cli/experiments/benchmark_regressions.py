"""Linear and logistic regressions of the study ``benchmark``, on records that are drawn from a file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.special import expit

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.statistic_values import evaluate
from dpbayes_cli.experiments import peers
from dpbayes_cli.experiments.benchmark_tasks import (
    FileTask,
    Release,
    Scored,
    Trial,
    around,
    class_scores,
    inference_of,
    quantiles,
    random_state,
)
from dpbayes_cli.experiments.file_records import POLICY
from dpbayes_cli.experiments.regression_accuracy import (
    dense_rows,
    exact_coefficients,
    release_derivatives,
)
from dpbayes_cli.experiments.study import COMPLETE, plan_release
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.inference.derivatives.infer_derivatives import draw_roughly
from dpbayes_cli.inference.derivatives.posterior_mode import plug_in


class LinearTask(FileTask):
    """The slopes of a linear regression, in standard deviations of the target for one of the feature."""

    def numbers(self, codes: Integers) -> Floats:
        """Return the numbers of records, target first."""
        return np.column_stack([c.lower + codes[:, i] * c.step for i, c in enumerate(self.model.columns)])

    @cached_property
    def unit(self) -> Floats:
        """The factors that standardize slopes in the units of the file."""
        deviations = self.numbers(self.population).std(axis=0)
        return np.asarray(deviations[1:] / deviations[0])

    @cached_property
    def truth(self) -> Floats:
        return np.asarray(_ordinary(self.numbers(self.population))[0][1:] * self.unit)

    def apply(self, method: str, trials: Sequence[Trial], release: Release, rng: np.random.Generator) -> list[Scored]:
        sets, columns = [self.numbers(each.records) for each in trials], self.model.columns
        if method == "non-private":
            fits = [_ordinary(each) for each in sets]
            return [
                self._score(trial, beta, around(beta, variance))
                for trial, (beta, variance) in zip(trials, fits, strict=True)
            ]
        if method == "diffprivlib":
            bounds = np.array([(column.lower, column.upper) for column in columns])
            fitted = (
                peers.functional_mechanism(each[:, 1:], each[:, 0], float(release.epsilon), bounds, random_state(rng))
                for each in sets
            )
            return [self._score(trial, beta, None) for trial, beta in zip(trials, fitted, strict=True)]
        mechanism = "laplace" if method == "laplace" else "gaussian"
        cost = {"epsilon": release.epsilon} | ({"delta": release.delta} if mechanism == "gaussian" else {})
        step = plan_release(mechanism, self.model, COMPLETE, self.n, **cost).final_step
        exact = np.array([evaluate(step.statistic, columns, each) for each in sets])
        noisy = exact + step.noise.simulate(release.noise(), exact.shape)
        observations = [self.model.observation(COMPLETE, row, step.noise, self.n) for row in noisy.tolist()]
        draws = draw_many(observations, inference_of(method), self.n_draws, rng)[:, :, : len(columns)]
        return [
            self._score(trial, each.mean(axis=0), quantiles(each)) for trial, each in zip(trials, draws, strict=True)
        ]

    def _score(self, trial: Trial, beta: Floats, ends: tuple[Floats, Floats] | None) -> Scored:
        """The loss is the squared error of predictions, as a share of the variance of the target."""
        new = self.numbers(trial.test)
        loss = np.square(new[:, 0] - beta[0] - new[:, 1:] @ beta[1:]).mean() / new[:, 0].var()
        scaled = None if ends is None else (ends[0][1:] * self.unit, ends[1][1:] * self.unit)
        return Scored(beta[1:] * self.unit, scaled, float(loss))


def _ordinary(numbers: Floats) -> tuple[Floats, Floats]:
    """Return the ordinary least-squares coefficients, intercept first, and their variances."""
    x, y = np.column_stack([np.ones(len(numbers)), numbers[:, 1:]]), numbers[:, 0]
    inverse = np.linalg.inv(x.T @ x)
    beta = inverse @ (x.T @ y)
    return beta, np.diag(inverse) * np.square(y - x @ beta).sum() / (len(y) - x.shape[1])


class LogisticTask(FileTask):
    """The coefficients of a logistic regression, for features that are scaled by their public bounds."""

    @cached_property
    def truth(self) -> Floats:
        return exact_coefficients(self.model, self.population)

    def apply(self, method: str, trials: Sequence[Trial], release: Release, rng: np.random.Generator) -> list[Scored]:
        noise = release.noise()
        return [self._score(method, trial, release, noise, rng) for trial in trials]

    def _score(
        self, method: str, trial: Trial, release: Release, noise: np.random.Generator, rng: np.random.Generator
    ) -> Scored:
        model, draws, ends = self.model, None, None
        if method == "diffprivlib":
            x, y = dense_rows(model, trial.records)
            norm = float(np.sqrt(model.design.radius**2 + model.design.intercept))
            beta = peers.objective_perturbation(x, y, float(release.epsilon), norm, random_state(rng))
        elif method == "non-private":
            x, _ = dense_rows(model, trial.records)
            beta = exact_coefficients(model, trial.records)
            p = expit(x @ beta)
            ends = around(beta, np.diag(np.linalg.inv((x.T * (p * (1.0 - p))) @ x + model.prior.given(x).precision)))
        else:
            cost = {"epsilon": release.epsilon, "delta": release.delta}
            step = plan_release("noisy-newton", model, POLICY, self.n, **cost).final_step
            seen = release_derivatives(step, trial.records, noise)
            if method == "noisy-newton":
                draws = draw_roughly(seen, self.n_draws, rng)
                beta, ends = draws.mean(axis=0), quantiles(draws)
            else:
                beta, covariance = plug_in(seen)
                ends = around(beta, np.diag(covariance))
        x, y = dense_rows(model, trial.test)
        likely = expit(x @ (beta[None] if draws is None else draws).T).mean(axis=1)
        return Scored(beta, ends, *class_scores(likely, y))
