"""Linear regression: the mean squared error of predictions, by prior variance and epsilon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from itertools import product
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.model import NoisyStatistics
from dpbayes_cli.core.section import Positive, Section, require_type
from dpbayes_cli.core.statistic_values import evaluate
from dpbayes_cli.experiments.file_records import check_stand_ins, file_digest, read_codes
from dpbayes_cli.experiments.plots import Plot
from dpbayes_cli.experiments.results import OURS, Claim, Comparison, GridPoint, PointOutcome, Results
from dpbayes_cli.experiments.study import COMPLETE, SimulatedStudy, plan_release, with_errors
from dpbayes_cli.experiments.truncated_draws import ball_radius, draw_in_ball, likelihood_range
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.models.families.regression_domain import FeatureSection, NumberTarget, check_target
from dpbayes_cli.spec.convert_section import Exact
from dpbayes_cli.spec.release_spec import build_spec

Method = Literal["non-private", "truncated-sampler", "noise-aware"]

SOURCE = "[Z] Figure 2"
_CLEAR = 2.0  # a difference beyond this many standard errors is called clear
_BETTER = Comparison(
    OURS, "noise-aware", "truncated-sampler",
    "noise-aware inference from second moments with Laplace noise predicts better than the sampler", never=1, some=-1,
)  # fmt: skip


class LinearCase(Section, frozen=True, kw_only=True):
    """A file with a numeric target and numeric features, all with public bounds.

    Numbers are scaled to [-1, 1], and an intercept of 1 is added to each row. A row of d entries is divided by sqrt(d),
    so that its norm is at most 1. The prior is on the coefficients of these rows.
    """

    records: Annotated[str, Meta(description="path of the file, relative to the study file")]
    target: NumberTarget
    features: Annotated[dict[str, FeatureSection], Meta(min_length=1)]
    residual_sd: Annotated[Positive, Meta(description="known standard deviation of the target given the features")]
    methods: Annotated[tuple[Method, ...], Meta(description="methods of this case, in place of the study's")] = ()

    def __post_init__(self) -> None:
        check_target(self.target.column, self.features)
        for name, feature in self.features.items():
            if feature.values or feature.origin is not None:
                message = "a feature must be a number with a lower and an upper bound, and without origin"
                raise ValueError(f"{name}: {message}")

    @property
    def columns(self) -> tuple[NumericColumn, ...]:
        """The target, then the features in the order of their names (as in the model ``linear-regression``)."""
        features = (each.feature(name).column for name, each in sorted(self.features.items()))
        return (self.target.target(), *(require_type(column, NumericColumn) for column in features))

    @property
    def half_range(self) -> float:
        """Half the width of the target's range, by which targets are scaled."""
        return (self.target.upper - self.target.lower) / 2.0


class LinearTrial(NamedTuple):
    """A trial's training records as numbers, target first; then rows and scaled targets for training and testing."""

    numbers: Floats
    x: Floats
    y: Floats
    test_x: Floats
    test_y: Floats


class LinearRegressions(SimulatedStudy, frozen=True, kw_only=True):
    """The error of a linear regression, whose coefficients have a normal prior of variance v.

    Each trial learns from a random part of the records, and predicts the rest. The paper used 370,000 census records;
    its errors cannot be compared with the errors here. `truncated-sampler` (**idealized**) predicts by one draw
    of the posterior restricted to a ball, which has the prior probability 0.99. The draw is computed in floats; an
    exact draw would be epsilon-DP. The power of the likelihood is min(1, epsilon / R). Here R is the largest difference
    between two values in the ball of the log ratio of two records' likelihoods. `noise-aware` predicts by the posterior
    mean given second moments with Laplace noise. Its model treats features as normal vectors, and has the same bounds
    and the same v. `non-private` predicts by the mean of the unrestricted, untempered posterior.

    Source: Zhang, Rubinstein and Dimitrakakis 2016, sec. 5.2 and Fig. 2.
    """

    study: Literal["linear-regression"]
    trials: Annotated[int, Meta(ge=2, le=10_000)] = 50
    draws: Annotated[int, Meta(ge=2, le=10_000, description="number of posterior draws in noise-aware inference")] = 200
    train_share: Annotated[float, Meta(gt=0, lt=1, description="share of the records to learn from")] = 0.1
    prior_variance: Annotated[tuple[Exact, ...], Meta(min_length=1, description="prior variances of a coefficient")]
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, LinearCase], Meta(min_length=1)]

    exact: ClassVar = {"prior_variance": ("0", "1000000")}
    files = ("records",)
    columns = ("case", "prior_variance", "epsilon", "method")
    measures = ("power", *with_errors("mse", "mean_mse"))
    by_trial = ("mse", "mean_mse")
    shown = ("case", "prior_variance", "epsilon", "method", "power", "mse", "mse_se", "mean_mse")
    plots: ClassVar = {
        "mse": Plot("Mean squared error of predictions", "mse", "prior_variance", ("case", "epsilon"), level="mean_mse",
                    scales="log log"),
    }  # fmt: skip
    legend = (
        "A custodian cannot choose the prior variance by such results, which are not private. Mean squared "
        "errors are in squared units of the target; one standard error of the mean over trials follows each. "
        "`mean_mse`: mean squared error of always predicting the mean of the training targets."
    )

    def grid(self) -> list[GridPoint]:
        grid = []
        for name, case in self.cases.items():
            check_stand_ins(case.columns, f"cases.{name}")
            stated = msgspec.to_builtins(case)
            del stated["records"], stated["methods"]
            sizes = {"train_share": self.train_share, "seed": self.seed}
            data = {**stated, "contents": file_digest(case.records), **sizes}
            methods = list(self.prices_and_methods(self.epsilon, case.methods or self.methods, "non-private"))
            for variance, (epsilon, method) in product(self.prior_variance, methods):
                place = {"prior_variance": variance, "epsilon": epsilon, "method": method}
                own = {"trials": self.trials, "draws": self.draws if method == "noise-aware" else 1}
                grid.append(self.point({"case": name, **place}, data, {**place, **own}))
        return grid

    def run(self, point: GridPoint) -> PointOutcome:
        case, trials, power = self.cases[point.case], self.trials_of(point), None
        rng = np.random.default_rng(point.noise_seed(epsilon=point["epsilon"], method=point["method"]))
        if point["method"] == "noise-aware":
            coefficients = self._noise_aware(point, [trial.numbers for trial in trials], rng)
        else:
            coefficients, power = _drawn(case, point, trials, rng)
        measured = {
            "mse": [np.square(t.test_x @ w - t.test_y).mean() for t, w in zip(trials, coefficients, strict=True)],
            "mean_mse": [np.square(t.y.mean() - t.test_y).mean() for t in trials],
        }
        scaled = {name: np.array(values) * case.half_range**2 for name, values in measured.items()}
        return PointOutcome.averaged(scaled, scaled, power=power)

    def trials_of(self, point: GridPoint) -> list[LinearTrial]:
        """Return the records of each trial; a larger number of trials leaves the first ones unchanged."""
        case = self.cases[point.case]
        numbers = _numbers(case.records, case.columns)
        rows, target = rows_of(case, numbers), case.columns[0]
        y = (numbers[:, 0] - (target.lower + target.upper) / 2.0) / case.half_range
        n = round(self.train_share * len(y))
        if not 1 <= n < len(y):
            message = f"{len(y)} records cannot be split into a training part and a test part"
            raise SpecError(message, where=f"cases.{point.case}.records")
        orders = [np.random.default_rng(seed).permutation(len(y)) for seed in point.data_seed().spawn(self.trials)]
        parts = ((order[:n], order[n:]) for order in orders)
        return [LinearTrial(numbers[train], rows[train], y[train], rows[test], y[test]) for train, test in parts]

    def _noise_aware(self, point: GridPoint, numbers: list[Floats], rng: np.random.Generator) -> Floats:
        """Simulate a release of noisy second moments in each trial, and return the posterior means of coefficients."""
        case, n = self.cases[point.case], len(numbers[0])
        model = require_type(build_spec(document(case, point["prior_variance"])).build_model(), NoisyStatistics)
        (step,) = plan_release("laplace", model, COMPLETE, n, epsilon=Decimal(point["epsilon"])).steps
        columns = [require_type(column, NumericColumn) for column in model.columns]
        exact = np.array([evaluate(step.statistic, columns, each) for each in numbers])
        noisy = exact + step.noise.simulate(rng, exact.shape)
        observations = [model.observation(COMPLETE, row, step.noise, n) for row in noisy.tolist()]
        draws = draw_many(observations, "noise-aware", self.draws, rng)
        return scaled_coefficients(case, draws[:, :, : len(columns)].mean(axis=1))

    def claims(self, results: Results) -> Iterator[Claim]:
        for name, case in self.cases.items():
            own = results.where(case=name)
            if {"non-private", "truncated-sampler"} <= set(case.methods or self.methods):
                excess = {}
                for each in own.where(method="truncated-sampler"):
                    exact = own.one(prior_variance=each["prior_variance"], method="non-private")
                    excess[each["prior_variance"], each["epsilon"]] = each.measure("mse") - exact.measure("mse")
                yield from self._sampler(name, excess)
            yield from _BETTER.claims(name, own, "mse", _CLEAR)

    def _sampler(self, name: str, excess: Mapping[tuple[str, str], float]) -> Iterator[Claim]:
        prices, variances = sorted(self.epsilon, key=float), sorted(self.prior_variance, key=float)
        ends = [(excess[v, prices[0]], excess[v, prices[-1]]) for v in variances]
        sides = [(excess[variances[0], e], excess[variances[-1], e]) for e in prices]
        numbers = "; ".join(f"v {v}, epsilon {e}: {each:.3g}" for (v, e), each in excess.items())
        measured = f"excess mean squared error: {numbers}"
        yield Claim(
            SOURCE,
            f"{name}: as epsilon grows, the error of the posterior sampler falls to the error without privacy.",
            all(high <= max(0.1 * low, 0.0) for low, high in ends),
            measured,
            "At any epsilon, the restriction to the ball and the randomness of a single draw add to the error.",
        )
        yield Claim(
            SOURCE,
            f"{name}: the error that privacy adds to the posterior sampler grows with the prior variance.",
            all(narrow < wide for narrow, wide in sides),
            measured,
            "A ball that is too narrow excludes coefficients that fit the data, at any epsilon.",
        )


def _drawn(case: LinearCase, point: GridPoint, trials: list[LinearTrial], rng: Any) -> tuple[Floats, float]:
    """Return each trial's coefficients, and the power of the likelihood.

    With an epsilon, the coefficients are one draw of the posterior in the ball, under this power of the likelihood.
    Without epsilon, they are the mean of the unrestricted posterior.
    """
    variance, sd, width = float(point["prior_variance"]), case.residual_sd / case.half_range, trials[0].x.shape[1]
    radius, is_private = ball_radius(variance, width), point["epsilon"] is not None
    power = min(1.0, point.epsilon / likelihood_range(radius, sd)) if is_private else 1.0
    weight = power / sd**2
    precision = np.array([weight * (t.x.T @ t.x) + np.eye(width) / variance for t in trials])
    moments = np.array([weight * (t.x.T @ t.y) for t in trials])
    mean = np.linalg.solve(precision, moments[:, :, None])[:, :, 0]
    return draw_in_ball(mean, precision, radius, rng) if is_private else mean, power


def rows_of(case: LinearCase, numbers: Floats) -> Floats:
    """Return rows of norm at most 1: an intercept and scaled numbers, divided by the square root of the width."""
    ends = np.array([(column.lower, column.upper) for column in case.columns[1:]])
    scaled = (2.0 * numbers[:, 1:] - ends.sum(axis=1)) / (ends[:, 1] - ends[:, 0])
    whole = np.column_stack([np.ones(len(numbers)), scaled])
    return np.asarray(whole / np.sqrt(whole.shape[1]))


def document(case: LinearCase, prior_variance: str) -> dict[str, Any]:
    """Return the spec of a release whose prior of slopes is the prior of this study's coefficients in other units.

    Let a coefficient of rows of width d have the prior variance v. Then the slope of a feature with half range h, for a
    target with half range H, has the prior variance (v / d) * (H / h)^2. The spec states this as variance /
    (slope_strength * deviation^2) with deviation = h.
    """
    strength = (case.residual_sd / case.half_range) ** 2 * len(case.columns) / float(prior_variance)
    bounds = {column.role: {"lower": column.lower, "upper": column.upper} for column in case.columns}
    target = {"column": case.target.column, **bounds.pop(case.target.column)}
    deviations = {column.role: (column.upper - column.lower) / 2.0 for column in case.columns[1:]}
    return {
        "model": "linear-regression",
        "domain": {"target": target, "features": bounds, "variance": case.residual_sd**2},
        "prior": {"deviation": deviations, "strength": strength, "slope_strength": strength},
    }


def scaled_coefficients(case: LinearCase, means: Floats) -> Floats:
    """Convert intercepts and slopes in units of the file to coefficients of scaled rows and targets."""
    target, *features = case.columns
    middles = np.array([(column.lower + column.upper) / 2.0 for column in features])
    halves = np.array([(column.upper - column.lower) / 2.0 for column in features])
    level = means[:, 0] + means[:, 1:] @ middles - (target.lower + target.upper) / 2.0
    whole = np.column_stack([level, means[:, 1:] * halves]) / case.half_range
    return np.asarray(whole * np.sqrt(whole.shape[1]))


@lru_cache(maxsize=4)
def _numbers(path: str, columns: tuple[NumericColumn, ...]) -> Floats:
    """Return the numbers of a file, clamped to their bounds, shape (n_records, n_columns)."""
    codes = read_codes(path, columns)
    return np.column_stack([column.lower + codes[:, i] * column.step for i, column in enumerate(columns)])
