"""Calibration of regressions: how often intervals of coefficients contain the truth, for features of many laws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise, product
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta
from scipy.special import ndtr, ndtri

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.coefficient_law import HasCoefficients
from dpbayes_cli.core.columns import AnyColumn, NumericColumn
from dpbayes_cli.core.noisy_observation import NoisyDerivatives, NoisyObservation
from dpbayes_cli.core.registry import model_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic_values import evaluate
from dpbayes_cli.experiments.calibration_measures import INTERVAL, ranks_among
from dpbayes_cli.experiments.plots import label_axes, stamped_panels
from dpbayes_cli.experiments.regression_accuracy import release_derivatives
from dpbayes_cli.experiments.regression_coverage import BETWEEN, NARROW, WIDE, calibrated, too_narrow
from dpbayes_cli.experiments.results import Claim, GridPoint, PointOutcome, Results
from dpbayes_cli.experiments.study import DROPPED, SimulatedStudy, StudySection, errors_at, plan_release, with_errors
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.inference.derivatives.infer_derivatives import draw_roughly
from dpbayes_cli.inference.derivatives.posterior_mode import plug_in
from dpbayes_cli.models.families.regression_simulation import draw_regressions
from dpbayes_cli.spec.convert_section import Exact
from dpbayes_cli.spec.release_spec import build_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpbayes_cli.core.plan import Plan, Step
    from dpbayes_cli.models.families.convex_loss import ConvexLossModel
    from dpbayes_cli.models.linear_regression import LinearRegression

Kind = Literal["normal", "narrow", "binary", "categorical", "skewed", "correlated", "mixed", "at-bounds", "zeros"]
Method = Literal["noise-aware", "naive"]

LEVELS = 4
"""The number of levels of a text of the kind ``categorical``."""
_TARGETS: dict[str, dict[str, Any]] = {
    "linear-regression": {"lower": -1.0, "upper": 1.0},
    "poisson-regression": {"upper": 20},
    "logistic-regression": {"values": ["0", "1"]},
    "probit-regression": {"values": ["0", "1"]},
}
_FARTHEST = 64.0
"""A bound of the targets of a linear regression that is never reached."""
_CANDIDATES = 20
"""The number of candidates from which a linear regression of the prior is drawn."""
_DASHES: dict[Method, str] = {"noise-aware": "-", "naive": ":"}
_THINNED = 2
"""Every second draw of a chain is used; these are nearly independent."""
_BLOCK = 20
"""The number of trials that are computed and saved together."""


class CalibrationCase(StudySection, frozen=True, kw_only=True):
    """A model, the kind of its features, and their numbers."""

    model: Literal["linear-regression", "poisson-regression", "logistic-regression", "probit-regression"]
    kind: Annotated[Kind, Meta(description="the law of the features")]
    features: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=100)], ...], Meta(min_length=1, description="numbers of features")
    ]
    methods: Annotated[tuple[Method, ...], Meta(description="methods of this case, in place of the study's")] = ()

    def build_model(self, features: int) -> Any:
        """Return the model with so many features, and its default prior."""
        return build_spec({"model": self.model, "domain": self._domain(features)}).build_model()

    def _domain(self, features: int) -> dict[str, Any]:
        parts = {f"x{j:03}": _feature(kind) for j, kind in enumerate(kinds_of(self.kind, features))}
        return {"target": {"column": "y", **_TARGETS[self.model]}, "features": parts}


def kinds_of(kind: Kind, features: int) -> list[Kind]:
    """Return the kind of each feature."""
    mixture: tuple[Kind, ...] = ("normal", "binary", "skewed")
    return [mixture[j % 3] if kind == "mixed" else kind for j in range(features)]


def _feature(kind: Kind) -> dict[str, Any]:
    if kind in {"binary", "categorical"}:
        return {"values": [str(level) for level in range(2 if kind == "binary" else LEVELS)]}
    return {"lower": -1.0, "upper": 1.0}


def draw_codes(
    kinds: Sequence[Kind], columns: Sequence[AnyColumn], n_records: int, rng: np.random.Generator
) -> Integers:
    """Draw features from a normal copula with margins of these kinds, shape (n_records, n_features).

    Two common factors make them dependent; correlations of the kind "correlated" are about .9.
    """
    d = len(columns)
    loadings = rng.normal(0.0, 0.6, (d, 2))
    if "correlated" in kinds:
        loadings[:, 0] = rng.normal(3.0, 0.3, d)
    covariance = loadings @ loadings.T + np.eye(d)
    covariance /= np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    z = rng.multivariate_normal(np.zeros(d), covariance, n_records, method="cholesky")
    codes = np.empty((n_records, d), dtype=np.int64)
    for j, (own, column) in enumerate(zip(kinds, columns, strict=True)):
        if own in {"binary", "categorical", "at-bounds"}:
            size = LEVELS if own == "categorical" else 2
            codes[:, j] = np.searchsorted(ndtri(np.cumsum(rng.dirichlet(np.full(size, 4.0)))[:-1]), z[:, j])
            codes[:, j] *= column.steps if isinstance(column, NumericColumn) else 1
            continue
        # normal: bounds at 4 standard deviations from a middle near the mean; narrow: at 10, from a middle anywhere
        scaled = rng.uniform(-0.2, 0.2) + z[:, j] / 4.0
        if own == "narrow":
            scaled = rng.uniform(-0.6, 0.6) + z[:, j] / 10.0
        if own == "zeros":  # 60 % at the lower bound, the others uniform
            scaled = 2.0 * (ndtr(z[:, j]) - 0.6) / 0.4 - 1.0
        if own == "skewed":  # log-normal
            scaled = np.exp(0.7 * z[:, j]) / 4.0 - 1.0
        steps = require_type(column, NumericColumn).steps
        codes[:, j] = np.rint((np.clip(scaled, -1.0, 1.0) + 1.0) / 2.0 * steps)
    return codes


class RegressionCalibration(SimulatedStudy, frozen=True, kw_only=True):
    """How often 90 % intervals of the coefficients of private regressions contain the true ones.

    In each trial the true coefficients are drawn from the default prior, records from the model, with features of a law
    that inference does not assume, and a release under the default mechanism. `noise-aware` accounts for the noise;
    `naive` takes the noisy numbers for exact. Targets of linear regressions are not clamped to their bounds, because
    inference takes all of them to be inside. Intervals are those of ranks among posterior draws. In a trial of the
    other regressions, chains end a few draws after their warm-up, whether they have converged or not.

    Source: Talts et al. 2018 (simulation-based calibration).
    """

    study: Literal["regression-calibration"]
    trials: Annotated[int, Meta(ge=2, le=100_000, description="simulated releases per point")] = 400
    draws: Annotated[int, Meta(ge=16, le=10_000, description="posterior draws per trial")] = 80
    delta: Annotated[Exact, Meta(description="delta of the releases")] = "1e-6"
    n: Annotated[tuple[Annotated[int, Meta(ge=1, le=10**9)], ...], Meta(min_length=1, description="numbers of records")]
    least: Annotated[float, Meta(ge=0, description="the smallest n * epsilon of a point")] = 0.0
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)] = ("noise-aware",)
    cases: Annotated[dict[str, CalibrationCase], Meta(min_length=1)]

    exact: ClassVar = {"delta": ("0", "0.1")}
    columns = ("case", "features", "n", "epsilon", "method")
    measures = with_errors("coverage", "intercept", "error", "sd")
    by_trial = ("coverage", "intercept", "error", "sd")
    shown = ("case", "features", "n", "epsilon", "method", "coverage", "coverage_se", "intercept", "error", "sd")
    legend = (
        "`coverage`: how often the 90 % intervals contain the true coefficients, with one standard error. "
        "`intercept`: the same for the intercept alone. `error`, `sd`: root mean square distance of posterior means "
        "from the true coefficients, and posterior standard deviation, both over coefficients, then averaged over "
        "trials."
    )

    def grid(self) -> list[GridPoint]:
        grid = []
        for name, case in self.cases.items():
            for features in case.features:
                with errors_at(f"cases.{name}"):
                    self._plan(case, features, min(self.n), self.epsilon[0])
            for features, n, epsilon in product(case.features, self.n, self.epsilon):
                if n * float(epsilon) < self.least:
                    continue
                place = {"case": name, "features": features, "n": n, "epsilon": epsilon}
                release = {"epsilon": epsilon, "delta": self.delta, "seed": self.seed}
                data = {"model": case.model, "kind": case.kind, "features": features, "n": n, **release}
                for method in case.methods or self.methods:
                    own = {"method": method, "draws": self.draws, "first": 0, "trials": self.trials}
                    grid.append(self.point({**place, "method": method}, data, own))
        if not grid:
            raise SpecError("n * epsilon is smaller at all points", where="least")
        return grid

    def parts(self, point: GridPoint) -> list[GridPoint]:
        """Return blocks of trials, so that a run can be resumed, and more trials can be added."""
        ends = [*range(_BLOCK, self.trials - 1, _BLOCK), self.trials]  # no block of one trial
        return [
            replace(point, definition={**point.definition, "first": first, "trials": end - first})
            for first, end in pairwise([0, *ends])
        ]

    def run(self, point: GridPoint) -> PointOutcome:
        case, n, first = self.cases[point.case], point["n"], point.definition["first"]
        model, plan = self._plan(case, point["features"], n, point["epsilon"])
        seeds = point.data_seed().spawn(first + point.definition["trials"])[first:]
        generators = [np.random.default_rng(seed) for seed in seeds]
        simulate: Any = _simulate if isinstance(model, HasCoefficients) else _simulate_linear
        kinds = kinds_of(case.kind, point["features"])
        truths, seen = zip(*(simulate(model, kinds, plan.final_step, n, each) for each in generators), strict=True)
        rng = np.random.default_rng(point.inference_seed())
        draws = self._draw(seen, point["method"], rng)[..., : len(truths[0])]
        ranks = ranks_among(np.array(truths), draws, rng)
        covered = np.abs(ranks - 0.5) < INTERVAL / 2.0
        errors = np.square(draws.mean(axis=1) - truths).mean(axis=1) ** 0.5
        sds = draws.var(axis=1).mean(axis=1) ** 0.5
        trials = {"coverage": covered.mean(axis=1), "intercept": 1.0 * covered[:, 0], "error": errors, "sd": sds}
        return PointOutcome.averaged(trials, self.by_trial)

    def _plan(self, case: CalibrationCase, features: int, n: int, epsilon: str) -> tuple[Any, Plan]:
        """Return the model, and the plan of a release by its default mechanism."""
        model, kind = case.build_model(features), model_type(case.model)
        cost = {"epsilon": Decimal(epsilon), "delta": Decimal(self.delta)}
        return model, plan_release(kind.default_with_delta or kind.default_mechanism, model, DROPPED, n, **cost)

    def told(self, point: GridPoint) -> set[str]:
        """Return what the plan of a point says about its intervals: that they are too narrow, too wide, or nothing."""
        model, plan = self._plan(self.cases[point.case], point["features"], point["n"], point["epsilon"])
        texts = " ".join((*plan.all_warnings(model, point["n"]), plan.note))
        return {side for side in (NARROW, WIDE) if side in texts}

    def _draw(self, seen: Sequence[NoisyObservation], method: Method, rng: np.random.Generator) -> Floats:
        """Return posterior draws given each release, shape (n_trials, n_draws, k)."""
        drawn = []
        for each in seen:
            if not isinstance(each, NoisyDerivatives):
                return draw_many(seen, method, self.draws, rng)
            if method == "naive":
                drawn.append(rng.multivariate_normal(*plug_in(each), self.draws, method="eigh"))
            else:
                drawn.append(draw_roughly(each, _THINNED * self.draws, rng)[::_THINNED][: self.draws])
        return np.array(drawn)

    def figures(self, results: Results) -> dict[str, Any]:
        def draw(axes: Any, name: str, features: int) -> None:
            axes.axhspan(*BETWEEN, color="0.9", zorder=0)
            own = results.where(case=name, features=features)
            for (k, epsilon), (method, dash) in product(enumerate(self.epsilon), _DASHES.items()):
                line = own.where(epsilon=epsilon, method=method)
                values = [(each["n"], each.measure("coverage"), 2.0 * each.measure("coverage_se")) for each in line]
                if values:
                    label = f"{method}, epsilon {epsilon}"
                    axes.errorbar(*np.array(values).T, fmt=f"C{k}o{dash}", markersize=4, label=label)
            axes.set_ylim(0.0 if own.where(method="naive") else 0.75, 1.0)
            label_axes(axes, f"{name}, features {features}", "n", "coverage")

        places = {(each["case"], each["features"]): None for each in results}
        return {
            "coverage": stamped_panels(
                places, min(len(places), 4), draw, "Coverage of 90 % intervals; gray: 87 to 93 %"
            )
        }

    def claims(self, results: Results) -> Iterator[Claim]:
        for name in self.cases:
            own = results.where(case=name)
            if points := own.where(method="noise-aware"):
                yield calibrated(name, points, [self.told(each.point) for each in points], self.trials)
            if points := own.where(method="naive"):
                yield too_narrow(name, points)


def _simulate(
    model: ConvexLossModel, kinds: list[Kind], step: Step, n: int, rng: np.random.Generator
) -> tuple[Floats, NoisyObservation]:
    """Draw coefficients, records and a release of a regression by its derivatives."""
    features = draw_codes(kinds, model.columns[:-1], n, rng)
    rows = model.design.rows(features)
    truth = model.prior.given(rows).draw(1, rng)[0]
    targets = model.simulated_targets(np.asarray(rows @ truth), rng)
    return truth, release_derivatives(step, np.column_stack([features, targets]), rng)


def _simulate_linear(
    model: LinearRegression, kinds: list[Kind], step: Step, n: int, rng: np.random.Generator
) -> tuple[Floats, NoisyObservation]:
    """Draw coefficients, records and a release of a linear regression.

    Targets beyond their bounds are not clamped: inference takes all targets to be between them.
    """
    columns = model.columns[1:]
    codes = draw_codes([kinds[int(each.role[1:])] for each in columns], columns, n, rng)
    numbers = codes.astype(np.float64)  # numbers as such, levels as codes
    parts = []
    for j, column in enumerate(columns):
        if isinstance(column, NumericColumn):
            numbers[:, j] = 2.0 * numbers[:, j] / column.steps - 1.0
            parts.append(numbers[:, j, None])
        else:
            parts.append(1.0 * (codes[:, j, None] == np.arange(1, len(column.levels))))
    x = np.hstack(parts)
    levels, slopes, variances = draw_regressions(model.law(True), x, _CANDIDATES, rng)
    y = levels[0] + x @ slopes[0] + variances[0] ** 0.5 * rng.standard_normal(n)
    target = require_type(model.columns[0], NumericColumn)
    wide = replace(target, lower=-_FARTHEST, upper=_FARTHEST, steps=int(_FARTHEST) * target.steps)  # the same grid
    values = evaluate(model.statistic(DROPPED), (wide, *columns), np.column_stack([y, numbers]))
    released = np.array(values) + step.noise.simulate(rng, len(values))
    return np.append(levels[0], slopes[0]), model.observation(DROPPED, released.tolist(), step.noise, n)
