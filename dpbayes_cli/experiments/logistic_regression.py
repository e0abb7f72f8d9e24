"""Logistic regression: the test error of one private draw of the coefficients, by epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from itertools import product
from typing import Annotated, ClassVar, Literal, NamedTuple, cast

import msgspec
import numpy as np
from msgspec import Meta

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.columns import Column, CutColumn
from dpbayes_cli.core.design import DesignMatrix, DesignRows
from dpbayes_cli.core.langevin import Langevin
from dpbayes_cli.core.losses import LogisticLoss
from dpbayes_cli.core.registry import model_type
from dpbayes_cli.core.section import Level, Positive, Section, require_type
from dpbayes_cli.experiments import logistic_laws as laws
from dpbayes_cli.experiments.file_records import check_stand_ins, file_digest, read_codes
from dpbayes_cli.experiments.plots import Plot
from dpbayes_cli.experiments.results import OURS, Claim, Comparison, GridPoint, PointOutcome, Results
from dpbayes_cli.experiments.study import SimulatedStudy, with_errors
from dpbayes_cli.models.families.convex_loss import ConvexLossModel
from dpbayes_cli.models.families.regression_domain import FeatureSection, check_target
from dpbayes_cli.spec.convert_section import Exact

Method = Literal["true-posterior", "rdp-concentrated", "rdp-diffuse", "ops", "gdp-langevin", "minami-langevin"]

SOURCE = "[G] Figure 3"
_CLEAR = 2.0
"""Differences beyond this many standard errors are clear; equal methods differ clearly in 1 of 20 comparisons."""
_WATCHED_CHAINS = 4
"""Chains per trial if each trial has its own records: the first gives the draw, the others only show convergence."""
_GRID = 2.0**-40
_SCORES = ("error", "nll", "commonest")
_COMPARISONS = (
    Comparison(SOURCE, "rdp-concentrated", "ops",
               "the concentrated posterior has a lower test error than OPS at every epsilon", always=-1),
    Comparison(SOURCE, "rdp-diffuse", "ops",
               "the diffuse posterior has a lower test error than OPS at every epsilon", always=-1),
    Comparison(SOURCE, "rdp-diffuse", "rdp-concentrated",
               "the diffuse posterior never has a higher test error than the concentrated one",
               "At the smallest epsilons both posteriors are close to guessing. A diffuse draw is then nearly a draw "
               "of the prior, and may do worse than a concentrated draw, which has shrunk toward zero.", never=1),
    Comparison(OURS, "gdp-langevin", "rdp-diffuse",
               "the released chain never has a higher test error than an exact draw of the diffuse posterior",
               "A short chain approximates the posterior less well. However, it costs less, so that its likelihood "
               "power can be larger.", never=1),
    Comparison(OURS, "gdp-langevin", "minami-langevin",
               "the exact privacy curve never leads to a higher test error than the rule of Minami et al.", never=1),
)  # fmt: skip


class TwoClasses(Section, frozen=True, kw_only=True):
    """The class to predict: which of two texts a column holds, or whether its number is at least a cut."""

    column: str
    values: Annotated[tuple[Level, Level] | None, Meta(description="the two texts; the first is class 0")] = None
    cut: float | None = None
    impute: Annotated[str, Meta(description="the public value that an invalid cell counts as")]

    def __post_init__(self) -> None:
        if (self.values is None) == (self.cut is None):
            raise ValueError("state either values or a cut for the target")

    def target(self) -> Column | CutColumn:
        if self.cut is not None:
            return CutColumn(self.column, (self.cut,), self.impute)
        return Column(self.column, self.values or (), self.impute)


class ClassCase(Section, frozen=True, kw_only=True):
    """Records to learn from in a file, and records to predict in another file or in the rest of this file."""

    train: Annotated[str, Meta(description="path of the file to learn from, relative to the study file")]
    test: Annotated[str | None, Meta(description="path of the file to predict")] = None
    # instead of test: each trial learns from so many random records of train, and predicts the rest
    n_train: Annotated[int, Meta(ge=2, le=10_000_000)] | None = None
    target: TwoClasses
    features: Annotated[dict[str, FeatureSection], Meta(min_length=1)]

    def __post_init__(self) -> None:
        check_target(self.target.column, self.features)
        if (self.test is None) == (self.n_train is None):
            raise ValueError("state either test or n_train")


class LogisticCase(ClassCase, frozen=True, kw_only=True):
    """Records of two classes, and the strength of the prior."""

    beta: Annotated[Positive, Meta(description="prior precision per record: with n records it is n * beta")]

    def model(self, n_records: int) -> ConvexLossModel:
        features = tuple(part.feature(name) for name, part in sorted(self.features.items()))
        classes = Column(self.target.column, self.target.target().levels, self.target.impute)
        kind = cast(type[ConvexLossModel], model_type("logistic-regression"))
        design = laws.UnitRows(features)
        prior = CoefficientLaw.common(design.width, n_records * self.beta)
        return kind(design, classes, LogisticLoss(), prior)

    def coded(self, path: str) -> tuple[Floats, Floats]:
        """Return the rows and classes of a file."""
        return _coded(path, require_type(self.model(1).design, laws.UnitRows), self.target.target())

    @property
    def n_learned(self) -> int:
        """The number of records to learn from."""
        n = len(self.coded(self.train)[0])
        if self.n_train is not None and self.n_train >= n:
            message = f"n_train is {self.n_train}; expected fewer than the {n} records of the file"
            raise SpecError(message, where="n_train")
        return self.n_train or n


@lru_cache(maxsize=4)
def _coded(path: str, design: laws.UnitRows, target: Column | CutColumn) -> tuple[Floats, Floats]:
    codes = read_codes(path, [*(feature.column for feature in design.features), target])
    return design.rows(codes[:, :-1]), codes[:, -1].astype(np.float64)


class LogisticRecords(NamedTuple):
    """The records of all trials: one set for all trials if two files are given, otherwise one set per trial."""

    x: Floats  # rows and classes to learn from, shapes (n_sets, n, width) and (n_sets, n)
    y: Floats
    test_x: Floats  # rows and classes to predict, shapes (n_sets, n_test, width) and (n_sets, n_test)
    test_y: Floats


class LogisticRegressions(SimulatedStudy, frozen=True, kw_only=True):
    """The test error of a logistic regression with one private draw of its coefficients.

    Within a case, all methods use the same records and the same random numbers; methods that draw from the same law
    have the same results. `rdp-concentrated`, `rdp-diffuse`, `ops` and the true posterior are **idealized**:
    Metropolis-adjusted Langevin chains approximate exact draws, which are impossible. `gdp-langevin` and
    `minami-langevin` are the chains that a release runs, but with seeded random numbers.

    The column `price` says what `epsilon` is: at `order k`, a Renyi divergence of order k (order 1 is
    Kullback-Leibler); at `delta d`, the epsilon of (epsilon, d)-DP. `ops` draws from the posterior restricted to the
    ball of radius Q = 1 / beta, under the likelihood power T. Such a draw is epsilon-DP with epsilon = 2 * T * Q.

    Source: Geumlek, Song and Chaudhuri 2017, sec. 5.2 and Fig. 3; Minami et al. 2016, Theorem 7.
    """

    study: Literal["logistic-regression"]
    draws: Annotated[int, Meta(ge=1, le=1)] = 1
    trials: Annotated[int, Meta(ge=2, le=10_000)] = 50
    orders: Annotated[tuple[Exact, ...], Meta(description="orders of Renyi divergence; 1 is Kullback-Leibler")]
    delta: Annotated[Exact, Meta(description="delta at which epsilon_at_delta states epsilons")] = "1e-6"
    epsilon_at_delta: Annotated[tuple[Exact, ...], Meta(description="epsilons at delta")] = ()
    metropolis_steps: Annotated[int, Meta(ge=10, le=100_000, description="steps of idealized draws")] = 60
    langevin_steps: Annotated[int, Meta(ge=1, le=1_000_000, description="most steps of a released chain")] = 800
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, LogisticCase], Meta(min_length=1)]

    exact: ClassVar = {"orders": ("0", "10000"), "epsilon_at_delta": ("0", "10000"), "delta": ("0", "0.1")}
    files = ("train", "test")
    columns = ("case", "price", "epsilon", "method")
    details = ("likelihood_power", "tau", "radius", "step_size", "n_steps")
    measures = (*with_errors(*_SCORES), "acceptance", "r_hat")
    by_trial = _SCORES
    shown = ("case", "price", "epsilon", "method", "likelihood_power", "tau", *with_errors("error", "nll"))
    plots: ClassVar = {
        "test-error": Plot("Test error of one draw", "error", "epsilon", ("case", "price"), across="true-posterior",
                           level="commonest"),
        "negative-log-likelihood": Plot("Mean negative log-likelihood of one draw", "nll", "epsilon",
                                        ("case", "price"), across="true-posterior", scales="log log"),
    }  # fmt: skip
    compared = tuple((each.first, each.second, "nll") for each in _COMPARISONS)
    legend = (
        "`error`: share of the test records whose class one draw predicts wrongly. `nll`: mean negative log-likelihood "
        "of a test record. One standard error over trials follows each of the two. `commonest`: error of always "
        "predicting the most frequent class. `tau`: prior precision. `r_hat`: below 1.05 if chains have converged."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(Decimal(order) < 1 for order in self.orders):
            raise ValueError("an order is 1 or more")

    def grid(self) -> list[GridPoint]:
        at_orders = [laws.Price(epsilon, order=order) for order, epsilon in product(self.orders, self.epsilon)]
        at_delta = [laws.Price(epsilon, delta=self.delta) for epsilon in self.epsilon_at_delta]
        rest = [method for method in self.methods if method != "true-posterior"]
        places: list[tuple[laws.Price | None, Method]] = [(None, m) for m in self.methods if m not in rest]
        places += [(price, method) for price in at_orders for method in rest if method != "minami-langevin"]
        places += [(price, method) for price in at_delta for method in rest if method.endswith("-langevin")]
        grid: list[GridPoint] = []
        for name, case in self.cases.items():
            check_stand_ins(case.model(1).columns, f"cases.{name}")
            stated = msgspec.to_builtins(case)
            del stated["train"], stated["test"]
            contents = [file_digest(path) for path in (case.train, case.test) if path is not None]
            data, n = {**stated, "contents": contents, "seed": self.seed}, case.n_learned
            model = case.model(n)
            for price, method in places:
                law = laws.law_at(method, price, model, n)
                if (law.n_steps or 0) > self.langevin_steps:
                    message = f"a released chain needs {law.n_steps} steps, more than {self.langevin_steps}"
                    raise SpecError(message, where="langevin_steps")
                details = dict(zip(self.details, law, strict=True))
                # the names of version 0.1 in a point's definition: other names would give other seeds
                stored = dict(zip(("rho", "tau", "radius", "step", "steps"), law, strict=True))
                own = {"law": stored, "trials": self.trials}
                own["metropolis_steps"] = self.metropolis_steps if law.n_steps is None else None
                family, epsilon = (None, None) if price is None else (price.family, price.epsilon)
                place = {"case": name, "price": family, "epsilon": epsilon, "method": method}
                grid.append(self.point(place, data, own, details))
        return grid

    def records_of(self, point: GridPoint) -> LogisticRecords:
        """Return the records of all trials; a larger number of trials leaves the first ones unchanged."""
        case = self.cases[point.case]
        x, y = case.coded(case.train)
        if case.test is not None:
            test_x, test_y = case.coded(case.test)
            return LogisticRecords(x[None], y[None], test_x[None], test_y[None])
        seeds = point.data_seed().spawn(self.trials)
        orders = np.array([np.random.default_rng(seed).permutation(len(y)) for seed in seeds])
        train, test = orders[:, : case.n_train], orders[:, case.n_train :]
        return LogisticRecords(x[train], y[train], x[test], y[test])

    def run(self, point: GridPoint) -> PointOutcome:
        """Compute a point. All laws draw with the same seed, so that differences come from the laws alone."""
        law, records = laws.LogisticLaw(*point.details.values()), self.records_of(point)
        acceptance = r_hat = None
        if law.n_steps is None:
            is_shared, rng = len(records.x) == 1, np.random.default_rng(point.noise_seed())
            posterior = laws.LogisticPosterior(records.x, records.y, law)
            n_chains = self.trials if is_shared else _WATCHED_CHAINS
            draws, acceptance, r_hat = laws.draw_posterior(posterior, n_chains, self.metropolis_steps, rng)
            draws = draws if is_shared else draws[:, :, :1]
        else:
            draws = self._released(point, law, records)
        t = records.test_x @ draws
        y = records.test_y[:, :, None]
        majority = records.y.mean(axis=1, keepdims=True) > 0.5
        trials = {
            "error": ((t > 0.0) != (y > 0.5)).mean(axis=1).ravel(),
            "nll": LogisticLoss().value(t, y).mean(axis=1).ravel(),
            "commonest": np.broadcast_to(((records.test_y > 0.5) != majority).mean(axis=1), self.trials),
        }
        return PointOutcome.averaged(trials, trials, acceptance=acceptance, r_hat=r_hat)

    def _released(self, point: GridPoint, law: laws.LogisticLaw, records: LogisticRecords) -> Floats:
        """Run the chain of a release with a seeded generator; return draws of shape (n_sets, width, n_draws)."""
        case, steps, n_sets = self.cases[point.case], law.n_steps or 0, len(records.x)
        n, size = case.n_learned, law.step_size or 0.0
        model = case.model(n)
        chain = Langevin(model.loss, model.design.width, law.likelihood_power, law.tau, size, steps, _GRID, n, 1.0)
        drawn = []
        for x, y, seed in zip(records.x, records.y, point.noise_seed().spawn(n_sets), strict=True):
            matrix = DesignMatrix(DesignRows(model.design, model.target), len(y), len(y), [(x, y)])
            normals = laws.normals_from_the_end(np.random.default_rng(seed), steps)
            drawn.append(chain.draw(matrix, self.trials if n_sets == 1 else 1, normals).T)
        return np.array(drawn)

    def claims(self, results: Results) -> Iterator[Claim]:
        for name, comparison in product(self.cases, _COMPARISONS):
            yield from comparison.claims(name, results.where(case=name), "error", _CLEAR)
