"""What Foulds et al. 2016 say of their Figures 1 and 2, and what a study of estimates measures."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.claims import OURS, Claim, listed
from dpbayes_cli.experiments.estimation.cell import EstimationCell
from dpbayes_cli.experiments.estimation.study import EstimationStudy, prices_of
from dpbayes_cli.experiments.estimation.trials import step_of
from dpbayes_cli.experiments.means import mean_difference
from dpbayes_cli.experiments.store import FinishedCell
from dpbayes_cli.experiments.tables import Results
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler

POSTERIORS, ERRORS = "[F] Figure 1", "[F] Figure 2"
CLEAR = 3.0
"""A difference of so many standard errors is called one."""
PAPER_N, ABOUT = 10, 3.0
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

_Found = Mapping[tuple[int, str | None, str], FinishedCell]


def claims(study: EstimationStudy, results: Results[EstimationCell]) -> list[Claim]:
    """Return the claims of Figures 1 and 2, case by case and price by price; see ``Kind.claims``."""
    made: list[Claim] = []
    held = set(study.methods)
    for name, case in study.cases.items():
        own = [(cell, result) for cell, result in results if cell.name == name]
        found = {(cell.n_records, cell.epsilon, str(cell.method)): result for cell, result in own}
        for epsilon in prices_of(study, case):
            at, sizes = f"{name}, epsilon {epsilon}", sorted(case.n)
            if len(sizes) == 1 and held.issuperset(("non-private", "ops", "laplace-paper")):
                made += _shapes(at, sizes[0], epsilon, found, case.theta)
            if len(sizes) > 1 and held.issuperset(("non-private", "ops", "laplace-paper")):
                made += [_overtakes(at, sizes, epsilon, found), _converges(at, sizes, epsilon, found)]
                sampled = [cell for cell, _ in own if cell.method == "ops" and cell.epsilon == epsilon]
                made.append(_fewer(at, sizes, found, sampled))
            for says, first, second in _IMPROVED:
                if len(sizes) > 1 and held.issuperset((first, second)):
                    made.append(_improves(at, says, first, second, sizes, epsilon, found))
            if len(sizes) > 1 and "ops" in held:
                made.append(_charge(at, sizes, epsilon, found))
    return made


def _value(found: _Found, place: tuple[int, str | None, str], measure: str = "l1") -> float:
    return float(str(found[place].measures[measure]))


def _shapes(at: str, n: int, epsilon: str, found: _Found, theta: float) -> list[Claim]:
    """The sampler's posterior is flat; noisy counts give posteriors that are narrow and in the wrong place."""
    exact = _value(found, (n, None, "non-private"), "sd")
    flat = _value(found, (n, epsilon, "ops"), "sd")
    narrow = _value(found, (n, epsilon, "laplace-paper"), "sd")
    means = np.array(found[n, epsilon, "laplace-paper"].trials["mean"])
    off = float(np.sqrt(((means - theta) ** 2).mean()))
    return [
        Claim(
            POSTERIORS,
            f"{at}: the tempered posterior is truncated and flatter than the true one.",
            flat > exact,
            f"sd {flat:.4f} against {exact:.4f} at n = {n}",
            _SETTING,
        ),
        Claim(
            POSTERIORS,
            f"{at}: posteriors of noisy counts are about as narrow as the true one, and scattered by the noise.",
            0.5 * exact < narrow < 2.0 * exact and off > narrow,
            f"mean sd {narrow:.4f} against {exact:.4f}; their means are {off:.4f} off (root mean square)",
        ),
    ]


def _overtakes(at: str, sizes: list[int], epsilon: str, found: _Found) -> Claim:
    """The smallest n from which on Laplace noise has the lower error, and from which on it clearly has."""
    lower, clear = set(), set()
    for n in sizes:
        pair = [found[n, epsilon, method].trials["l1"] for method in ("laplace-paper", "ops")]
        value, error = mean_difference(*pair)
        lower |= {n} if value < 0.0 else set()
        clear |= {n} if value < -CLEAR * error else set()
    first, clearly = (next((n for n in sizes if {m for m in sizes if m >= n} <= them), None) for them in (lower, clear))
    shown = [n for n in sizes if n in {sizes[0], first, clearly, sizes[-1]}]
    errors = "; ".join(
        f"n = {n}: {_value(found, (n, epsilon, 'laplace-paper')):.4f} against {_value(found, (n, epsilon, 'ops')):.4f}"
        for n in shown
    )
    return Claim(
        ERRORS,
        f"{at}: posterior samples are better only at small n (about {PAPER_N}); then Laplace noise overtakes them.",
        clearly is not None and PAPER_N / ABOUT <= clearly <= PAPER_N * ABOUT,
        f"Laplace noise has the lower L1 error from n = {first or 'nowhere'} on, by {CLEAR:g} standard errors from n = "
        f"{clearly or 'nowhere'} on; {errors}",
        _SETTING,
    )


def _converges(at: str, sizes: list[int], epsilon: str, found: _Found) -> Claim:
    """At the largest n, against the true posterior there."""
    n = sizes[-1]
    laplace, exact = _value(found, (n, epsilon, "laplace-paper")), _value(found, (n, None, "non-private"))
    return Claim(
        ERRORS,
        f"{at}: with n the error of Laplace noise converges to that of the true posterior.",
        laplace < (1.0 + _CLOSE) * exact,
        f"L1 error {laplace:.5f} against {exact:.5f} at n = {n}: {laplace / exact:.2f} times",
    )


def _fewer(at: str, sizes: list[int], found: _Found, sampled: list[EstimationCell]) -> Claim:
    """How many records the non-private posterior needs for the sampler's error, beside what the temperature leaves.

    Asymptotic relative efficiencies are 1 + 1 / T of a tempered draw, and 2 of a draw.
    """
    cell = max(sampled, key=lambda each: each.n_records)
    step = step_of(cell)
    power = 1.0 if step is None else float(require_type(step.law, ScalarSampler).likelihood_power)
    error = _value(found, (cell.n_records, cell.epsilon, "ops"))
    exact = [_value(found, (n, None, "non-private")) for n in sizes]
    equal = float(np.exp(np.interp(-np.log(error), -np.log(exact), np.log(sizes))))
    expected = 2.0 * cell.n_records / (1.0 + 1.0 / power)
    return Claim(
        ERRORS,
        f"{at}: posterior samples behave like the posterior of fewer records.",
        expected / _ROUGHLY <= equal <= expected * _ROUGHLY and equal < 0.5 * cell.n_records,
        f"at n = {cell.n_records} the L1 error {error:.4f} is that of the true posterior at n = {equal:.4g}; by the "
        f"asymptotic efficiency at the temperature T = {power:.4f}, 2 n / (1 + 1 / T) = {expected:.4g}",
        "The error of the true posterior is interpolated between sizes.",
    )


def _improves(at: str, says: str, first: str, second: str, sizes: list[int], epsilon: str, found: _Found) -> Claim:
    """By the errors of posterior means, trial by trial."""
    worse, better, gains = [], [], {}
    for n in sizes:
        pair = [found[n, epsilon, method].trials["l1_mean"] for method in (first, second)]
        gains[n], error = mean_difference(*pair)
        clear = max(CLEAR * error, _SLIGHT * float(np.mean(pair[1])))
        worse += [n] if gains[n] > clear else []
        better += [n] if gains[n] < -clear else []
    most = min(gains, key=lambda n: gains[n])
    of_means = {method: _value(found, (most, epsilon, method), "l1_mean") for method in (first, second)}
    shown = ", ".join(f"{value:.3f} of `{method}`" for method, value in of_means.items())
    return Claim(
        OURS,
        f"{at}: {says}.",
        bool(better) and not worse,
        f"L1 error of the posterior mean at n = {most}: {shown}; clearly lower at n = {listed(better)}, clearly higher "
        f"at n = {listed(worse)}",
        _CUT if worse else "",
    )


def _charge(at: str, sizes: list[int], epsilon: str, found: _Found) -> Claim:
    """Where the law is small enough for its curve to be computed."""
    pairs = {n: [_value(found, (n, epsilon, "ops"), key) for key in ("rdp_2", "rdp_2_bound")] for n in sizes}
    known = {n: pair for n, pair in pairs.items() if pair[0] < pair[1]}
    shown = "; ".join(f"n = {n}: {exact:.3g} against {bound:.3g}" for n, (exact, bound) in known.items())
    return Claim(
        OURS,
        f"{at}: the exact Renyi charge of a posterior sample is below what its range implies, where it is computed.",
        len(known) > 0,
        f"divergence of order 2: {shown or 'nowhere known'}",
        "Beyond, the curve takes too long to compute, and the bound is charged." if len(known) < len(sizes) else "",
    )
