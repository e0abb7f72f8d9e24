"""Synthetic: the coverage of intervals for a logistic regression, from a posterior and from synthetic tables."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, cast

import msgspec
import numpy as np
from msgspec import Meta

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.joint_law import JointLaw
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.core.section import Section, require_type
from dpbayes_cli.core.statistic_values import count_cells
from dpbayes_cli.experiments.network_posteriors import conjugate_draws, release_step
from dpbayes_cli.experiments.plots import Plot
from dpbayes_cli.experiments.results import OURS, Claim, Comparison, GridPoint, PointOutcome, Results
from dpbayes_cli.experiments.study import SimulatedStudy, with_errors
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.inference.estimands.cell_regression import Fits, fit_cells
from dpbayes_cli.inference.estimands.combined_tables import Rule, combine_tables
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.release_spec import build_spec

Method = Literal["non-private", "analyze", "rubin", "rubin-t", "plug-in"]
_POLICY = RecordPolicy(Neighbors.REPLACE_ONE, "0")
_LEVEL = 0.95
_COVERAGE = (0.92, 0.98)
_PLUG_IN_BELOW = 0.85
_BINARY = {"values": ["0", "1"]}
_CELLS = np.array([[1.0, a, b] for a in (0, 1) for b in (0, 1)])
"""The design of the regression: an intercept and two binary predictors."""
_NARROWER = Comparison(
    OURS, "analyze", "rubin", "intervals from the posterior are narrower than those from synthetic tables", always=-1
)


class SyntheticCase(Section, frozen=True, kw_only=True):
    """A logistic regression on two independent fair coins, and the number of records."""

    n: Annotated[int, Meta(ge=10, le=1_000_000, description="number of records")]
    slopes: Annotated[tuple[float, float], Meta(description="the true coefficients of the two coins")]

    @property
    def model(self) -> DiscreteBayesNet:
        """The network with all edges among the coins a, b and the outcome y."""
        parents: dict[str, list[str]] = {"a": [], "b": ["a"], "y": ["a", "b"]}
        variables = {name: {**_BINARY, "parents": parents[name]} for name in parents}
        spec = build_spec({"model": "bayes-net", "domain": {"variables": variables}})
        return cast(DiscreteBayesNet, spec.build_model())

    def draw_counts(self, trials: int, rng: np.random.Generator) -> Integers:
        """Return the exact statistic of simulated records, shape (trials, n_cells)."""
        model = self.model
        statistic, shares = model.statistic(_POLICY), 1.0 / (1.0 + np.exp(-_CELLS @ np.array([0.0, *self.slopes])))
        counts = []
        for _ in range(trials):
            coins = rng.integers(0, 4, self.n)
            outcome = rng.random(self.n) < shares[coins]
            codes = np.stack([coins // 2, coins % 2, outcome], axis=1).astype(np.int64)
            counts.append(count_cells(statistic, model.network.names, codes))
        return np.array(counts, dtype=np.int64)


class Synthetic(SimulatedStudy, frozen=True, kw_only=True):
    """How often 95 % intervals contain the coefficients of a logistic regression, and how wide the intervals are.

    Each data set has two independent fair coins and a binary outcome. A release holds the noisy tables of the
    network with all edges among the three columns. `analyze`: quantiles of the regression on each posterior
    draw of the joint law. `rubin`: each of several synthetic tables comes from another posterior draw, and
    the regressions of the tables are combined by Rubin's rules for fully synthetic data, with the variance
    integrated out; `rubin-t` approximates this with a t distribution. `plug-in`: as `rubin`, but all tables
    come from the posterior mean of the probabilities. `non-private`: as `analyze`, from exact counts.

    Source: Raisa, Jalko, Kaski and Honkela 2023, the toy study of NAPSU-MQ; Raghunathan, Reiter and Rubin 2003.
    """

    study: Literal["synthetic"]
    tables: Annotated[int, Meta(ge=2, le=1000, description="synthetic tables of a trial")] = 10
    rows: Annotated[int, Meta(ge=10, le=1_000_000, description="records of a synthetic table")] = 2000
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, SyntheticCase], Meta(min_length=1)]

    columns = ("case", "epsilon", "method")
    measures = with_errors("coverage", "width")
    by_trial = ("coverage", "width", "records")
    shown = ("case", "epsilon", "method", *measures)
    plots: ClassVar = {
        "coverage": Plot("Coverage of 95 % intervals of two coefficients", "coverage", across="non-private"),
        "width": Plot("Width of these intervals", "width", across="non-private", scales="log log"),
    }
    legend = (
        "Each number is a mean over trials and over the two slopes, with its standard error. `coverage`: share of the "
        "intervals that contain the true slope. `width`: mean width of the intervals."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draws < self.tables:
            raise ValueError(f"draws is {self.draws}, but each of the {self.tables} tables needs another draw")

    def grid(self) -> list[GridPoint]:
        grid = []
        for name, case in self.cases.items():
            data = {**msgspec.to_builtins(case), "seed": self.seed, "trials": self.trials}
            for epsilon, method in self.prices_and_methods(self.epsilon, self.methods, "non-private"):
                own = {"epsilon": epsilon, "method": method, "draws": self.draws}
                if method not in {"non-private", "analyze"}:
                    own |= {"tables": self.tables, "rows": self.rows}
                grid.append(self.point({"case": name, "epsilon": epsilon, "method": method}, data, own))
        return grid

    def run(self, point: GridPoint) -> PointOutcome:
        case, method = self.cases[point.case], point["method"]
        data, rng = point.data_seed(), np.random.default_rng(point.inference_seed())
        counts = case.draw_counts(self.trials, np.random.default_rng(data))
        if method == "non-private":
            draws = conjugate_draws(case.model, counts, self.draws, rng)
        else:
            noise = point.noise_seed(epsilon=point["epsilon"])
            draws = _posteriors(case, point["epsilon"], self.trials, self.draws, _entropy(data), _entropy(noise))
        if method in {"non-private", "analyze"}:
            low, high = _analyzed(case, draws)
        else:
            low, high = self._from_tables(case, method, draws, rng)
        truth = np.array(case.slopes)
        covered, width = ((low <= truth) & (truth <= high)).mean(axis=1), (high - low).mean(axis=1)
        trials = {"coverage": covered, "width": width, "records": counts[:, :2].sum(axis=1).astype(np.float64)}
        return PointOutcome.averaged(trials, ("coverage", "width"))

    def _from_tables(
        self, case: SyntheticCase, method: Method, draws: Floats, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Return the ends of the intervals of both slopes from synthetic tables, shape (trials, 2)."""
        if method == "plug-in":
            draws = np.broadcast_to(draws.mean(axis=1, keepdims=True), draws.shape)
        chosen = draws[:, np.arange(self.tables) * self.draws // self.tables]  # shape (trials, tables, n_cells)
        law = _law(case, chosen.reshape(-1, chosen.shape[-1]))
        codes = (law.records(k, self.rows, rng) for k in range(law.n_draws))
        counts = np.array([np.bincount(each @ [4, 2, 1], minlength=8) for each in codes], dtype=np.float64)
        fits = _regressions(counts)
        ridge = 1e-9 * np.eye(fits.coefficients.shape[1])  # tables without a value of a coin tell nothing of its slope
        variances = np.diagonal(np.linalg.inv(fits.information + ridge), axis1=1, axis2=2)
        shape = (len(draws), self.tables, -1)
        estimates, squares = (
            each[:, 1:].reshape(shape).swapaxes(0, 1).reshape(self.tables, -1)
            for each in (fits.coefficients, variances)
        )
        rule: Rule = "rubin-t" if method == "rubin-t" else "rubin"
        combined = combine_tables(estimates, squares, _LEVEL, rule)
        return combined.low.reshape(len(draws), -1), combined.high.reshape(len(draws), -1)

    def claims(self, results: Results) -> Iterator[Claim]:
        for name in self.cases:
            own = results.where(case=name)
            for method in ("analyze", "rubin"):
                if own.where(method=method):
                    yield _covers(f"{name}: {method}", own.where(method=method))
            if plug_in := own.where(method="plug-in"):
                yield _plug_in(name, plug_in)
            yield from _NARROWER.claims(name, own, "width")


def _entropy(seed: np.random.SeedSequence) -> tuple[int, ...]:
    return tuple(require_type(seed.entropy, list))


@lru_cache(maxsize=2)
def _posteriors(
    case: SyntheticCase, epsilon: str, trials: int, n_draws: int, data: tuple[int, ...], noise: tuple[int, ...]
) -> Floats:
    """Simulate a release in each trial; return posterior draws of all tables, shape (trials, n_draws, n_cells).

    All methods at a point share these draws. ``data`` and ``noise`` are the entropy of seeds.
    """
    step, mechanism = release_step("laplace", epsilon, case.model, case.n), mechanism_type("laplace")()
    counts = case.draw_counts(trials, np.random.default_rng(data))
    noisy = counts + step.noise.simulate(np.random.default_rng(noise), counts.shape)
    observations = [mechanism.observation(case.model, _POLICY, row, step.noise, case.n) for row in noisy.tolist()]
    return draw_many(observations, "noise-aware", n_draws, np.random.default_rng([*noise, 1]))


def _law(case: SyntheticCase, draws: Floats) -> JointLaw:
    return require_type(case.model.joint_law("", draws, None), JointLaw)


def _regressions(cells: Floats) -> Fits:
    """Return the regressions for weights of the eight cells, shape (n_sets, 8)."""
    pairs = cells.reshape(-1, 4, 2)
    return fit_cells(_CELLS, pairs.sum(axis=-1), pairs[..., 1], "logistic")


def _analyzed(case: SyntheticCase, draws: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the intervals of both slopes from the posterior, shape (trials, 2)."""
    cells = _law(case, draws.reshape(-1, draws.shape[-1])).margin((0, 1, 2))
    slopes = _regressions(cells).coefficients[:, 1:].reshape(*draws.shape[:2], -1)
    low, high = np.quantile(slopes, [0.5 - _LEVEL / 2.0, 0.5 + _LEVEL / 2.0], axis=1)
    return low, high


def _covers(intervals: str, results: Results) -> Claim:
    low, high = _COVERAGE
    shares = {each["epsilon"]: each.measure("coverage") for each in results}
    says = f"{intervals}: 95 % intervals contain {100 * low:g} % to {100 * high:g} % of the true slopes."
    return Claim(OURS, says, all(low <= share <= high for share in shares.values()), _by_epsilon(shares))


def _plug_in(name: str, results: Results) -> Claim:
    shares = {each["epsilon"]: each.measure("coverage") for each in results}
    least = min(shares, key=float)
    says = (
        f"{name}: with tables from the posterior mean, intervals contain less than {100 * _PLUG_IN_BELOW:g} % of the "
        f"true slopes at epsilon {least}."
    )
    return Claim(OURS, says, shares[least] < _PLUG_IN_BELOW, _by_epsilon(shares))


def _by_epsilon(values: dict[str, float]) -> str:
    return "coverage: " + "; ".join(f"{value:.3f} at epsilon {epsilon}" for epsilon, value in values.items())
