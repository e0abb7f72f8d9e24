"""Accuracy of logistic regression: predictions and coefficients of private releases, against epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from scipy.special import expit

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.columns import Column, NumericColumn
from dpbayes_cli.core.derivatives import DerivativeRows, Point
from dpbayes_cli.core.design import DesignRows
from dpbayes_cli.core.langevin import Langevin
from dpbayes_cli.core.noisy_observation import NoisyDerivatives
from dpbayes_cli.core.section import Positive, require_type
from dpbayes_cli.experiments.file_records import check_stand_ins, file_digest, read_codes
from dpbayes_cli.experiments.logistic_laws import LogisticLaw, LogisticPosterior, mode_of
from dpbayes_cli.experiments.logistic_regression import ClassCase
from dpbayes_cli.experiments.peers import objective_perturbation
from dpbayes_cli.experiments.plots import Plot
from dpbayes_cli.experiments.results import OURS, Claim, Comparison, GridPoint, PointOutcome, Results
from dpbayes_cli.experiments.study import DROPPED, SimulatedStudy, plan_release, with_errors
from dpbayes_cli.inference.derivatives.infer_derivatives import draw_roughly
from dpbayes_cli.mechanisms.noisy_newton import rounds
from dpbayes_cli.spec.convert_section import Exact
from dpbayes_cli.spec.release_spec import build_spec

if TYPE_CHECKING:
    from dpbayes_cli.core.plan import Step
    from dpbayes_cli.models.families.convex_loss import ConvexLossModel
    from dpbayes_cli.privacy.laws.part_noise import PartNoise

Method = Literal["non-private", "noisy-newton", "gibbs-posterior", "diffprivlib"]

_PEER = "diffprivlib"
_CLEAR = 2.0
_LARGE, _RATIO_LARGE, _RATIO_SMALL = 3000, 0.6, 0.85
"""With so many records or more, and with fewer, the error of coefficients should be below these shares of a draw's."""
_NO_WORSE = Comparison(
    OURS, "noisy-newton", _PEER, "predictions of `noisy-newton` are at no epsilon less accurate than those of the "
    "objective perturbation of diffprivlib",
    "The wide noise of few records hides what the prior does not know.", never=-1,
)  # fmt: skip


class AccuracyCase(ClassCase, frozen=True, kw_only=True):
    """Records of two classes, the prior, and the norm to which a row of features is clipped."""

    norm: Positive | None = None
    precision: Annotated[
        Positive | None, Meta(description="prior precision of every coefficient [the default prior]")
    ] = None

    def model(self, mechanism: str = "noisy-newton") -> ConvexLossModel:
        """Return the model of a release; mechanisms have different default priors."""
        target = {"column": self.target.column, "values": ["0", "1"], "impute": "0"}
        domain = {"target": target, "features": msgspec.to_builtins(self.features), "norm": self.norm}
        prior = {} if self.precision is None else {"precision": self.precision}
        stated = {"model": "logistic-regression", "mechanism": mechanism, "domain": domain, "prior": prior}
        return build_spec(stated).build_model()  # type: ignore[return-value]

    def codes(self, path: str) -> Integers:
        """Return the codes of a file's features, then of the class, shape (n_records, n_features + 1)."""
        return _codes(path, self.model().columns[:-1], self.target.target())


@lru_cache(maxsize=4)
def _codes(path: str, features: tuple[Column | NumericColumn, ...], target: Any) -> Integers:
    return read_codes(path, [*features, target])


class Fit(NamedTuple):
    """Draws of the coefficients by a method."""

    draws: Floats  # shape (n_draws, width)

    def probabilities(self, x: Floats) -> Floats:
        """Return the mean probability of class 1 of each row."""
        return np.asarray(expit(x @ self.draws.T).mean(axis=1))


class RegressionAccuracy(SimulatedStudy, frozen=True, kw_only=True):
    """How well private logistic regressions predict the class of new records, and how far their coefficients are off.

    Each trial divides the records of a file anew. `noisy-newton`: the mean prediction of the posterior given noisy
    derivatives, by chains that end at the stated number of draws, converged or not. `gibbs-posterior`: one draw of
    a private Langevin chain of the same cost. `diffprivlib`: objective perturbation as in the library of this name,
    with the pure guarantee epsilon (it has no delta) and the regularization that is its default. `non-private`: the
    most probable coefficients given the exact records and the prior of `noisy-newton`. The private methods have their
    default priors, unless the case states a precision.

    Source: Chaudhuri, Monteleoni and Sarwate 2011 (objective perturbation).
    """

    study: Literal["regression-accuracy"]
    draws: Annotated[int, Meta(ge=2, le=10_000, description="posterior draws per trial")] = 400
    trials: Annotated[int, Meta(ge=2, le=10_000, description="divisions of the records")] = 20
    delta: Annotated[Exact, Meta(description="delta of the releases")] = "1e-6"
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, AccuracyCase], Meta(min_length=1)]

    exact: ClassVar = {"delta": ("0", "0.1")}
    files = ("train", "test")
    columns = ("case", "epsilon", "method")
    details = ("n_train", "width")
    measures = with_errors("accuracy", "log_score", "error", "commonest")
    by_trial = ("accuracy", "log_score", "error", "commonest")
    shown = ("case", "epsilon", "method", "n_train", "width", *with_errors("accuracy", "error"))
    plots: ClassVar = {
        "accuracy": Plot("Accuracy of predictions of new records", "accuracy", across="non-private", level="commonest"),
        "coefficients": Plot("Distance of the coefficients from the non-private ones", "error", scales="log log"),
    }
    compared = (("noisy-newton", _PEER, "accuracy"), ("noisy-newton", "gibbs-posterior", "accuracy"))
    legend = (
        "`accuracy`: share of the test records whose class is predicted right. `log_score`: mean log probability of "
        "the true class. `error`: root mean square distance of the estimated coefficients from the non-private ones. "
        "`commonest`: accuracy of always predicting the most frequent class. One standard error over the divisions "
        "follows each number. `width`: number of columns of the design."
    )

    def grid(self) -> list[GridPoint]:
        grid = []
        for name, case in self.cases.items():
            model = case.model()
            check_stand_ins(model.columns, f"cases.{name}")
            stated = msgspec.to_builtins(case)
            del stated["train"], stated["test"]
            contents = [file_digest(path) for path in (case.train, case.test) if path is not None]
            data = {**stated, "contents": contents, "seed": self.seed, "trials": self.trials}
            n = case.n_train or len(case.codes(case.train))
            for epsilon, method in self.prices_and_methods(self.epsilon, self.methods, "non-private"):
                own = {"epsilon": epsilon, "method": method, "delta": self.delta, "draws": self.draws}
                place = {"case": name, "epsilon": epsilon, "method": method}
                grid.append(self.point(place, data, own, {"n_train": n, "width": model.design.width}))
        return grid

    def run(self, point: GridPoint) -> PointOutcome:
        case, rng = self.cases[point.case], np.random.default_rng(point.noise_seed(epsilon=point["epsilon"]))
        model, scores = case.model(), []
        for seed in point.data_seed().spawn(self.trials):
            train, test = self._divided(case, np.random.default_rng(seed))
            fit = self._fit(point, case, train, rng)
            x, y = dense_rows(model, test)
            right = fit.probabilities(x)
            likely = np.clip(np.where(y > 0.5, right, 1.0 - right), 1e-12, 1.0)
            exact = exact_coefficients(model, train)
            error = np.sqrt(np.square(fit.draws.mean(axis=0) - exact).mean())
            commonest = train[:, -1].mean() > 0.5
            accuracy = ((right > 0.5) == (y > 0.5)).mean()
            scores.append((accuracy, np.log(likely).mean(), error, ((y > 0.5) == commonest).mean()))
        trials = dict(zip(self.by_trial, np.array(scores).T, strict=True))
        return PointOutcome.averaged(trials, self.by_trial)

    def _divided(self, case: AccuracyCase, rng: np.random.Generator) -> tuple[Integers, Integers]:
        codes = case.codes(case.train)
        if case.test is not None:
            return codes, case.codes(case.test)
        order = rng.permutation(len(codes))
        return codes[order[: case.n_train]], codes[order[case.n_train :]]

    def _fit(self, point: GridPoint, case: AccuracyCase, train: Integers, rng: np.random.Generator) -> Fit:
        method, model, n = point["method"], case.model(), len(train)
        if method == "non-private":
            return Fit(exact_coefficients(model, train)[None])
        if method == _PEER:
            x, y = dense_rows(model, train)
            norm = float(np.sqrt(model.design.radius**2 + model.design.intercept))
            return Fit(objective_perturbation(x, y, point.epsilon, norm, int(rng.integers(1 << 31)))[None])
        cost = {"epsilon": Decimal(point["epsilon"]), "delta": Decimal(self.delta)}
        step = plan_release(method, case.model(method), DROPPED, n, **cost).final_step
        if method == "gibbs-posterior":
            matrix = DesignRows(model.design, model.target).hold(n)
            matrix.take(train)
            return Fit(np.asarray(require_type(step.law, Langevin).draw(matrix, 1, rng.standard_normal)))
        return Fit(draw_roughly(release_derivatives(step, train, rng), self.draws, rng))

    def claims(self, results: Results) -> Iterator[Claim]:
        for name in self.cases:
            own = results.where(case=name)
            yield from _NO_WORSE.claims(name, own, "accuracy", _CLEAR)
            yield from _nearer(name, own)
        if _PEER in self.methods and "noisy-newton" in self.methods:
            yield _mostly_above(results)


def release_derivatives(step: Step, train: Integers, rng: np.random.Generator) -> NoisyDerivatives:
    """Simulate a release of noisy derivatives."""
    rows = require_type(step.rows, DerivativeRows)
    matrix, n = rows.hold(len(train)), len(train)
    matrix.take(train)

    def add_noise(law: PartNoise, exact: list[int]) -> list[int]:
        return [value + z for value, z in zip(exact, law.simulate(rng, len(exact)).tolist(), strict=True)]

    def derivatives(at: Point) -> list[int]:
        return matrix.derivatives(at)

    values, points = rounds(step, rows, n, derivatives, add_noise)
    return rows.observation(values, step.noise.scales(len(values)), points, n)


def dense_rows(model: ConvexLossModel, codes: Integers) -> tuple[Floats, Floats]:
    """Return the rows and classes of records as dense arrays."""
    rows = model.design.rows(codes[:, :-1])
    return rows.toarray() if hasattr(rows, "toarray") else rows, codes[:, -1].astype(np.float64)


def exact_coefficients(model: ConvexLossModel, codes: Integers) -> Floats:
    """Return the most probable coefficients given exact records and the model's prior, shape (width,)."""
    x, y = dense_rows(model, codes)
    root = np.linalg.cholesky(model.prior.given(x).covariance)
    return np.asarray(root @ mode_of(LogisticPosterior((x @ root)[None], y[None], LogisticLaw(1.0, 1.0)))[0])


def _nearer(name: str, own: Results) -> Iterator[Claim]:
    """Claim that posterior means are nearer to the non-private coefficients than single draws of the same cost."""
    ratios = {
        each["epsilon"]: each.measure("error")
        / own.one(epsilon=each["epsilon"], method="gibbs-posterior").measure("error")
        for each in own.where(method="noisy-newton")
        if own.where(epsilon=each["epsilon"], method="gibbs-posterior")
    }
    if ratios:
        n = own[0].point.details["n_train"]
        limit = _RATIO_LARGE if n >= _LARGE else _RATIO_SMALL
        yield Claim(
            OURS,
            f"{name}: coefficients of `noisy-newton` have at most {limit:g} times the error of one `gibbs-posterior` "
            "draw of equal cost.",
            max(ratios.values()) <= limit,
            "ratio of the errors: "
            + "; ".join(f"{value:.3f} at epsilon {epsilon}" for epsilon, value in ratios.items()),
            "Where the noise hides much, both estimates are mainly those of their priors, and that of `noisy-newton` "
            "is the wider one. In a wide design, the noise hides how columns are correlated.",
        )


def _mostly_above(results: Results) -> Claim:
    pairs = [
        (
            each.measure("accuracy"),
            results.one(case=each["case"], epsilon=each["epsilon"], method=_PEER).measure("accuracy"),
        )
        for each in results.where(method="noisy-newton")
    ]
    above = sum(ours > theirs for ours, theirs in pairs)
    return Claim(
        OURS,
        "Predictions of `noisy-newton` are more accurate than those of diffprivlib at most points.",
        2 * above > len(pairs),
        f"more accurate at {above} of {len(pairs)} points",
    )
