"""Utility at equal Renyi cost: how far releases are from the true posterior, and how well they predict."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Annotated, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta
from scipy import special, stats

from dpbayes_cli.base.numeric import Floats, normalize_rows
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.experiments.plots import Plot
from dpbayes_cli.experiments.results import OURS, Claim, GridPoint, PointOutcome, Results
from dpbayes_cli.experiments.study import COMPLETE, CoinCase, Study, plan_release
from dpbayes_cli.inference.counts.count_windows import prior_term
from dpbayes_cli.inference.naive import naive_shape
from dpbayes_cli.mechanisms.samplers.renyi_posterior import largest_parameter
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.noise import NoiseLaw
from dpbayes_cli.spec.convert_section import Exact

Method = Literal[
    "rdp-direct", "rdp-diffuse", "rdp-concentrated", "gaussian-paper", "gaussian-naive", "gaussian", "laplace"
]

SOURCE = "[G] Figure 2"
_ROUNDING, _SMALL_DIVERGENCE = 1e-9, 0.01
"""A divergence below the first number counts as exactly zero, and below the second number as nearly zero."""
_MAX_PURE_EPSILON = Decimal(60)
"""The largest pure epsilon that is tried for Laplace noise. At this epsilon the noise is nearly always zero."""
_NATS = 40.0  # sums over the noise leave out values that are less probable than exp(-40) times the most probable one
_NODES = 4000
_ROWS = 1 << 13
_WEIGHTED = ("rdp-diffuse", "rdp-concentrated")
_IMPROVEMENTS = (
    ("noise calibrated to the true cost", "gaussian-naive", "gaussian-paper"),
    ("noise-aware inference", "gaussian", "gaussian-naive"),
)


class UtilityCase(CoinCase, frozen=True, kw_only=True):
    """A Beta prior; one data set, for divergences; and a true probability of success, for expected log losses."""

    n: Annotated[int, Meta(ge=1, le=1000, description="number of records to learn from, and of held-out records")]
    successes: Annotated[int, Meta(ge=0, description="successes in the data set for which divergences are computed")]
    theta: Annotated[float, Meta(gt=0, lt=1, description="true probability of success, for expected log losses")] = 0.5

    def __post_init__(self) -> None:
        if self.successes > self.n:
            raise ValueError(f"successes is {self.successes}; expected at most n = {self.n}")


class RenyiUtility(Study, frozen=True, kw_only=True):
    """The utility of releases about a binary outcome at equal cost: `epsilon` is their Renyi divergence at an order.

    Expectations are computed, not simulated. Given the exact count, one posterior draw follows a mixture of Beta laws.
    If the draw is released, the mixture has one component. If a noisy count is released, the mixture has one component
    for each possible count.

    `rdp-diffuse` (Algorithm 2 of the paper): one draw of a posterior in which the data count for less.
    `rdp-concentrated` (Algorithm 3): one draw of a posterior in which the prior counts for more. `rdp-direct`: one draw
    of the true posterior. `gaussian-naive`: a count with Gaussian noise; a negative count becomes zero, and inference
    treats it as exact. `gaussian-paper`: like `gaussian-naive`, with the noise of the paper, which charges twice the
    true cost. `gaussian`, `laplace`: noise-aware inference from a count with Gaussian or Laplace noise. The Laplace
    noise has the largest pure epsilon whose Renyi divergence is at most the stated cost.

    Source: Geumlek, Song and Chaudhuri 2017, sec. 5.1 and Fig. 2.
    """

    study: Literal["renyi-utility"]
    orders: Annotated[tuple[Exact, ...], Meta(min_length=1, description="orders of Renyi divergence")]
    epsilon: Annotated[tuple[Exact, ...], Meta(min_length=1, description="costs at each order")]
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, UtilityCase], Meta(min_length=1)]

    exact: ClassVar = {"orders": ("1", "256")}
    columns = ("case", "order", "epsilon", "method")
    measures = ("parameter", "cost", "kl", "nll", "nll_sd")
    unit = ""
    shown = ("case", "order", "epsilon", "method", "parameter", "kl", "nll", "nll_sd")
    plots: ClassVar = {
        "kl": Plot("KL divergence of releases from the true posterior", "kl", "epsilon", ("case", "order"),
                   across="rdp-direct", y_limits=(-0.02, 0.7)),
        "log-likelihood": Plot("Negative log-likelihood of held-out records under one draw", "nll", "epsilon",
                               ("case", "order"), across="rdp-direct"),
    }  # fmt: skip
    legend = (
        "`kl`: KL divergence of the law of one draw from the true posterior, averaged over the noise. `nll`, `nll_sd`: "
        "mean and standard deviation of the negative log-likelihood of n held-out records under one draw. `parameter`: "
        "the power r of the likelihood, the divisor m of the prior's parameters, or the scale of the noise. `cost`: of "
        "`rdp-direct`, the Renyi divergence; empty if it is infinite."
    )

    def grid(self) -> list[GridPoint]:
        places = (
            (name, {"order": order, "epsilon": epsilon, "method": method})
            for name, order in product(self.cases, self.orders)
            for epsilon, method in self.prices_and_methods(self.epsilon, self.methods, "rdp-direct")
        )
        data = {name: msgspec.to_builtins(case) for name, case in self.cases.items()}
        return [self.point({"case": name, **place}, data[name], place) for name, place in places]

    def run(self, point: GridPoint) -> PointOutcome:
        case, method = self.cases[point.case], point["method"]
        plan = plan_of(case, method, point["order"], point["epsilon"])
        counts, cost = np.arange(case.n + 1), math.inf
        if plan is not None and not method.startswith("rdp-"):
            noise = plan.steps[0].noise
            mixing, parameter = mixing_of(noise, case, aware=method in {"gaussian", "laplace"}), noise.scale
            first, second = case.alpha + counts, case.beta + case.n - counts
        else:
            r, m = (1.0, 1.0) if plan is None else (float(plan.parameters[name]) for name in ("r", "m"))
            mixing, parameter = np.eye(case.n + 1), m if method == "rdp-concentrated" else r
            first, second = case.alpha / m + r * counts, case.beta / m + r * (case.n - counts)
        if plan is None:
            cost = case.model.family(case.n).divergence(float(point["order"]), 1.0, 1.0)
        shapes = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
        mean, sd = log_loss(case, mixing, *shapes)
        measures = {"parameter": parameter, "kl": divergence(case, mixing[case.successes], *shapes)}
        return PointOutcome({**measures, "nll": mean, "nll_sd": sd, "cost": cost if math.isfinite(cost) else None}, {})

    def claims(self, results: Results) -> Iterator[Claim]:
        for name, order in product(self.cases, self.orders):
            yield from self._claims(name, order, results)

    def _claims(self, name: str, order: str, results: Results) -> Iterator[Claim]:
        own = sorted(results.where(case=name, order=order), key=lambda each: each.point.epsilon)
        at, has, prices = f"{name}, order {order}", set(self.methods).issuperset, sorted(self.epsilon, key=float)
        kl, nll = (
            {str(m): np.array([e.measure(measure) for e in own if e["method"] == m]) for m in self.methods}
            for measure in ("kl", "nll")
        )
        if has(_WEIGHTED):
            low, high = (bound(*(kl[method] for method in _WEIGHTED)) for bound in (np.minimum, np.maximum))
            if has({"rdp-direct"}):
                (direct,) = (e for e in own if e["method"] == "rdp-direct")
                yield from _reached(at, direct.measures["cost"], prices, low, high)
            case = self.cases[name]
            posterior = case.alpha + case.successes, case.beta + case.n - case.successes
            prior = beta_divergence(*posterior, case.alpha, case.beta)
            diffuse, concentrated = (kl[method][0] for method in _WEIGHTED)
            yield Claim(
                SOURCE,
                f"{at}: as epsilon falls, Algorithm 2 approaches the prior, and Algorithm 3 a point mass far from it.",
                bool(abs(diffuse - prior) <= 0.05 * prior and concentrated > 2.0 * diffuse),
                f"divergence at epsilon {prices[0]}: {diffuse:.3f} for Algorithm 2, {concentrated:.3f} for Algorithm "
                f"3, {prior:.3f} for the prior",
            )
            diffuse, concentrated = (nll[method][0] for method in _WEIGHTED)
            yield Claim(
                SOURCE,
                f"{at}: at small epsilon held-out records favor Algorithm 3, which predicts by the mode of the prior.",
                bool(concentrated < diffuse),
                f"negative log-likelihood at epsilon {prices[0]}: {concentrated:.2f} against {diffuse:.2f}",
            )
        if has({"gaussian-paper"}):
            noisy = kl["gaussian-paper"]
            yield Claim(
                SOURCE,
                f"{at}: the Gaussian mechanism always adds noise, and approaches the true posterior as epsilon grows.",
                bool(0.0 < noisy[-1] < min(_SMALL_DIVERGENCE, noisy[0])),
                f"divergence {noisy[0]:.3f} at epsilon {prices[0]}, and {noisy[-1]:.2g} at epsilon {prices[-1]}",
            )
        for statement, first, second in _IMPROVEMENTS:
            if has({first, second}):
                yield _lowers(f"{at}: {statement} lowers the divergence", first, second, prices, kl)


def plan_of(case: UtilityCase, method: str, order: str, epsilon: str | None) -> Plan | None:
    """Return the calibrated plan of a release that costs epsilon at an order; None for the true posterior."""
    if method == "rdp-direct" or epsilon is None:
        return None
    at, price, model = Decimal(order), Decimal(epsilon), case.model
    mechanism = "gaussian" if method.startswith("gaussian") else method
    if method.startswith("rdp-"):
        options = {"order": at, "epsilon": price}
    elif method == "laplace":
        options = {"epsilon": _pure(at, price)}
    else:  # the divergence is order * rho; the paper charges twice as much
        options = {"rho": price / at / (2 if method == "gaussian-paper" else 1)}
    return plan_release(mechanism, model, COMPLETE, case.n, **options)


def _pure(order: Decimal, epsilon: Decimal) -> Decimal:
    """Return the largest pure epsilon whose Renyi divergence at an order is at most ``epsilon``."""

    def pure(share: float) -> Decimal:
        return max(Decimal(share) * _MAX_PURE_EPSILON, Decimal("1e-12"))

    return pure(largest_parameter(lambda share: PureDP(pure(share)).rdp(order), epsilon))


def _reached(at: str, cost: float | None, prices: list[str], low: Floats, high: Floats) -> Iterator[Claim]:
    """Claim the epsilon at which the divergences of Algorithms 2 and 3 reach zero; ``high`` is the larger one."""
    if cost is None:
        yield Claim(
            SOURCE,
            f"{at}, at which direct sampling costs infinitely much: Algorithms 2 and 3 do not reach divergence zero.",
            bool(low.min() > _SMALL_DIVERGENCE),
            f"smallest divergence at any epsilon up to {prices[-1]}: {low.min():.4f}",
        )
        return
    n_short = sum(float(price) < cost for price in prices)
    if 0 < n_short < len(prices):
        most, before = high[n_short:].max(), low[n_short - 1]
        yield Claim(
            SOURCE,
            f"{at}: Algorithms 2 and 3 reach divergence zero at the epsilon that direct sampling costs.",
            bool(most <= _ROUNDING < before),
            f"direct sampling costs {cost:.6f}; the divergence is at least {before:.2g} at epsilon "
            f"{prices[n_short - 1]}, and at most {most:.1g} from epsilon {prices[n_short]} on",
        )


def _lowers(says: str, first: str, second: str, prices: list[str], kl: dict[str, Floats]) -> Claim:
    """Claim that the first method's divergence is at no epsilon above the second method's."""
    decrease = kl[second] - kl[first]
    against = [price for price, each in zip(prices, decrease, strict=True) if each < -_ROUNDING]
    most = int(decrease.argmax())
    why = (
        "The noise shifts the posteriors of both methods, and also widens the posterior of `gaussian`, whose credible "
        "intervals are therefore right. The divergence of an averaged law does not measure this."
    )
    return Claim(
        OURS,
        f"{says} (`{first}` against `{second}`).",
        not against,
        f"largest decrease: {decrease[most]:.3f}, at epsilon {prices[most]}, to {kl[first][most]:.3f}; the divergence "
        f"is higher at these epsilons: {', '.join(against) or 'none'}",
        why if against and first == "gaussian" else "",
    )


def mixing_of(noise: NoiseLaw, case: UtilityCase, *, aware: bool) -> Floats:
    """Return the weights of a mixture of Beta posteriors for each exact count, shape (n + 1, n + 1).

    Row s is for the exact count s. Its entry s' is the weight of the posterior of the count s': the sum over noisy
    counts y of P(y | s) * P(s' | y). If ``aware``, P(s' | y) is the posterior probability of s' given the noisy count
    y. Otherwise P(s' | y) is 1 for the possible count s' that is closest to y.
    """
    model, counts = case.model, np.arange(case.n + 1)
    reach = noise.radius(_NATS)
    observation = model.observation(COMPLETE, (0,), noise, case.n)
    log_prior = prior_term(0, counts, observation) + prior_term(1, case.n - counts, observation)
    mixing = np.zeros((case.n + 1, case.n + 1))
    for start in range(-reach, case.n + reach + 1, _ROWS):
        seen = np.arange(start, min(start + _ROWS, case.n + reach + 1))
        log_pmf = noise.log_pmf(seen[:, None] - counts)
        if aware:
            mixing += np.exp(log_pmf).T @ normalize_rows(log_prior + log_pmf)
        else:
            shapes = [naive_shape(replace(observation, observed=(int(y), None)))[0] for y in seen]
            np.add.at(mixing.T, np.rint(np.array(shapes) - case.alpha).astype(int), np.exp(log_pmf))
    return np.asarray(mixing / mixing.sum(axis=1, keepdims=True))


def divergence(case: UtilityCase, weights: Floats, first: Floats, second: Floats) -> float:
    """Return the Kullback-Leibler divergence KL(p || q) of the case's true posterior p and a mixture q of Beta laws.

    ``weights``, ``first`` and ``second`` hold the weight and the two parameters of each law, shape (n_components,).
    """
    own = case.alpha + case.successes, case.beta + case.n - case.successes
    true = stats.beta(*own)
    kept = weights > 0.0
    if kept.sum() == 1:
        (a,), (b,) = first[kept], second[kept]
        return max(0.0, beta_divergence(*own, a, b))
    low, high = max(0.0, true.mean() - 14.0 * true.std()), min(1.0, true.mean() + 14.0 * true.std())
    nodes, measure_ = np.polynomial.legendre.leggauss(200)
    edges = np.linspace(low, high, _NODES // 200 + 1)
    half = (edges[1] - edges[0]) / 2.0
    theta = (edges[:-1, None] + half * (nodes + 1.0)).ravel()
    mass = np.tile(measure_ * half, len(edges) - 1)
    logs = np.log(weights[kept]) - special.betaln(first[kept], second[kept])
    terms = np.multiply.outer(np.log(theta), first[kept] - 1.0)
    terms += np.multiply.outer(np.log1p(-theta), second[kept] - 1.0)
    apart = true.logpdf(theta) - special.logsumexp(terms + logs, axis=1)
    return max(0.0, float(mass @ (true.pdf(theta) * apart)))


def beta_divergence(a: float, b: float, other_a: float, other_b: float) -> float:
    """Return the Kullback-Leibler divergence KL(p || q) of p = Beta(a, b) and q = Beta(other_a, other_b)."""
    total = special.digamma(a + b)
    return float(
        special.betaln(other_a, other_b)
        - special.betaln(a, b)
        + (a - other_a) * (special.digamma(a) - total)
        + (b - other_b) * (special.digamma(b) - total)
    )


def log_loss(case: UtilityCase, mixing: Floats, first: Floats, second: Floats) -> tuple[float, float]:
    """Return mean and standard deviation of the negative log-likelihood of held-out records under one posterior draw.

    Both are taken over data sets, held-out records and draws. ``mixing`` has the weights of the components for each
    exact count, shape (n + 1, n_components); ``first`` and ``second`` are their parameters.
    """
    weights = stats.binom.pmf(np.arange(case.n + 1), case.n, case.theta) @ mixing
    total = first + second
    means = [special.digamma(shape) - special.digamma(total) for shape in (first, second)]
    shared = special.polygamma(1, total)
    shapes = zip((first, second), means, strict=True)
    squares = [special.polygamma(1, shape) - shared + mean**2 for shape, mean in shapes]
    product = means[0] * means[1] - shared
    expected = case.n * case.theta
    spread = expected * (1.0 - case.theta)
    k_squared, other = spread + expected**2, case.n - expected
    mean = -(weights @ (expected * means[0] + other * means[1]))
    second_moment = weights @ (
        k_squared * squares[0] + 2.0 * (case.n * expected - k_squared) * product + (spread + other**2) * squares[1]
    )
    return float(mean), math.sqrt(max(0.0, float(second_moment - mean**2)))
