"""Logistic regression: how well one private draw of the coefficients tells classes apart, against epsilon.

Exact records stay in memory; they are read from files once a case and process.

Source: Geumlek, Song and Chaudhuri 2017, sec. 5.2 and Fig. 3; Minami et al. 2016, Theorem 7.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, cast

import msgspec
import numpy as np
from msgspec import Meta

from dpbayes_cli.base.canonical import canonical_json
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.core.columns import Column, CutColumn
from dpbayes_cli.core.design import DesignMatrix, DesignRows
from dpbayes_cli.core.langevin import Langevin
from dpbayes_cli.core.losses import LogisticLoss
from dpbayes_cli.core.registry import model_type
from dpbayes_cli.core.section import Level, Positive, Section
from dpbayes_cli.experiments.claims import OURS, Claim, difference_claims
from dpbayes_cli.experiments.file_records import POLICY, absolute, file_digest, read_codes
from dpbayes_cli.experiments.logistic_laws import (
    FromTheEnd,
    LogisticLaw,
    LogisticPosterior,
    Price,
    draw_posterior,
    law_at,
)
from dpbayes_cli.experiments.plots import Plot, Style
from dpbayes_cli.experiments.point import GridPoint
from dpbayes_cli.experiments.results import PointOutcome, Results, averaged, with_errors
from dpbayes_cli.experiments.study import SimulatedStudy, exact_number
from dpbayes_cli.experiments.unit_rows import UnitRows
from dpbayes_cli.models.families.regression_domain import FeatureSection, check_target
from dpbayes_cli.spec.convert_section import Exact

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.convex_loss import ConvexLossModel

Method = Literal["true-posterior", "rdp-concentrated", "rdp-diffuse", "ops", "gdp-langevin", "minami-langevin"]

SOURCE = "[G] Figure 3"
_CLEAR = 2.0
"""A difference of this many standard errors is called clear; of twenty comparisons of equals one errs."""
_CONVERGED = 1.05
_WATCHED_CHAINS = 4
"""Of each trial with records of its own: the first is its draw, the others tell whether it has converged."""
_GRID = 2.0**-40
_SCORES = ("error", "nll", "commonest")
_SAID: tuple[tuple[str, Method, Method, str, dict[str, int], str], ...] = (
    (SOURCE, "rdp-concentrated", "ops", "the concentrated posterior is below OPS in test error everywhere",
     {"always": -1}, ""),
    (SOURCE, "rdp-diffuse", "ops", "the diffuse posterior is below OPS in test error everywhere", {"always": -1}, ""),
    (SOURCE, "rdp-diffuse", "rdp-concentrated", "the diffuse posterior is never above the concentrated one in test "
     "error", {"never": 1}, "At the smallest epsilons both are near to guessing, where a draw that is all prior errs "
     "in half of the cases, and one that is all noise may do worse than one that has shrunk."),
    (OURS, "gdp-langevin", "rdp-diffuse", "the chain that is released is not above the ideal diffuse draw",
     {"never": 1}, "Finite steps are what it may lose; where it is short it costs less, and gains likelihood power."),
    (OURS, "gdp-langevin", "minami-langevin", "the exact curve allows draws no worse than the rule of Minami et al.",
     {"never": 1}, ""),
)  # fmt: skip
"""Whose claim, the two methods, what is said of their test errors, the signs of differences, why."""
_STYLES = {
    "rdp-concentrated": Style("tab:orange", "s"),
    "rdp-diffuse": Style("tab:blue", "o"),
    "ops": Style("tab:green", "d", ":"),
    "gdp-langevin": Style("tab:red", "^", "--"),
    "minami-langevin": Style("tab:purple", "v", "--"),
}

_RecordNumber = Annotated[int, Meta(ge=2, le=10_000_000)]


class TwoClasses(Section, frozen=True, kw_only=True):
    """The class that is predicted: one of two texts, or whether a number reaches a cut."""

    column: Annotated[str, Meta(description="the column")]
    values: Annotated[tuple[Level, Level] | None, Meta(description="its two texts, that of class 0 first")] = None
    cut: Annotated[float | None, Meta(description="in place of values: class 1 is a number of at least that")] = None
    impute: Annotated[str, Meta(description="the public value that an invalid cell counts as")]

    def __post_init__(self) -> None:
        if (self.values is None) == (self.cut is None):
            raise ValueError("a target has values, or a cut")

    def target(self) -> Column | CutColumn:
        """Return the column, whose codes are the classes."""
        if self.cut is not None:
            return CutColumn(self.column, (self.cut,), self.impute)
        return Column(self.column, self.values or (), self.impute)


class LogisticCase(Section, frozen=True, kw_only=True):
    """A file to learn from, and one to predict or a part of the same; the rows are those of the paper.

    Texts become indicators of their public values; these and numbers between their public bounds are scaled to
    [-0.5, 0.5]; then each row is divided by its norm.
    """

    train: Annotated[str, Meta(description="the file to learn from, relative to the study")]
    test: Annotated[str | None, Meta(description="the file to predict; none: what is left of the other")] = None
    n_train: Annotated[_RecordNumber | None, Meta(description="records to learn from, at random in each trial")] = None
    target: TwoClasses
    features: Annotated[dict[str, FeatureSection], Meta(min_length=1)]
    beta: Annotated[Positive, Meta(description="the prior precision of n records is n beta")]

    def __post_init__(self) -> None:
        check_target(self.target.column, self.features)
        if (self.test is None) == (self.n_train is None):
            raise ValueError("state test, or n_train")
        for name, feature in self.features.items():
            if feature.impute is None:
                raise ValueError(f"{name}: cells that hold no valid value need a public stand-in; state impute: VALUE")

    def model(self, n_records: int) -> ConvexLossModel:
        """Return the model: rows of norm one, prior precision n beta."""
        features = tuple(part.feature(name) for name, part in sorted(self.features.items()))
        classes = Column(self.target.column, self.target.target().levels, self.target.impute)
        kind = cast("type[ConvexLossModel]", model_type("logistic-regression"))
        return kind(UnitRows(features), classes, LogisticLoss(), n_records * self.beta)

    def coded(self, path: str) -> tuple[Floats, Floats]:
        """Return the rows and classes of a file.

        Raises:
            SourceError: the file cannot be read.
        """
        stated: dict[str, Any] = msgspec.to_builtins(self)
        return _coded(canonical_json({**stated, "train": path, "test": path, "n_train": None}))

    @property
    def n_learned(self) -> int:
        """The number of records that are learned from, fewer than there are if a part is predicted."""
        n = len(self.coded(self.train)[0])
        if self.n_train is not None and self.n_train >= n:
            raise SpecError(
                f"all {n} records would be learned from, and none predicted: n_train is {self.n_train}", where="n_train"
            )
        return self.n_train or n


@lru_cache(maxsize=4)
def _coded(key: bytes) -> tuple[Floats, Floats]:
    """Return the rows and classes of a case's file to learn from."""
    case = msgspec.convert(msgspec.json.decode(key), LogisticCase)
    design = case.model(1).design
    codes = read_codes(case.train, [*(feature.column for feature in design.features), case.target.target()], POLICY)
    return design.rows(codes[:, :-1]), codes[:, -1].astype(np.float64)


class LogisticRecords(NamedTuple):
    """What is learned from and predicted, one set for all trials if files are given, otherwise one a trial.

    Attributes:
        x, y: rows and classes to learn from, shapes (n_sets, n, width) and (n_sets, n).
        test_x, test_y: rows and classes to predict, in the same way.
    """

    x: Floats
    y: Floats
    test_x: Floats
    test_y: Floats


class LogisticRegressions(SimulatedStudy, frozen=True, kw_only=True):
    """Prices are epsilons of Renyi divergence at ``orders``, and pairs of ``epsilon_at_delta`` and ``delta``."""

    study: Literal["logistic-regression"]
    draws: Annotated[int, Meta(ge=1, le=1, description="posterior draws per trial")] = 1
    trials: Annotated[int, Meta(ge=2, le=10_000, description="trials per point of the grid")] = 50
    orders: Annotated[tuple[Exact, ...], Meta(description="orders of Renyi divergence; 1 is Kullback-Leibler")]
    delta: Annotated[Exact, Meta(description="of the pairs")] = "1e-6"
    epsilon_at_delta: Annotated[tuple[Exact, ...], Meta(description="epsilons of the pairs")] = ()
    metropolis_steps: Annotated[int, Meta(ge=10, le=100_000, description="of chains that stand for exact draws")] = 60
    langevin_steps: Annotated[int, Meta(ge=1, le=1_000_000, description="of released chains, at most")] = 800
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, LogisticCase], Meta(min_length=1)]

    columns: ClassVar = ("case", "price", "epsilon", "method")
    details: ClassVar = ("likelihood_power", "tau", "radius", "step_size", "n_steps")
    measures: ClassVar = (*with_errors(*_SCORES), "acceptance", "r_hat")
    by_trial: ClassVar = _SCORES
    shown: ClassVar = (*columns, "likelihood_power", "tau", *with_errors("error", "nll"))
    plots: ClassVar = {
        name: Plot(f"{title}; bars: two standard errors", measure, label, _STYLES, panels=("case", "price"),
                   across=("true-posterior", "true posterior"), level=level, scales=scales, share_y=False)
        for name, title, measure, label, level, scales in (
            ("test-error", "Test error of one draw", "error", "test error", ("commonest", "commonest class"),
             "log linear"),
            ("negative-log-likelihood", "Mean negative log-likelihood of one draw", "nll", "negative log-likelihood",
             None, "log log"),
        )
    }  # fmt: skip
    compared: ClassVar = tuple((each[1], each[2], "nll") for each in _SAID)
    about: ClassVar = (
        "How well one draw of the coefficients of a logistic regression tells classes apart. All methods and prices of "
        "a case see the same records and the same random numbers; methods that come to the same law at a price are the "
        "same there.\n\n"
        "`rdp-concentrated`, `rdp-diffuse`, `ops` and the true posterior are **idealized**: exact draws of these "
        "posteriors do not exist, and steps of a Metropolis-adjusted Langevin chain from Laplace's law stand for them "
        "here alone. `gdp-langevin` and `minami-langevin` are chains as they would be released, priced as they run, "
        "but for the generator.\n\n"
        "A price `order k` is an epsilon of Renyi divergence of order k (1: Kullback-Leibler), `delta d` an epsilon at "
        "that delta. `ops` draws from the ball of radius Q = 1 / beta under the likelihood power T, "
        "which is pure epsilon-DP at epsilon = 2 T Q; its divergence is the smaller one of what pure "
        "epsilon-DP and a bounded range of 2 T Q imply."
    )
    legend: ClassVar = (
        "`error`: how often the sign of a linear predictor under one draw is wrong, `nll`: the mean negative "
        "log-likelihood, over records that were not learned from; `commonest`: the error of always the commonest "
        "class. Plus or minus one standard error of the mean over trials. `tau`: prior precision; "
        "`step_size`, `n_steps`: of a chain that is released."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("orders", "epsilon_at_delta"):
            self.state_exactly(key, f"{key} are positive and at most 10,000", "0", "10000")
        if any(Decimal(order) < 1 for order in self.orders):
            raise ValueError("an order is 1 or more")
        self.check_distinct("orders", "epsilon_at_delta")
        delta = exact_number("delta", self.delta)
        if not 0 < delta < Decimal("0.1"):
            raise ValueError("delta is positive and below 0.1")
        msgspec.structs.force_setattr(self, "delta", decimal_text(delta))

    @classmethod
    def complete_case(cls, case: LogisticCase, _place: str, base: Path) -> LogisticCase:
        return msgspec.structs.replace(case, train=absolute(base, case.train), test=absolute(base, case.test))

    def grid(self) -> list[GridPoint]:
        at_orders = [Price(epsilon, order=order) for order in self.orders for epsilon in self.epsilon]
        at_delta = [Price(epsilon, delta=self.delta) for epsilon in self.epsilon_at_delta]
        rest = [method for method in self.methods if method != "true-posterior"]
        places: list[tuple[Price | None, Method]] = [(None, "true-posterior")] if len(rest) < len(self.methods) else []
        places += [(price, method) for price in at_orders for method in rest if method != "minami-langevin"]
        places += [(price, method) for price in at_delta for method in rest if method.endswith("-langevin")]
        found: list[GridPoint] = []
        for name, case in self.cases.items():
            stated = {key: value for key, value in msgspec.to_builtins(case).items() if key not in {"train", "test"}}
            contents = [file_digest(path) for path in (case.train, case.test) if path is not None]
            data = {**stated, "contents": contents, "seed": self.seed}
            model = case.model(case.n_learned)
            for price, method in places:
                law = law_at(method, price, model, case.n_learned, self.langevin_steps)
                details = dict(zip(self.details, law, strict=True))
                # the names of 0.1 in a point's definition: other names would be other seeds
                stored = dict(zip(("rho", "tau", "radius", "step", "steps"), law, strict=True))
                own = {"law": stored, "trials": self.trials}
                own["metropolis_steps"] = self.metropolis_steps if law.n_steps is None else None
                family, epsilon = (None, None) if price is None else (price.family, price.epsilon)
                place = {"case": name, "price": family, "epsilon": epsilon, "method": method}
                found.append(self.point(place, data, own, details))
        return found

    def records_of(self, point: GridPoint) -> LogisticRecords:
        """Return the records of all trials of a point; more trials begin with the same.

        Raises:
            SourceError: a file cannot be read.
        """
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
        """Draw the coefficients in every trial, and predict records that were not learned from.

        The seed of the draws is the same for all laws, whose differences are then those of the laws.
        """
        law, records = LogisticLaw(*point.details.values()), self.records_of(point)
        chains: dict[str, float | None] = {"acceptance": None, "r_hat": None}
        if law.n_steps is None:
            is_shared = len(records.x) == 1
            posterior, rng = LogisticPosterior(records.x, records.y, law), np.random.default_rng(point.noise_seed())
            n_chains = self.trials if is_shared else _WATCHED_CHAINS
            drawn = draw_posterior(posterior, n_chains, self.metropolis_steps, rng)
            draws = drawn.draws if is_shared else drawn.draws[:, :, :1]
            chains = {"acceptance": drawn.acceptance, "r_hat": drawn.r_hat}
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
        return averaged(trials, trials, **chains)

    def _released(self, point: GridPoint, law: LogisticLaw, records: LogisticRecords) -> Floats:
        """Run the chain that a release would run, with a seeded generator; shape (n_sets, width, n_draws)."""
        case = self.cases[point.case]
        n, steps, sets = case.n_learned, law.n_steps or 0, len(records.x)
        model = case.model(n)
        width, power = model.design.width, law.likelihood_power
        chain = Langevin(model.loss, width, power, law.tau, law.step_size or 0.0, steps, _GRID, n, 1.0)
        found = []
        for x, y, seed in zip(records.x, records.y, point.noise_seed().spawn(sets), strict=True):
            matrix = DesignMatrix(DesignRows(model.design, model.target), len(y), len(y), [(x, y)])
            normals = FromTheEnd(np.random.default_rng(seed), steps)
            found.append(chain.draw(matrix, self.trials if sets == 1 else 1, normals).T)
        return np.array(found)

    def about_case(self, own: Results) -> str:
        case = self.cases[own[0]["case"]]
        n, watched = case.n_learned, [each for each in own if each.measures["r_hat"] is not None]
        drawn = "others" if case.test is None else "the same: standard errors are those of the draws alone"
        said = f"Learned from {n} records, in each trial {drawn}; prior precision n beta = {n * case.beta:g}."
        if not watched:
            return said
        worst, least = (
            max(each.measure("r_hat") for each in watched),
            min(each.measure("acceptance") for each in watched),
        )
        verdict = "have converged" if worst <= _CONVERGED else "**have not converged everywhere**"
        return (
            f"{said} The chains that stand for exact draws {verdict}: R-hat is {worst:.3f} at most over points and "
            f"coordinates, and at least {least:.2f} of proposals are accepted."
        )

    def claims(self, results: Results) -> list[Claim]:
        made = []
        for name in self.cases:
            own = results.where(case=name)
            for source, first, second, says, signs, why in _SAID:
                away = own.differences(first, second, "error")
                made += difference_claims(source, f"{name}: {says}.", away, _CLEAR, **signs, why=why)
        return made
