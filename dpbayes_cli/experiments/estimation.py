"""Estimation: the error of estimating a probability of success from a release, against the number of records.

Source: Foulds et al. 2016, sec. 3.2, Fig. 1 and 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta
from scipy import stats

from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.estimates import EstimationCase, charges, densities, estimates
from dpbayes_cli.experiments.plots import Plot, Style, label_axes, stamped_panels
from dpbayes_cli.experiments.results import OURS, Claim, GridPoint, PointOutcome, Results, mean_difference, with_errors
from dpbayes_cli.experiments.study import SimulatedStudy, StudyLayout
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Method = Literal["non-private", "laplace-paper", "laplace-naive", "laplace", "ops"]

POSTERIORS, ERRORS = "[F] Figure 1", "[F] Figure 2"
_CLEAR = 3.0
"""A difference beyond this many standard errors is called clear."""
_PAPER_N, _FACTOR = 10, 3.0
"""The paper finds posterior draws better below this number of records; the claim may be off by this factor."""
_CLOSE, _NEGLIGIBLE, _ROUGHLY = 0.1, 0.01, 1.5
"""The largest relative differences called close and negligible; the largest ratio called about the same."""
_IMPROVED = (
    ("plug-in inference estimates better from one noisy count than from two", "laplace-naive", "laplace-paper"),
    ("noise-aware inference estimates better than plug-in inference", "laplace", "laplace-naive"),
)
_PRIOR = "The paper does not state its prior, on which the errors at the smallest n depend."
_STYLES = {
    "non-private": Style("0.2", "s"),
    "laplace": Style("tab:blue", "o"),
    "laplace-naive": Style("tab:purple", "v"),
    "laplace-paper": Style("tab:red", "^"),
    "ops": Style("tab:orange", "d"),
}


class Estimation(SimulatedStudy, frozen=True, kw_only=True):
    """A grid of cases x n x epsilon x methods; all methods use the same records."""

    study: Literal["estimation"]
    draws: Annotated[int, Meta(ge=1, le=1, description="posterior draws per trial")] = 1
    trials: Annotated[int, Meta(ge=2, le=100_000, description="simulated releases per point of the grid")] = 1000
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, EstimationCase], Meta(min_length=1)]

    layout: ClassVar = StudyLayout(
        columns=("case", "n", "epsilon", "method"),
        measures=(*with_errors("l1", "l1_mean"), "sd", "charged", "rdp_2", "rdp_2_bound"),
        by_trial=("draw", "l1", "mean", "l1_mean", "released"),
        shown=("case", "n", "epsilon", "method", "l1", "l1_se", "l1_mean", "sd", "rdp_2"),
        plots={
            "l1": Plot("L1 error of one draw (solid) and of posterior means (dashed)", "l1", "L1 error", _STYLES, "n",
                       ("case", "epsilon"), dashed="l1_mean", scales="log log"),
            "charge": Plot("Renyi divergence of order 2 of one posterior draw (solid), and its bound (dashed)", "rdp_2",
                           "divergence of order 2", {"ops": _STYLES["ops"]}, "n", ("case", "epsilon"),
                           dashed="rdp_2_bound", scales="log log", share_y=False),
        },
        about="A probability of success is estimated from a release, by one posterior draw or by the posterior mean; "
        "this study measures the error. All methods and epsilons use the same records.\n\n"
        "`laplace-paper`: the numbers of successes and failures with Laplace noise; negative counts become zero, and "
        "inference takes the counts for exact. `laplace-naive`: plug-in inference from the number of successes "
        "alone, which has half the sensitivity. `laplace`: noise-aware inference from this noisy number of "
        "successes. `ops`: one draw of a tempered posterior, restricted to `support` and computed in floats.",
        legend="`l1`: mean absolute error of one posterior draw. `l1_mean`: mean absolute error of the posterior "
        "mean. One standard error follows each of the two. `sd`: mean standard deviation of the posteriors. `rdp_2`: "
        "Renyi divergence of order 2 that a release costs. `rdp_2_bound`: the bound on this divergence that epsilon "
        "alone implies.",
    )  # fmt: skip

    def grid(self) -> list[GridPoint]:
        grid = []
        for name, case in self.cases.items():
            for n in case.n:
                data = {"theta": case.theta, "n_records": n, "trials": self.trials, "seed": self.seed}
                for epsilon, method in self.prices_and_methods(
                    case.epsilon or self.epsilon, self.methods, "non-private"
                ):
                    place = {"case": name, "n": n, "epsilon": epsilon, "method": method}
                    support = list(case.support) if method == "ops" else None
                    prior = {"alpha": case.alpha, "beta": case.beta, "support": support}
                    own = {**prior, "epsilon": epsilon, "method": method}
                    grid.append(self.point(place, data, own))
        return grid

    def run(self, point: GridPoint) -> PointOutcome:
        case, n, method = self.cases[point.case], point["n"], point["method"]
        records, noise = (np.random.default_rng(seed) for seed in point.data_seed().spawn(2))
        successes = records.binomial(n, case.theta, self.trials)
        step = case.step(method, point["epsilon"], n)
        rng = np.random.default_rng(point.inference_seed())
        trials, sds = estimates(case, method, step, successes, n, noise, rng)
        trials["l1"] = np.abs(trials["draw"] - case.theta)
        if "mean" in trials:
            trials["l1_mean"] = np.abs(trials["mean"] - case.theta)
        return PointOutcome.averaged(trials, ("l1", "l1_mean"), sd=float(sds.mean()), **charges(step))

    def figures(self, results: Results) -> dict[str, Figure]:
        curves = Results(each for each in results if len(self.cases[each["case"]].n) > 1)
        names = ["l1"] if curves else []
        names += ["charge"] if curves.where(method="ops") else []
        figures = {name: self.layout.plots[name].figure(curves) for name in names}
        drawn = (name for name, case in self.cases.items() if case.densities)
        return {**figures, **{f"posteriors-{name}": self._posteriors(name, results) for name in drawn}}

    def _posteriors(self, name: str, results: Results) -> Figure:
        """Plot the posteriors of each method's first releases, and the true posterior of the expected count."""
        case = self.cases[name]
        n, epsilon = case.n[0], (case.epsilon or self.epsilon)[0]
        theta, successes = np.linspace(0.002, 0.998, 499), round(n * case.theta)

        def draw(axes: Axes, method: str) -> None:
            result = results.one(case=name, n=n, epsilon=epsilon, method=method)
            for density in densities(case, result, theta, successes):
                axes.plot(theta, density, color=_STYLES[method].color, linewidth=0.5, alpha=0.6)
            true = stats.beta.pdf(theta, case.alpha + successes, case.beta + n - successes)
            axes.plot(theta, true, color="0.2", linewidth=1.6, label="true posterior of the expected count")
            axes.axvline(case.theta, color="0.2", linewidth=0.8, linestyle=":", label="theta")
            label_axes(axes, method, "theta", scales="linear linear")

        panels = [(method,) for method in self.methods if method != "non-private"]
        title = f"Posteriors of {case.densities} releases, {name}, n {n}, epsilon {epsilon}"
        return stamped_panels(panels, min(len(panels), 4), draw, title)

    def claims(self, results: Results) -> list[Claim]:
        made, has = [], set(self.methods).issuperset
        for name, case in self.cases.items():
            for epsilon in case.epsilon or self.epsilon:
                at, sizes = f"{name}, epsilon {epsilon}", sorted(case.n)
                own = results.where(case=name).at(epsilon=epsilon)
                if has({"non-private", "ops", "laplace-paper"}):
                    made += _curves(at, case, sizes, own) if len(sizes) > 1 else _shapes(at, case.theta, own)
                if len(sizes) > 1:
                    made += [_improves(at, *each, sizes, own) for each in _IMPROVED if has(each[1:])]
                    made += [_charge(at, own.where(method="ops"))] if has({"ops"}) else []
        return made


def _shapes(at: str, theta: float, own: Results) -> list[Claim]:
    results = [own.one(method=method) for method in ("non-private", "ops", "laplace-paper")]
    exact, flat, narrow = (each.measure("sd") for each in results)
    error = float(np.sqrt(((np.array(results[2].trials["mean"]) - theta) ** 2).mean()))
    return [
        Claim(
            POSTERIORS,
            f"{at}: the tempered posterior is truncated and flatter than the true one.",
            flat > exact,
            f"sd {flat:.4f} against {exact:.4f} of the true posterior at n = {results[0]['n']}",
            _PRIOR,
        ),
        Claim(
            POSTERIORS,
            f"{at}: plug-in posteriors of noisy counts are about as narrow as the true posterior, but the noise "
            "shifts them.",
            0.5 * exact < narrow < 2.0 * exact and error > narrow,
            f"mean sd {narrow:.4f} against {exact:.4f} of the true posterior; root mean square error of plug-in means "
            f"{error:.4f}",
        ),
    ]


def _curves(at: str, case: EstimationCase, sizes: list[int], own: Results) -> list[Claim]:
    laplace, sampled = ([own.one(n=n, method=method) for n in sizes] for method in ("laplace-paper", "ops"))
    exact = [own.one(n=n, method="non-private").measure("l1") for n in sizes]
    lower, clear = set(), set()
    for n, of_noise, of_sampler in zip(sizes, laplace, sampled, strict=True):
        difference = mean_difference(of_noise.trials["l1"], of_sampler.trials["l1"])
        lower |= {n} if difference.value < 0.0 else set()
        clear |= {n} if difference.sign(_CLEAR) < 0 else set()
    first, clearly = (next((n for n in sizes if {m for m in sizes if m >= n} <= them), None) for them in (lower, clear))
    errors = "; ".join(
        f"{noise.measure('l1'):.4f} against {sampler.measure('l1'):.4f} at n = {n}"
        for n, noise, sampler in zip(sizes, laplace, sampled, strict=True)
        if n in {sizes[0], first, clearly, sizes[-1]}
    )
    last, of_last = sizes[-1], laplace[-1].measure("l1")
    step, error = case.step("ops", sampled[-1]["epsilon"], last), sampled[-1].measure("l1")
    power = 1.0 if step is None else float(require_type(step.law, ScalarSampler).likelihood_power)
    equal = float(np.exp(np.interp(-np.log(error), -np.log(exact), np.log(sizes))))
    expected = 2.0 * last / (1.0 + 1.0 / power)  # a draw has twice the posterior's variance; under T, 1 + 1 / T times
    return [
        Claim(
            ERRORS,
            f"{at}: one posterior draw has the lower error only at small n, up to about {_PAPER_N}; at larger n, "
            "Laplace noise gives the lower error.",
            clearly is not None and _PAPER_N / _FACTOR <= clearly <= _PAPER_N * _FACTOR,
            f"Laplace noise has the lower L1 error from n = {first or 'infinity'} on, and by {_CLEAR:g} standard "
            f"errors from n = {clearly or 'infinity'} on; L1 errors under Laplace noise and of one draw: {errors}",
            _PRIOR,
        ),
        Claim(
            ERRORS,
            f"{at}: as n grows, the error under Laplace noise converges to the error of the true posterior.",
            of_last < (1.0 + _CLOSE) * exact[-1],
            f"L1 error {of_last:.5f} against {exact[-1]:.5f} of the true posterior at n = {last}, a ratio of "
            f"{of_last / exact[-1]:.2f}",
        ),
        Claim(
            ERRORS,
            f"{at}: one draw of the tempered posterior errs like a draw of the true posterior of fewer records.",
            expected / _ROUGHLY <= equal <= expected * _ROUGHLY and equal < 0.5 * last,
            f"a draw has the L1 error {error:.4f} at n = {last}, and a draw of the true posterior has this error at n "
            f"= {equal:.4g}; asymptotic theory gives 2 * n / (1 + 1 / T) = {expected:.4g} for the likelihood power T "
            f"= {power:.4f}",
            "The error of the true posterior is interpolated between the study's values of n.",
        ),
    ]


def _improves(at: str, says: str, first: str, second: str, sizes: list[int], own: Results) -> Claim:
    """Claim that one method's posterior means have smaller errors than another's, compared trial by trial."""
    worse, better, gains = [], [], {}
    for n in sizes:
        pair = [own.one(n=n, method=method).trials["l1_mean"] for method in (first, second)]
        gains[n], error = mean_difference(*pair)
        clear = max(_CLEAR * error, _NEGLIGIBLE * float(np.mean(pair[1])))
        worse += [n] if gains[n] > clear else []
        better += [n] if gains[n] < -clear else []
    most = min(gains, key=lambda n: gains[n])
    errors = (f"{own.one(n=most, method=method).measure('l1_mean'):.3f} of `{method}`" for method in (first, second))
    lower, higher = (", ".join(map(str, some)) or "none" for some in (better, worse))
    return Claim(
        OURS,
        f"{at}: {says}.",
        bool(better) and not worse,
        f"L1 error of the posterior mean at n = {most}: {', '.join(errors)}; the first is clearly lower at these n: "
        f"{lower}; it is clearly higher at these n: {higher}",
        "At small n the noise-aware posterior mean stays near the prior mean. A negative noisy count is plugged in "
        "as zero, which happens to be near the true probability of this study."
        if worse
        else "",
    )


def _charge(at: str, own: Results) -> Claim:
    known = [each for each in own if each.measure("rdp_2") < each.measure("rdp_2_bound")]
    shown = (
        f"{e.measure('rdp_2'):.3g} against the bound {e.measure('rdp_2_bound'):.3g} at n = {e['n']}" for e in known
    )
    return Claim(
        OURS,
        f"{at}: the exact Renyi divergence of one posterior draw is below the bound that epsilon alone implies.",
        bool(known),
        f"divergence of order 2: {'; '.join(shown) or 'computed exactly at no n'}",
        "At larger n the exact curve takes too long to compute, and the bound is charged."
        if len(known) < len(own)
        else "",
    )
