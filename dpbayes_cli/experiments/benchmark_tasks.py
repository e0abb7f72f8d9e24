"""The tasks of the study ``benchmark``: records, true values, and what each method estimates."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri, xlogy

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.columns import AnyColumn, NumericColumn
from dpbayes_cli.experiments import calibration_measures as measures
from dpbayes_cli.experiments import peers
from dpbayes_cli.experiments.file_records import read_codes
from dpbayes_cli.experiments.study import plan_release
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.inference.posterior import Method as Inference
from dpbayes_cli.spec.release_spec import build_spec

LEVEL = 0.9
"""The probability of the intervals."""
_Z = float(ndtri(0.5 + LEVEL / 2.0))


class Trial(NamedTuple):
    """One data set: the records to learn from, the true values, and the records to predict."""

    records: Any
    truth: Floats  # shape (n_values,)
    test: Any = None


class Scored(NamedTuple):
    """The estimates of a method, the ends of intervals if it has any, and the loss of its predictions."""

    estimate: Floats  # shape (n_values,)
    ends: tuple[Floats, Floats] | None
    loss: float
    accuracy: float | None = None  # the share of new records whose class is predicted right
    rank: float | None = None  # of the first true value among the draws


class Release(NamedTuple):
    """The cost of a release in each trial, and the seed of its noise, which all methods share."""

    epsilon: Decimal
    delta: Decimal
    seed: np.random.SeedSequence

    def noise(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def quantiles(draws: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the intervals of draws, shape (n_draws, n_values)."""
    low, high = np.quantile(draws, [0.5 - LEVEL / 2.0, 0.5 + LEVEL / 2.0], axis=0)
    return low, high


def around(estimate: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return the ends of normal intervals."""
    half = _Z * np.sqrt(variance)
    return estimate - half, estimate + half


def inference_of(method: str) -> Inference:
    """Return how a method infers from a release."""
    return "naive" if method == "plug-in" else "noise-aware"


def class_scores(likely: Floats, y: Floats) -> tuple[float, float]:
    """Return the mean negative log probability of the true classes, and the accuracy of predictions."""
    losses = -np.log(np.clip(np.where(y > 0.5, likely, 1.0 - likely), 1e-12, 1.0))
    return float(losses.mean()), float(((likely > 0.5) == (y > 0.5)).mean())


def random_state(rng: np.random.Generator) -> int:
    """Return a seed for a package that takes an integer."""
    return int(rng.integers(1 << 31))


@dataclass(frozen=True)
class Task(ABC):
    """What is simulated and estimated.

    Attributes:
        document: the request of a release, without its cost.
        place: the file of the records, ``sklearn:NAME`` or ``statsmodels:NAME``; empty if they are simulated.
        n: the number of records of a trial.
        n_draws: the number of posterior draws.
        sweeps: the sweeps that samplers of papers keep.
        steps: the steps of mirror descent of mbi.
        rounds: the rounds of AIM for each column.
    """

    document: dict[str, Any]
    place: str
    n: int
    n_draws: int
    sweeps: int
    steps: int
    rounds: int

    @abstractmethod
    def trials(self, count: int, seed: np.random.SeedSequence) -> list[Trial]:
        """Return data sets with the true values."""

    @cached_property
    def model(self) -> Any:
        """The model of the request."""
        return build_spec(self.document).build_model()

    @abstractmethod
    def apply(self, method: str, trials: Sequence[Trial], release: Release, rng: np.random.Generator) -> list[Scored]:
        """Estimate from each data set by a method; a method without privacy does not use ``release``."""

    def error(self, scored: Scored, trial: Trial) -> float:
        """Return the root mean square distance of the estimates from the true values."""
        return float(np.sqrt(np.square(scored.estimate - trial.truth).mean()))


class FileTask(Task):
    """The values in a whole file, estimated from some of its records."""

    def trials(self, count: int, seed: np.random.SeedSequence) -> list[Trial]:
        """Return data sets whose records are drawn from a file with replacement; the others are to be predicted."""
        codes, trials = self.population, []
        for each in seed.spawn(count):
            chosen = np.random.default_rng(each).integers(len(codes), size=self.n)
            trials.append(Trial(codes[chosen], self.truth, np.delete(codes, chosen, axis=0)))
        return trials

    @cached_property
    def population(self) -> Integers:
        """The codes of the records of the file, shape (n_records, n_columns)."""
        return records_of(self.place, self.model.columns)

    @property
    @abstractmethod
    def truth(self) -> Floats:
        """What is to be estimated: the values in the whole file."""


@lru_cache(maxsize=4)
def records_of(place: str, columns: tuple[AnyColumn, ...]) -> Integers:
    """Return the codes of records in a file, or within scikit-learn or statsmodels."""
    package, _, name = place.rpartition(":")
    if package not in {"sklearn", "statsmodels"}:
        return read_codes(place, columns)
    if package == "sklearn":
        options = {"scaled": False} if name == "diabetes" else {}
        frame = getattr(peers.peer("sklearn.datasets"), f"load_{name}")(as_frame=True, **options).frame
    else:
        frame = peers.peer(f"statsmodels.datasets.{name}").load_pandas().data
    with tempfile.TemporaryDirectory() as directory:
        frame.convert_dtypes().to_csv(Path(directory, "records.csv"), index=False)
        return read_codes(str(Path(directory, "records.csv")), columns)


class ParameterTask(Task):
    """A model of one column: in each trial, its parameters are drawn from the prior, and then the records."""

    def trials(self, count: int, seed: np.random.SeedSequence) -> list[Trial]:
        thetas, values = measures.prior_predictive(self.model, self.n, count, seed)
        return [Trial(value, theta) for theta, value in zip(thetas, values, strict=True)]

    def apply(self, method: str, trials: Sequence[Trial], release: Release, rng: np.random.Generator) -> list[Scored]:
        model, n, policy = self.model, self.n, measures.complete_policy(self.model)
        values, thetas = (np.array([each[k] for each in trials]) for k in (0, 1))
        if method == "non-private":
            draws = measures.non_private_draws(model, values, n, self.n_draws, rng)
        else:
            step = plan_release("laplace", model, policy, n, epsilon=release.epsilon).final_step
            released = values + step.noise.simulate(release.noise(), values.shape)
            (column,) = model.columns
            unit = column.step if isinstance(column, NumericColumn) else 1.0
            sums, scale = released * unit, step.noise.scale * unit
            if method == "least-squares":
                fits = [self._least_squares(row, scale) for row in sums]
                return [
                    Scored(estimate, around(estimate, variance), self._loss(theta, estimate[None]))
                    for theta, (estimate, variance) in zip(thetas, fits, strict=True)
                ]
            if method in {"laplace", "plug-in"}:
                observations = [model.observation(policy, row, step.noise, n) for row in released.tolist()]
                draws = draw_many(observations, inference_of(method), self.n_draws, rng)[:, :, list(model.components)]
            elif method == "ju":
                draws = self._ju(np.asarray(sums, dtype=np.float64), scale, rng)
            else:
                draws = np.stack([self._bernstein_sheldon(row, scale, rng) for row in sums])
        ranks = measures.ranks_among(thetas, draws, rng)[:, 0]
        return [
            Scored(each.mean(axis=0), quantiles(each), self._loss(theta, each), rank=rank)
            for each, theta, rank in zip(draws, thetas, ranks, strict=True)
        ]

    @property
    def _prior(self) -> Floats | None:
        """The Dirichlet prior of the categories; None for a model of times."""
        if self.document["model"] == "beta-bernoulli":
            return np.array([self.model.alpha, self.model.beta])
        return np.array(self.model.concentration) if self.document["model"] == "dirichlet-categorical" else None

    def _loss(self, theta: Floats, draws: Floats) -> float:
        """Return the expected negative log predictive probability of a new record."""
        if self._prior is None:
            x = -np.log1p(-(np.arange(200) + 0.5) / 200.0) / theta
            return float(-np.log((draws * np.exp(-draws * x)).mean(axis=0)).mean())
        likely = np.clip(draws.mean(axis=0), 1e-12, 1.0)
        if len(theta) == 1:
            theta, likely = np.array([theta[0], 1.0 - theta[0]]), np.array([likely[0], max(1.0 - likely[0], 1e-12)])
        return float(-xlogy(theta, likely).sum())

    def _bernstein_sheldon(self, y: Floats, scale: float, rng: np.random.Generator) -> Floats:
        model, prior = self.model, self._prior
        if prior is None:
            law = (model.shape, model.rate, model.upper)
            return peers.bernstein_sheldon_exponential(y[0], self.n, *law, scale, "clamp", self.sweeps, rng)[:, None]
        if len(y) == 1:
            alpha, beta = prior
            return peers.bernstein_sheldon_binomial(y[0], self.n, alpha, beta, scale, self.sweeps, rng)[:, None]
        return peers.bernstein_sheldon_multinomial(y, self.n, prior, scale, self.sweeps, rng)

    def _ju(self, y: Floats, scale: float, rng: np.random.Generator) -> Floats:
        model, prior, n, sets, width = self.model, self._prior, self.n, *y.shape
        if prior is None:
            return peers.ju_sampler(
                y, scale,
                lambda theta: rng.exponential(1.0 / theta[:, 0], (n, sets)),
                lambda times: np.minimum(times, model.upper)[:, :, None],
                lambda times: rng.gamma(model.shape + n, 1.0 / (model.rate + times.sum(axis=0)))[:, None],
                np.full((sets, 1), model.shape / model.rate), self.sweeps, rng,
            )  # fmt: skip
        one_hot = np.eye(len(prior))
        draws = peers.ju_sampler(
            y, scale,
            lambda theta: (rng.random((n, sets))[:, :, None] >= theta.cumsum(axis=1)[:, :-1]).sum(axis=2),
            lambda codes: one_hot[codes][:, :, :width],
            lambda codes: _normalized(rng.standard_gamma(prior + one_hot[codes].sum(axis=0))),
            np.tile(prior / prior.sum(), (sets, 1)), self.sweeps, rng,
        )  # fmt: skip
        return draws[:, :, :width]

    def _least_squares(self, y: Floats, scale: float) -> tuple[Floats, Floats]:
        """Return the generalized least-squares estimates of shares, and their variances from sampling and noise."""
        n, noise = self.n, 2.0 * scale**2
        if len(y) > 1:  # the counts add up to n
            y, noise = y - (y.sum() - n) / len(y), noise * (1.0 - 1.0 / len(y))
        shares = np.clip(y / n, 0.0, 1.0)
        return shares, shares * (1.0 - shares) / n + noise / n**2


def _normalized(positive: Floats) -> Floats:
    return np.asarray(positive / positive.sum(axis=-1, keepdims=True))
