"""Estimation: how far off the probability of success is that a release of a binary outcome tells, by its records.

Source: Foulds et al. 2016, sec. 3.2, Fig. 1 and 2.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta
from scipy import stats

from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.core.options import EpsilonOptions, Options
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.claims import OURS, Claim, listed
from dpbayes_cli.experiments.coin import COMPLETE, DROPPED, CoinCase
from dpbayes_cli.experiments.plots import Plot, Style, label_axes, stamped_panels
from dpbayes_cli.experiments.point import GridPoint
from dpbayes_cli.experiments.results import PointOutcome, Result, Results, averaged, mean_difference, with_errors
from dpbayes_cli.experiments.study import SimulatedStudy, exact_prices, prices_and_methods
from dpbayes_cli.inference.counts.beta_mixture import BetaMixture, beta_mixture
from dpbayes_cli.inference.naive import naive_shape
from dpbayes_cli.mechanisms.ops import OpsRangeOptions
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler
from dpbayes_cli.mechanisms.samplers.simulated_draws import simulate_sampler
from dpbayes_cli.privacy.kinds import BoundedRange

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.core.plan import Step

Method = Literal["non-private", "laplace-paper", "laplace-naive", "laplace", "ops"]

POSTERIORS, ERRORS = "[F] Figure 1", "[F] Figure 2"
_ORDER = Decimal(2)
_CLEAR = 3.0
"""A difference of so many standard errors is called one."""
_PAPER_N, _ABOUT = 10, 3.0
"""The number of records below which the paper finds posterior samples better; ``about`` is within this factor."""
_CLOSE, _SLIGHT, _ROUGHLY = 0.1, 0.01, 1.5
"""Relative differences: that is close, that is none, and a factor that counts as about the same."""
_CUT = (
    "Where the noise hides the data, the mean that knows it stays at the prior's; a count that is taken for true is "
    "often cut at zero, which happens to be near this truth."
)
_IMPROVED = (
    ("one count tells more than two, both taken for true", "laplace-naive", "laplace-paper"),
    ("one count that is read with its noise tells more than one that is taken for true", "laplace", "laplace-naive"),
)
_SETTING = "The prior is not stated in the paper, and is the study's here: the smallest n depend on it."
_STYLES = {
    "non-private": Style("0.2", "s"),
    "laplace": Style("tab:blue", "o"),
    "laplace-naive": Style("tab:purple", "v"),
    "laplace-paper": Style("tab:red", "^"),
    "ops": Style("tab:orange", "d"),
}


class EstimationCase(CoinCase, frozen=True, kw_only=True):
    """A true probability, a prior, and the numbers of records that are looked at."""

    theta: Annotated[float, Meta(gt=0, lt=1, description="the true probability of success")]
    n: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=10_000_000)], ...], Meta(min_length=1, description="record numbers")
    ]
    support: Annotated[tuple[float, float], Meta(description="with ops: public range of the parameter")]
    epsilon: Annotated[tuple[str, ...], Meta(description="of this case, in place of the study's")] = ()
    densities: Annotated[int, Meta(ge=0, le=1000, description="releases whose posteriors are drawn in a figure")] = 0

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "epsilon", exact_prices(self.epsilon))

    def step(self, method: str, epsilon: str | None, n_records: int) -> Step | None:
        """Return the calibrated step of a release, None if nothing is private; the paper releases both counts.

        Raises:
            SpecError: no guarantee can be given.
        """
        if epsilon is None:
            return None
        name, policy, price = "laplace", DROPPED if method == "laplace-paper" else COMPLETE, parse_decimal(epsilon)
        options: Options = EpsilonOptions(epsilon=price)
        if method == "ops":
            name, options = "ops", OpsRangeOptions(epsilon=price, power_applies_to="joint", support=self.support)
        (step,) = mechanism_type(name)().plan(self.model, policy, options, n_records).steps
        return step

    def posterior(self, step: Step, released: int, n_records: int) -> BetaMixture:
        """Return the posterior of a noisy count that knows the noise."""
        return beta_mixture(self.model.observation(COMPLETE, (released,), step.noise, n_records))


class Estimation(SimulatedStudy, frozen=True, kw_only=True):
    """A grid of cases x n x epsilon x methods; all methods see the same records."""

    study: Literal["estimation"]
    draws: Annotated[int, Meta(ge=1, le=1, description="posterior draws a trial")] = 1
    trials: Annotated[int, Meta(ge=2, le=100_000, description="releases a point")] = 1000
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, EstimationCase], Meta(min_length=1)]

    columns: ClassVar = ("case", "n", "epsilon", "method")
    measures: ClassVar = (*with_errors("l1", "l1_mean"), "sd", "charged", "rdp_2", "rdp_2_bound")
    by_trial: ClassVar = ("draw", "l1", "mean", "l1_mean", "released")
    shown: ClassVar = ("case", "n", "epsilon", "method", "l1", "l1_se", "l1_mean", "sd", "rdp_2")
    plots: ClassVar = {
        "l1": Plot("L1 error of one draw, and (dashed) of the posterior mean", "l1", "L1 error", _STYLES, "n",
                   ("case", "epsilon"), dashed="l1_mean", scales="log log"),
        "charge": Plot("What one posterior sample costs at order 2, and (dashed) by its range", "rdp_2",
                       "divergence of order 2", {"ops": _STYLES["ops"]}, "n", ("case", "epsilon"),
                       dashed="rdp_2_bound", scales="log log", share_y=False),
    }  # fmt: skip
    about: ClassVar = (
        "How far off the probability of success is that a release tells: by one draw, and by the mean of the "
        "posterior. All methods and prices see the same records.\n\n"
        "`laplace-paper`: both counts with Laplace noise, taken for true after negative counts are made possible. "
        "`laplace-naive`: the number of successes alone, of half the sensitivity. `laplace`: the same, read with its "
        "noise. `ops`: one draw of the posterior on its support under a power of the likelihood, drawn in floats."
    )
    legend: ClassVar = (
        "`l1`: mean absolute error of one draw, `l1_mean`: of the posterior mean, plus or minus one standard error. "
        "`sd`: mean sd of the posterior that is drawn from. `rdp_2`: what is charged at order 2, exact if the law of "
        "a draw is known on its grid; `rdp_2_bound`: what its range alone implies."
    )

    def grid(self) -> list[GridPoint]:
        found = []
        for name, case in self.cases.items():
            for n in case.n:
                data = {"theta": case.theta, "n_records": n, "trials": self.trials, "seed": self.seed}
                for epsilon, method in prices_and_methods(case.epsilon or self.epsilon, self.methods, "non-private"):
                    support = list(case.support) if method == "ops" else None
                    prior = {"alpha": case.alpha, "beta": case.beta, "support": support}
                    own = {**prior, "epsilon": epsilon, "method": method}
                    place = {"case": name, "n": n, "epsilon": epsilon, "method": method}
                    found.append(self.point(place, data, own))
        return found

    def run(self, point: GridPoint) -> PointOutcome:
        """Release and estimate in every trial."""
        case, n, method = self.cases[point.case], point["n"], point["method"]
        records, noise = (np.random.default_rng(seed) for seed in point.data_seed().spawn(2))
        successes = records.binomial(n, case.theta, self.trials)
        step = case.step(method, point["epsilon"], n)
        rng = np.random.default_rng(point.inference_seed())
        trials: dict[str, Floats]
        if step is None:
            trials, sds = _of_betas(np.column_stack([case.alpha + successes, case.beta + n - successes]), rng)
        elif method == "ops":
            trials, sds = self._sampled(step, successes, rng)
        else:
            counts = np.column_stack([successes, n - successes])[:, : 2 if method == "laplace-paper" else 1]
            released = counts + step.noise.simulate(noise, counts.shape)
            if method == "laplace":
                trials, sds = self._aware(case, step, released[:, 0], n, rng)
            else:
                policy = DROPPED if method == "laplace-paper" else COMPLETE
                observed = (case.model.observation(policy, row, step.noise, n) for row in released.tolist())
                shapes = np.array([naive_shape(each) for each in observed])
                trials, sds = _of_betas(shapes, rng)
                trials["shape_total"] = shapes.sum(axis=1)
            trials["released"] = released[:, 0].astype(np.float64)
        trials["l1"] = np.abs(trials["draw"] - case.theta)
        if "mean" in trials:
            trials["l1_mean"] = np.abs(trials["mean"] - case.theta)
        return averaged(trials, ("l1", "l1_mean"), sd=float(sds.mean()), **_charges(step))

    def _sampled(self, step: Step, successes: Any, rng: np.random.Generator) -> tuple[dict[str, Floats], Floats]:
        """Draw what posterior sampling would release."""
        draws, sds = np.empty(self.trials), np.empty(self.trials)
        for value in np.unique(successes):
            at = successes == value
            draws[at] = simulate_sampler(step.sampler, (int(value),), int(at.sum()), rng)[:, 0]
            sds[at] = step.sampler.moments((int(value),))[1]
        return {"draw": draws}, sds

    def _aware(
        self, case: EstimationCase, step: Step, released: Any, n: int, rng: np.random.Generator
    ) -> tuple[dict[str, Floats], Floats]:
        """Draw from the posteriors that know the noise."""
        draws, means, sds = (np.empty(self.trials) for _ in range(3))
        for value in np.unique(released):
            at, law = released == value, case.posterior(step, int(value), n)
            draws[at], means[at], sds[at] = law.draw(int(at.sum()), rng), law.mean, sum(law.variances) ** 0.5
        return {"draw": draws, "mean": means}, sds

    def figures(self, results: Results) -> dict[str, Figure]:
        curves = Results(each for each in results if len(self.cases[each["case"]].n) > 1)
        names = ["l1"] if curves else []
        names += ["charge"] if curves.where(method="ops") else []
        figures = {name: self.plots[name].figure(curves) for name in names}
        drawn = (name for name, case in self.cases.items() if case.densities)
        return {**figures, **{f"posteriors-{name}": self._posteriors(name, results) for name in drawn}}

    def _posteriors(self, name: str, results: Results) -> Figure:
        """Draw the posteriors of the first releases, one panel a method, beside the true one of the expected count."""
        case = self.cases[name]
        n, epsilon = case.n[0], (case.epsilon or self.epsilon)[0]
        theta, successes = np.linspace(0.002, 0.998, 499), round(n * case.theta)

        def draw(axes: Axes, method: str) -> None:
            (result,) = results.where(case=name, n=n, epsilon=epsilon, method=method)
            for density in self._densities(result, theta, successes):
                axes.plot(theta, density, color=_STYLES[method].color, linewidth=0.5, alpha=0.6)
            true = stats.beta.pdf(theta, case.alpha + successes, case.beta + n - successes)
            axes.plot(theta, true, color="0.2", linewidth=1.6, label="true posterior of the expected count")
            axes.axvline(case.theta, color="0.2", linewidth=0.8, linestyle=":", label="theta")
            label_axes(axes, method, "theta", scales="linear linear")

        panels = [(method,) for method in self.methods if method != "non-private"]
        title = f"Posteriors of {case.densities} releases, {name}, n {n}, epsilon {epsilon}"
        return stamped_panels(panels, min(len(panels), 4), draw, title)

    def _densities(self, result: Result, theta: Floats, successes: int) -> list[Floats]:
        """Return densities on a grid: one of posterior sampling, whose data are given; else one a release."""
        case, n, method = self.cases[result["case"]], result["n"], result["method"]
        step = case.step(method, result["epsilon"], n)
        if step is not None and method == "ops":
            law = require_type(step.law, ScalarSampler)
            logs = law.logs((successes,))
            masses = np.exp(logs - logs.max())
            return [np.interp(theta, law.cells, masses / masses.mean() / (law.support[1] - law.support[0]), 0.0, 0.0)]
        if step is not None and method == "laplace":
            released = result.trials["released"][: case.densities]
            return [case.posterior(step, int(value), n).pdf(theta) for value in released]
        pairs = zip(result.trials["mean"][: case.densities], result.trials["shape_total"], strict=False)
        return [stats.beta.pdf(theta, mean * total, (1.0 - mean) * total) for mean, total in pairs]

    def claims(self, results: Results) -> list[Claim]:
        made, held = [], set(self.methods)
        for name, case in self.cases.items():
            for epsilon in case.epsilon or self.epsilon:
                at, sizes = f"{name}, epsilon {epsilon}", sorted(case.n)
                own = results.where(case=name).at(epsilon=epsilon)
                if {"non-private", "ops", "laplace-paper"} <= held:
                    made += _curves(at, case, sizes, own) if len(sizes) > 1 else _shapes(at, case.theta, own)
                if len(sizes) > 1:
                    made += [_improves(at, *each, sizes, own) for each in _IMPROVED if held.issuperset(each[1:])]
                    made += [_charge(at, own.where(method="ops"))] if "ops" in held else []
        return made


def _of_betas(shapes: Floats, rng: np.random.Generator) -> tuple[dict[str, Floats], Floats]:
    """Return draws and means of Beta posteriors, and their sds."""
    first, second = np.asarray(shapes, dtype=np.float64).T
    total = first + second
    mean = np.asarray(first / total)
    return {"draw": rng.beta(first, second), "mean": mean}, np.asarray(np.sqrt(mean * (1.0 - mean) / (total + 1.0)))


def _charges(step: Step | None) -> dict[str, float | None]:
    """Return the range that a release costs, and its divergence of order 2, exact and by that range."""
    if step is None:
        return {"charged": None, "rdp_2": None, "rdp_2_bound": None}
    guarantee = step.guarantee
    bound = exact = float(guarantee.rdp(_ORDER))
    if isinstance(guarantee, BoundedRange):
        bound = float(replace(guarantee, points=()).rdp(_ORDER))
    return {"charged": float(guarantee.epsilon), "rdp_2": exact, "rdp_2_bound": bound}


def _shapes(at: str, theta: float, own: Results) -> list[Claim]:
    """The sampler's posterior is flat; noisy counts give posteriors that are narrow and in the wrong place."""
    results = [own.one(method=method) for method in ("non-private", "ops", "laplace-paper")]
    exact, flat, narrow = (each.measure("sd") for each in results)
    off = float(np.sqrt(((np.array(results[2].trials["mean"]) - theta) ** 2).mean()))
    return [
        Claim(
            POSTERIORS,
            f"{at}: the tempered posterior is truncated and flatter than the true one.",
            flat > exact,
            f"sd {flat:.4f} against {exact:.4f} at n = {results[0]['n']}",
            _SETTING,
        ),
        Claim(
            POSTERIORS,
            f"{at}: posteriors of noisy counts are about as narrow as the true one, and scattered by the noise.",
            0.5 * exact < narrow < 2.0 * exact and off > narrow,
            f"mean sd {narrow:.4f} against {exact:.4f}; their means are {off:.4f} off (root mean square)",
        ),
    ]


def _curves(at: str, case: EstimationCase, sizes: list[int], own: Results) -> list[Claim]:
    """What the figure shows of Laplace noise and of the sampler, against n."""
    laplace, sampled = ([own.one(n=n, method=method) for n in sizes] for method in ("laplace-paper", "ops"))
    exact = [own.one(n=n, method="non-private").measure("l1") for n in sizes]
    lower, clear = set(), set()
    for n, of_noise, of_sampler in zip(sizes, laplace, sampled, strict=True):
        value, error = mean_difference(of_noise.trials["l1"], of_sampler.trials["l1"])
        lower |= {n} if value < 0.0 else set()
        clear |= {n} if value < -_CLEAR * error else set()
    first, clearly = (next((n for n in sizes if {m for m in sizes if m >= n} <= them), None) for them in (lower, clear))
    errors = "; ".join(
        f"n = {n}: {noise.measure('l1'):.4f} against {sampler.measure('l1'):.4f}"
        for n, noise, sampler in zip(sizes, laplace, sampled, strict=True)
        if n in {sizes[0], first, clearly, sizes[-1]}
    )
    last, of_last = sizes[-1], laplace[-1].measure("l1")
    step, error = case.step("ops", sampled[-1]["epsilon"], last), sampled[-1].measure("l1")
    power = 1.0 if step is None else float(require_type(step.law, ScalarSampler).likelihood_power)
    equal = float(np.exp(np.interp(-np.log(error), -np.log(exact), np.log(sizes))))
    expected = 2.0 * last / (1.0 + 1.0 / power)  # efficiencies: 1 + 1 / T of a draw under the power T, 2 of a draw
    return [
        Claim(
            ERRORS,
            f"{at}: posterior samples are better only at small n (about {_PAPER_N}); then Laplace noise overtakes "
            "them.",
            clearly is not None and _PAPER_N / _ABOUT <= clearly <= _PAPER_N * _ABOUT,
            f"Laplace noise has the lower L1 error from n = {first or 'nowhere'} on, by {_CLEAR:g} standard errors "
            f"from n = {clearly or 'nowhere'} on; {errors}",
            _SETTING,
        ),
        Claim(
            ERRORS,
            f"{at}: with n the error of Laplace noise converges to that of the true posterior.",
            of_last < (1.0 + _CLOSE) * exact[-1],
            f"L1 error {of_last:.5f} against {exact[-1]:.5f} at n = {last}: {of_last / exact[-1]:.2f} times",
        ),
        Claim(
            ERRORS,
            f"{at}: posterior samples behave like the posterior of fewer records.",
            expected / _ROUGHLY <= equal <= expected * _ROUGHLY and equal < 0.5 * last,
            f"at n = {last} the L1 error {error:.4f} is that of the true posterior at n = {equal:.4g}; by the "
            f"asymptotic efficiency at the likelihood power T = {power:.4f}, 2 n / (1 + 1 / T) = {expected:.4g}",
            "The error of the true posterior is interpolated between sizes.",
        ),
    ]


def _improves(at: str, says: str, first: str, second: str, sizes: list[int], own: Results) -> Claim:
    """By the errors of posterior means, trial by trial."""
    worse, better, gains = [], [], {}
    for n in sizes:
        pair = [own.one(n=n, method=method).trials["l1_mean"] for method in (first, second)]
        gains[n], error = mean_difference(*pair)
        clear = max(_CLEAR * error, _SLIGHT * float(np.mean(pair[1])))
        worse += [n] if gains[n] > clear else []
        better += [n] if gains[n] < -clear else []
    most = min(gains, key=lambda n: gains[n])
    errors = {method: own.one(n=most, method=method).measure("l1_mean") for method in (first, second)}
    return Claim(
        OURS,
        f"{at}: {says}.",
        bool(better) and not worse,
        f"L1 error of the posterior mean at n = {most}: "
        + ", ".join(f"{value:.3f} of `{method}`" for method, value in errors.items())
        + f"; clearly lower at n = {listed(better)}, clearly higher at n = {listed(worse)}",
        _CUT if worse else "",
    )


def _charge(at: str, own: Results) -> Claim:
    """Where the law is small enough for its curve to be computed."""
    known = [each for each in own if each.measure("rdp_2") < each.measure("rdp_2_bound")]
    shown = (f"n = {e['n']}: {e.measure('rdp_2'):.3g} against {e.measure('rdp_2_bound'):.3g}" for e in known)
    return Claim(
        OURS,
        f"{at}: the exact Renyi charge of a posterior sample is below what its range implies, where it is computed.",
        bool(known),
        f"divergence of order 2: {'; '.join(shown) or 'nowhere known'}",
        "Beyond, the curve takes too long to compute, and the bound is charged." if len(known) < len(own) else "",
    )
