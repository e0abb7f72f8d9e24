"""Estimation: the error of estimating a probability of success from a release, by the number of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta
from scipy import stats

from dpbayes_cli.base.numeric import Floats, Integers, normalize
from dpbayes_cli.core.plan import Step
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.plots import Plot, label_axes, stamped_panels
from dpbayes_cli.experiments.results import CLEAR, OURS, Claim, Comparison, GridPoint, PointOutcome, Result, Results
from dpbayes_cli.experiments.study import COMPLETE, DROPPED, CoinCase, SimulatedStudy, plan_release, with_errors
from dpbayes_cli.inference.counts.beta_mixture import BetaMixture, beta_mixture
from dpbayes_cli.inference.naive import naive_shape
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler
from dpbayes_cli.mechanisms.samplers.simulated_draws import simulate_sampler
from dpbayes_cli.privacy.kinds import BoundedRange

Method = Literal["non-private", "laplace-paper", "laplace-naive", "laplace", "ops"]
Trials = dict[str, "Floats"]
"""Arrays with one number per trial, by name, such as a ``draw`` and the ``mean`` and ``sd`` of the posterior."""

POSTERIORS, ERRORS = "[F] Figure 1", "[F] Figure 2"
_PAPER_N, _FACTOR = 10, 3.0
"""The paper's limit on n below which posterior draws are better; and the factor by which the limit here may differ."""
_CLOSE, _ROUGHLY = 0.1, 1.5
"""Errors count as close up to this relative difference, and numbers of records as about equal up to this ratio."""
_COMPARISONS = (
    Comparison(OURS, "laplace-naive", "laplace-paper",
               "plug-in inference estimates better from one noisy count than from two", never=1, some=-1),
    Comparison(OURS, "laplace", "laplace-naive", "noise-aware inference estimates better than plug-in inference",
               "At small n the noise-aware posterior mean stays near the prior mean. A negative noisy count is plugged "
               "in as zero, which happens to be near the true probability of this study.", never=1, some=-1),
)  # fmt: skip


class EstimationCase(CoinCase, frozen=True, kw_only=True):
    """A true probability of success, a prior for it, and the numbers of records to study."""

    theta: Annotated[float, Meta(gt=0, lt=1, description="the true probability of success")]
    n: Annotated[tuple[Annotated[int, Meta(ge=1, le=10_000_000)], ...], Meta(min_length=1)]
    support: Annotated[tuple[float, float], Meta(description="for ops only: the public range of the parameter")]
    epsilon: Annotated[tuple[str, ...], Meta(description="the epsilons of this case, in place of the study's")] = ()
    densities: Annotated[int, Meta(ge=0, le=1000, description="number of releases whose posteriors are plotted")] = 0

    def step(self, method: str, epsilon: str | None, n_records: int) -> Step | None:
        """Return the calibrated step of a method's release; None for the non-private method, which has no epsilon.

        The method ``laplace-paper`` releases the numbers of successes and failures. Other methods release the number of
        successes only.
        """
        if epsilon is None:
            return None
        options: dict[str, Any] = {"epsilon": Decimal(epsilon)}
        if method == "ops":
            options |= {"power_applies_to": "joint", "support": self.support}
        name, policy = "ops" if method == "ops" else "laplace", DROPPED if method == "laplace-paper" else COMPLETE
        return plan_release(name, self.model, policy, n_records, **options).steps[0]

    def posterior(self, step: Step, released: int, n_records: int) -> BetaMixture:
        return beta_mixture(self.model.observation(COMPLETE, (released,), step.noise, n_records))


class Estimation(SimulatedStudy, frozen=True, kw_only=True):
    """The error of estimating a probability of success by one posterior draw, or by the posterior mean.

    All methods and epsilons use the same records. `laplace-paper`: the numbers of successes and failures with Laplace
    noise; negative counts become zero, and inference treats the counts as exact. `laplace-naive`: plug-in inference
    from the number of successes alone, which has half the sensitivity. `laplace`: noise-aware inference from the same
    noisy number. `ops`: one draw of a tempered posterior, restricted to `support` and computed in floats.

    Source: Foulds et al. 2016, sec. 3.2, Fig. 1 and 2.
    """

    study: Literal["estimation"]
    draws: Annotated[int, Meta(ge=1, le=1)] = 1
    trials: Annotated[int, Meta(ge=2, le=100_000)] = 1000
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, EstimationCase], Meta(min_length=1)]

    columns = ("case", "n", "epsilon", "method")
    measures = (*with_errors("l1", "l1_mean"), "sd", "charged", "rdp_2", "rdp_2_bound")
    by_trial = ("draw", "l1", "mean", "l1_mean", "released")
    shown = ("case", "n", "epsilon", "method", "l1", "l1_se", "l1_mean", "sd", "rdp_2")
    plots: ClassVar = {
        "l1": Plot("L1 error of one draw (solid) and of posterior means (dashed)", "l1", "n", ("case", "epsilon"),
                   dashed="l1_mean", scales="log log"),
        "charge": Plot("Renyi divergence of order 2 of one posterior draw (solid), and its bound (dashed)", "rdp_2",
                       "n", ("case", "epsilon"), dashed="rdp_2_bound", scales="log log"),
    }  # fmt: skip
    legend = (
        "`l1`: mean absolute error of one posterior draw. `l1_mean`: mean absolute error of the posterior mean. One "
        "standard error follows each of the two. `sd`: mean standard deviation of the posteriors. `rdp_2`: Renyi "
        "divergence of order 2 that a release costs. `rdp_2_bound`: its bound from epsilon alone."
    )

    def grid(self) -> list[GridPoint]:
        grid = []
        for name, case in self.cases.items():
            prices = list(self.prices_and_methods(case.epsilon or self.epsilon, self.methods, "non-private"))
            for n in case.n:
                data = {"theta": case.theta, "n_records": n, "trials": self.trials, "seed": self.seed}
                for epsilon, method in prices:
                    place = {"case": name, "n": n, "epsilon": epsilon, "method": method}
                    support = list(case.support) if method == "ops" else None
                    prior = {"alpha": case.alpha, "beta": case.beta, "support": support}
                    grid.append(self.point(place, data, {**prior, "epsilon": epsilon, "method": method}))
        return grid

    def run(self, point: GridPoint) -> PointOutcome:
        case, n = self.cases[point.case], point["n"]
        records, noise = (np.random.default_rng(seed) for seed in point.data_seed().spawn(2))
        successes = records.binomial(n, case.theta, self.trials)
        step, rng = case.step(point["method"], point["epsilon"], n), np.random.default_rng(point.inference_seed())
        trials = _estimates(case, point, step, successes, noise, rng)
        sd = float(trials.pop("sd").mean())
        estimates = {"l1": "draw", "l1_mean": "mean"}
        trials |= {error: np.abs(trials[name] - case.theta) for error, name in estimates.items() if name in trials}
        return PointOutcome.averaged(trials, ("l1", "l1_mean"), sd=sd, **_costs(step))

    def figures(self, results: Results) -> dict[str, Any]:
        curves = Results(each for each in results if len(self.cases[each["case"]].n) > 1)
        lines = {"l1": curves, "charge": curves.where(method="ops")}
        figures = {name: self.plots[name].figure(own) for name, own in lines.items() if own}
        drawn = (name for name, case in self.cases.items() if case.densities)
        return {**figures, **{f"posteriors-{name}": self._posteriors(name, results) for name in drawn}}

    def _posteriors(self, name: str, results: Results) -> Any:
        """Plot the posteriors of each method's first releases, and the true posterior of the expected count."""
        case = self.cases[name]
        n, epsilon = case.n[0], (case.epsilon or self.epsilon)[0]
        theta, successes = np.linspace(0.002, 0.998, 499), round(n * case.theta)
        true = stats.beta.pdf(theta, case.alpha + successes, case.beta + n - successes)

        def draw(axes: Any, method: str) -> None:
            result = results.one(case=name, n=n, epsilon=epsilon, method=method)
            for density in _densities(case, result, theta, successes):
                axes.plot(theta, density, color="tab:blue", linewidth=0.5, alpha=0.6)
            axes.plot(theta, true, color="0.2", label="true posterior of the expected count")
            axes.axvline(case.theta, color="0.2", linewidth=0.8, linestyle=":", label="theta")
            label_axes(axes, method, "theta", scales="linear linear")

        panels = [(method,) for method in self.methods if method != "non-private"]
        title = f"Posteriors of {case.densities} releases, {name}, n {n}, epsilon {epsilon}"
        return stamped_panels(panels, min(len(panels), 4), draw, title)

    def claims(self, results: Results) -> Iterator[Claim]:
        for name, case in self.cases.items():
            for epsilon in case.epsilon or self.epsilon:
                own, at = results.where(case=name).at(epsilon=epsilon), f"{name}, epsilon {epsilon}"
                by_n = sorted(own, key=lambda each: each["n"])
                by_method = {method: Results(by_n).where(method=method) for method in own.values("method")}
                if {"non-private", "ops", "laplace-paper"} <= set(self.methods):
                    yield from (_curves if len(case.n) > 1 else _shapes)(at, case, by_method)
                for comparison in _COMPARISONS if len(case.n) > 1 else ():
                    yield from comparison.claims(at, own, "l1_mean")


def _estimates(
    case: EstimationCase, point: GridPoint, step: Step | None, successes: Integers, noise: Any, rng: Any
) -> Trials:
    """Simulate a release in each trial, and return draws, means and sds of its posteriors."""
    n, method = point["n"], point["method"]
    if step is None:
        return _of_betas(np.column_stack([case.alpha + successes, case.beta + n - successes]), rng)
    if method == "ops":

        def sampled(value: int, size: int) -> Mapping[str, Any]:
            draws = simulate_sampler(step.sampler, (value,), size, rng)[:, 0]
            return {"draw": draws, "sd": step.sampler.moments((value,))[1]}

        return _by_value(successes, sampled)
    counts = np.column_stack([successes, n - successes])[:, : 2 if method == "laplace-paper" else 1]
    released = counts + step.noise.simulate(noise, counts.shape)
    if method == "laplace":

        def inferred(value: int, size: int) -> Mapping[str, Any]:
            law = case.posterior(step, value, n)
            return {"draw": law.draw(size, rng), "mean": law.mean, "sd": sum(law.variances) ** 0.5}

        trials = _by_value(released[:, 0], inferred)
    else:
        policy = DROPPED if method == "laplace-paper" else COMPLETE
        observed = (case.model.observation(policy, row, step.noise, n) for row in released.tolist())
        shapes = np.array([naive_shape(each) for each in observed])
        trials = {**_of_betas(shapes, rng), "shape_total": shapes.sum(axis=1)}
    return {**trials, "released": released[:, 0].astype(np.float64)}


def _by_value(values: Integers, compute: Callable[[int, int], Mapping[str, Any]]) -> Trials:
    """Call ``compute`` with each distinct value and its number of trials; return results in the order of trials."""
    trials: Trials = {}
    for value in np.unique(values):
        at = values == value
        for name, numbers in compute(int(value), int(at.sum())).items():
            trials.setdefault(name, np.empty(len(values)))[at] = numbers
    return trials


def _of_betas(shapes: Floats, rng: np.random.Generator) -> Trials:
    first, second = np.asarray(shapes, dtype=np.float64).T
    total = first + second
    mean = np.asarray(first / total)
    sd = np.asarray(np.sqrt(mean * (1.0 - mean) / (total + 1.0)))
    return {"draw": rng.beta(first, second), "mean": mean, "sd": sd}


def _costs(step: Step | None) -> dict[str, float | None]:
    """Return a release's epsilon, its Renyi divergence of order 2, and the bound on the divergence by epsilon alone."""
    if step is None:
        return {"charged": None, "rdp_2": None, "rdp_2_bound": None}
    guarantee = step.guarantee
    by_epsilon = replace(guarantee, points=()) if isinstance(guarantee, BoundedRange) else guarantee.former
    exact, bound = (float(each.rdp(Decimal(2))) for each in (guarantee, by_epsilon))
    return {"charged": float(guarantee.epsilon), "rdp_2": exact, "rdp_2_bound": bound}


def _densities(case: EstimationCase, result: Result, theta: Floats, successes: int) -> list[Floats]:
    """Return densities at ``theta``: of one posterior per release, or for ``ops`` of the posterior of ``successes``."""
    n, method = result["n"], result["method"]
    step = case.step(method, result["epsilon"], n)
    if step is not None and method == "ops":
        law = require_type(step.law, ScalarSampler)
        masses = normalize(law.logs((successes,)))
        return [np.interp(theta, law.cells, masses / masses.mean() / (law.support[1] - law.support[0]), 0.0, 0.0)]
    if step is not None and method == "laplace":
        released = result.trials["released"][: case.densities]
        return [case.posterior(step, int(value), n).pdf(theta) for value in released]
    pairs = zip(result.trials["mean"][: case.densities], result.trials["shape_total"], strict=False)
    return [stats.beta.pdf(theta, mean * total, (1.0 - mean) * total) for mean, total in pairs]


def _shapes(at: str, case: EstimationCase, by_method: Mapping[str, Results]) -> Iterator[Claim]:
    results = [by_method[method][0] for method in ("non-private", "ops", "laplace-paper")]
    exact, flat, narrow = (each.measure("sd") for each in results)
    error = float(np.sqrt(((np.array(results[2].trials["mean"]) - case.theta) ** 2).mean()))
    yield Claim(
        POSTERIORS,
        f"{at}: the tempered posterior is truncated and flatter than the true one.",
        flat > exact,
        f"sd {flat:.4f} against {exact:.4f} of the true posterior at n = {results[0]['n']}",
    )
    yield Claim(
        POSTERIORS,
        f"{at}: plug-in posteriors of noisy counts are about as narrow as the true one, but the noise shifts them.",
        0.5 * exact < narrow < 2.0 * exact and error > narrow,
        f"mean sd {narrow:.4f} against {exact:.4f} of the true posterior; root mean square error {error:.4f}",
    )


def _curves(at: str, case: EstimationCase, by_method: Mapping[str, Results]) -> Iterator[Claim]:
    laplace, sampled = by_method["laplace-paper"], by_method["ops"]
    sizes, exact = [each["n"] for each in laplace], [each.measure("l1") for each in by_method["non-private"]]
    gaps = list(Results([*laplace, *sampled]).differences("laplace-paper", "ops", "l1").values())
    signs = [[gap.sign(clear) for gap in gaps] for clear in (0.0, CLEAR)]
    # the smallest n from which on all signs are negative
    first, clearly = (next((n for i, n in enumerate(sizes) if max(each[i:]) < 0), float("inf")) for each in signs)
    yield Claim(
        ERRORS,
        f"{at}: one posterior draw has the lower error only at small n, up to about {_PAPER_N}; at larger n, Laplace "
        "noise gives the lower error.",
        _PAPER_N / _FACTOR <= clearly <= _PAPER_N * _FACTOR,
        f"Laplace noise has the lower L1 error from n = {first} on, and by {CLEAR:g} standard errors from n = "
        f"{clearly} on; its error minus that of a draw: {gaps[0]} at n = {sizes[0]}, {gaps[-1]} at n = {sizes[-1]}",
        "The paper does not state its prior, on which the errors at the smallest n depend.",
    )
    last, of_last = sizes[-1], laplace[-1].measure("l1")
    yield Claim(
        ERRORS,
        f"{at}: as n grows, the error under Laplace noise converges to the error of the true posterior.",
        of_last < (1.0 + _CLOSE) * exact[-1],
        f"L1 error {of_last:.5f} against {exact[-1]:.5f} of the true posterior at n = {last}",
    )
    step, error = case.step("ops", sampled[-1]["epsilon"], last), sampled[-1].measure("l1")
    power = 1.0 if step is None else float(require_type(step.law, ScalarSampler).likelihood_power)
    equal = float(np.exp(np.interp(-np.log(error), -np.log(exact), np.log(sizes))))
    expected = 2.0 * last / (1.0 + 1.0 / power)  # a draw errs by 2 posterior variances; under the power T, by 1 + 1 / T
    yield Claim(
        ERRORS,
        f"{at}: one draw of the tempered posterior has the error of a draw of the true posterior given fewer records.",
        expected / _ROUGHLY <= equal <= expected * _ROUGHLY and equal < 0.5 * last,
        f"a draw at n = {last} has the L1 error {error:.4f}, as a draw of the true posterior at n = {equal:.4g}; "
        f"asymptotic theory gives 2 * n / (1 + 1 / T) = {expected:.4g} for the likelihood power T = {power:.4f}",
    )
    known = [each for each in sampled if each.measure("rdp_2") < each.measure("rdp_2_bound")]
    numbers = [f"{e.measure('rdp_2'):.3g} < {e.measure('rdp_2_bound'):.3g} at n = {e['n']}" for e in known]
    yield Claim(
        OURS,
        f"{at}: the exact Renyi divergence of one posterior draw is below the bound that epsilon alone implies.",
        bool(known),
        f"divergence of order 2: {'; '.join(numbers) or 'computed exactly at no n'}",
    )
