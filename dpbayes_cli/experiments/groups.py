"""Groups: the errors of many groups' estimates from one release of noisy counts, with and without partial pooling."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from scipy.special import betaincinv

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.section import Positive
from dpbayes_cli.experiments.plots import Plot
from dpbayes_cli.experiments.results import OURS, Claim, Comparison, GridPoint, PointOutcome, Results
from dpbayes_cli.experiments.study import DROPPED, CoinCase, SimulatedStudy, plan_release, with_errors
from dpbayes_cli.inference.groups.binary import draw_correlations
from dpbayes_cli.inference.groups.grouped_posterior import LEVELS, Pooling
from dpbayes_cli.inference.groups.infer_groups import infer_groups
from dpbayes_cli.models.families.grouped import GroupedModel

Method = Literal["non-private", "non-private-true-prior", "independent", "pooled"]
_POOLING: dict[Method, Pooling] = {"independent": "none", "pooled": "partial"}
_COVERAGE, _COVERAGE_OVER_PRIOR = (0.88, 0.94), (0.88, 0.92)
_FOR_THIS_LAW = (
    "Coverage is 90 % on average over laws of the rates drawn from the prior. Here the noisy counts say little about "
    "the law of the rates, and the prior allows rates that differ more than these do, so the intervals are too wide."
)
_LEAST = 1e-12
"""Drawn parameters of a Beta law are at least this large."""
_RATIO = 0.5
"""The claim requires that the error of pooled rates is at most this multiple of the error of independent ones."""
_COMPARISON = Comparison(
    OURS, "pooled", "non-private", "pooled rates from noisy counts have a smaller error than unpooled rates from exact "
    "counts", "The noise loses more information than the other groups add.", always=-1,
)  # fmt: skip


class GroupsCase(CoinCase, frozen=True, kw_only=True):
    """The stated prior of a rate or of the mean of all rates, the true law of the rates, and the law of the sizes."""

    true_alpha: Annotated[
        Positive | None,
        Meta(description="first parameter of the Beta law of the groups' rates; drawn from the prior if not given"),
    ] = None
    true_beta: Annotated[Positive | None, Meta(description="second parameter of this law")] = None
    mean_size: Annotated[Positive, Meta(description="mean number of records of a group")]
    shape: Annotated[Positive, Meta(description="shape of the negative binomial law of this number")]
    groups: Annotated[int, Meta(ge=2, le=100_000, description="number of groups")]

    def __post_init__(self) -> None:
        if (self.true_alpha is None) != (self.true_beta is None):
            raise ValueError("state both true_alpha and true_beta, or neither: then they are drawn from the prior")

    def draw_law(self, rng: np.random.Generator) -> tuple[float, float]:
        """Return the parameters of the law of the rates; see ``binary`` for the prior."""
        if self.true_alpha is not None and self.true_beta is not None:
            return self.true_alpha, self.true_beta
        mean, rho = rng.beta(self.alpha, self.beta), float(draw_correlations(1.0, 1, rng)[0])
        kappa = (1.0 - rho) / rho
        return max(mean * kappa, _LEAST), max((1.0 - mean) * kappa, _LEAST)


class Estimates(NamedTuple):
    """The posterior means and the 90 % intervals of the groups' rates, each of shape (groups,)."""

    means: Floats
    lower: Floats
    upper: Floats


class Groups(SimulatedStudy, frozen=True, kw_only=True):
    """The errors of estimates of the success probabilities (rates) of many groups of records from one release.

    Each group's rate has a Beta law, and its number of records a negative binomial law. A release holds the
    numbers of successes and failures of every group with Laplace noise; a record may change its group and its
    outcome. `non-private`: exact counts, and each rate has the stated prior. `non-private-true-prior`: exact
    counts, and each rate has the law from which it was drawn. `independent`: noisy counts, and each rate has the
    stated prior. `pooled`: noisy counts, and the rates have a Beta law whose mean and spread are learned from
    all groups. The last two methods also learn the mean and the shape of the law of the numbers of records.
    If the true law of the rates is not given, each trial draws it from the prior: then the posterior is right on
    average, and intervals must contain 90 % of the rates. An interval that ends at 0 or 1 may contain more.
    """

    study: Literal["groups"]
    draws: Annotated[int, Meta(ge=1, le=1)] = 1
    trials: Annotated[int, Meta(ge=2, le=10_000)] = 60
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, GroupsCase], Meta(min_length=1)]

    columns = ("case", "epsilon", "method")
    measures = with_errors("rmse", "coverage", "width")
    by_trial = ("rmse", "coverage", "width", "records")
    shown = ("case", "epsilon", "method", *measures)
    plots: ClassVar = {
        "rmse": Plot(
            "Root mean square error of the groups' rates", "rmse", across="non-private", scales="linear linear"
        ),
        "coverage": Plot(
            "Coverage of the groups' 90 % intervals", "coverage", across="non-private", scales="linear linear"
        ),
    }
    legend = (
        "Each number is a mean over trials, with its standard error. `rmse`: root mean square error of the posterior "
        "means of all groups. `coverage`: share of the groups whose 90 % interval contains their rate. `width`: mean "
        "width of these intervals."
    )

    def grid(self) -> list[GridPoint]:
        grid = []
        for name, case in self.cases.items():
            data = {**msgspec.to_builtins(case), "seed": self.seed}
            exact = [(None, method) for method in self.methods if method not in _POOLING]
            noisy = [(epsilon, method) for epsilon in self.epsilon for method in self.methods if method in _POOLING]
            for epsilon, method in (*exact, *noisy):
                own = {"epsilon": epsilon, "method": method}
                grid.append(self.point({"case": name, **own}, data, {**own, "trials": self.trials}))
        return grid

    def run(self, point: GridPoint) -> PointOutcome:
        case, method, epsilon = self.cases[point.case], point["method"], point["epsilon"]
        data, rng = np.random.default_rng(point.data_seed()), np.random.default_rng(point.inference_seed())
        noise = np.random.default_rng(point.noise_seed(epsilon=epsilon))
        rows = []
        for _ in range(self.trials):
            law = case.draw_law(data)
            rates, counts = simulate_groups(case, law, data)
            if epsilon is None:
                estimates = exact_estimates(
                    law if method == "non-private-true-prior" else (case.alpha, case.beta), counts
                )
            else:
                estimates = noisy_estimates(case, _POOLING[method], epsilon, counts, noise, rng)
            rows.append((*_errors(rates, estimates), counts.sum()))
        trials = dict(zip(self.by_trial, np.array(rows, dtype=np.float64).T, strict=True))
        return PointOutcome.averaged(trials, ("rmse", "coverage", "width"))

    def claims(self, results: Results) -> Iterator[Claim]:
        for name in self.cases:
            own = results.where(case=name)
            if self.cases[name].true_alpha is None:
                if "pooled" in self.methods:
                    yield _covers(
                        f"{name}: 90 % intervals of pooled rates", own.where(method="pooled"), _COVERAGE_OVER_PRIOR
                    )
                continue
            yield from _COMPARISON.claims(name, own, "rmse")
            if set(_POOLING) <= set(self.methods):
                yield _ratio(name, own)
            for method in _POOLING:
                if method in self.methods:
                    yield _covers(f"{name}: 90 % intervals of {method} rates", own.where(method=method), _COVERAGE)


def simulate_groups(case: GroupsCase, law: tuple[float, float], rng: np.random.Generator) -> tuple[Floats, Integers]:
    """Return the rates of groups, and their numbers of successes and failures, shape (groups, 2)."""
    rates = rng.beta(*law, case.groups)
    sizes = rng.poisson(rng.gamma(case.shape, case.mean_size / case.shape, case.groups))
    successes = rng.binomial(sizes, rates)
    return rates, np.stack([successes, sizes - successes], axis=1)


def exact_estimates(prior: tuple[float, float], counts: Integers) -> Estimates:
    """Return the estimates from exact counts under a Beta prior."""
    a, b = (counts + np.array(prior)).T
    return Estimates(a / (a + b), betaincinv(a, b, LEVELS[0]), betaincinv(a, b, LEVELS[-1]))


def noisy_estimates(
    case: GroupsCase,
    pooling: Pooling,
    epsilon: str,
    counts: Integers,
    noise: np.random.Generator,
    rng: np.random.Generator,
) -> Estimates:
    """Simulate a release of the counts of all groups, and return the estimates from it."""
    model = GroupedModel(case.model, "group", "outcome", tuple(map(str, range(case.groups))))
    n_records = int(counts.sum())
    law = plan_release("laplace", model, DROPPED, n_records, epsilon=Decimal(epsilon)).steps[0].noise
    released = (counts + law.simulate(noise, counts.shape)).ravel().tolist()
    posterior = infer_groups(model.observation(DROPPED, released, law, n_records), pooling, 1, rng)
    return Estimates(posterior.means[:, 0], posterior.quantiles[:, 0, 0], posterior.quantiles[:, 0, -1])


def _errors(rates: Floats, estimates: Estimates) -> tuple[float, float, float]:
    """Return the root mean square error of the means, and the coverage and mean width of the intervals."""
    means, lower, upper = estimates
    covered = (lower <= rates) & (rates <= upper)
    return float(np.sqrt(((means - rates) ** 2).mean())), float(covered.mean()), float((upper - lower).mean())


def _ratio(name: str, results: Results) -> Claim:
    """Return the claim about the errors of pooled and independent rates in one case."""
    pooled, independent = (
        {each["epsilon"]: each.measure("rmse") for each in results.where(method=method)}
        for method in ("pooled", "independent")
    )
    ratios = {epsilon: error / independent[epsilon] for epsilon, error in pooled.items()}
    return Claim(
        OURS,
        f"{name}: the error of pooled rates is at most {_RATIO:g} times the error of independent rates.",
        max(ratios.values()) <= _RATIO,
        "ratio of the errors: " + _by_epsilon(ratios),
    )


def _covers(intervals: str, results: Results, required: tuple[float, float]) -> Claim:
    """Return the claim about the coverage of these intervals."""
    low, high = required
    shares = {each["epsilon"]: each.measure("coverage") for each in results}
    holds = all(low <= share <= high for share in shares.values())
    return Claim(
        OURS,
        f"{intervals} contain {100 * low:g} % to {100 * high:g} % of the true rates.",
        holds,
        "coverage: " + _by_epsilon(shares),
        "" if holds else _FOR_THIS_LAW,
    )


def _by_epsilon(values: dict[str, float]) -> str:
    return "; ".join(f"{value:.3f} at epsilon {epsilon}" for epsilon, value in values.items())
