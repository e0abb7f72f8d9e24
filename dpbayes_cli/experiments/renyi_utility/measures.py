"""What a release is worth: its law as a mixture of Beta laws, its distance to the true posterior, its prediction.

Given exactly s successes of n records every release is a mixture of Beta laws: of one, where a posterior is drawn from;
of those of all counts s', where noise is added: the noise that turns s into y, times how far y speaks for s'. So the
Kullback-Leibler divergence is an integral in one dimension, and the mean and the variance of a log-likelihood have
closed forms. The paper simulates 10,000 trials.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats

from dpbayes_cli.base.numeric import normalized_rows
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.experiments.coin import COMPLETE
from dpbayes_cli.experiments.renyi_utility.cell import UtilityCell
from dpbayes_cli.experiments.renyi_utility.study import UtilityCase
from dpbayes_cli.inference.counts.count_windows import prior_term
from dpbayes_cli.inference.naive import naive_shape
from dpbayes_cli.mechanisms.samplers.renyi_posterior import largest_parameter
from dpbayes_cli.privacy.kinds import PureDP

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.core.plan import Plan
    from dpbayes_cli.privacy.noise import NoiseLaw

_NATS = 40.0
"""Noise is summed until its probability is below exp(-40) of its largest."""
_NODES = 4000
_ROWS = 1 << 13
_LARGEST_PURE = 60.0
"""Of Laplace noise: a larger epsilon adds nothing."""


def measure(cell: UtilityCell) -> dict[str, float | None]:
    """Return the measures of a cell.

    ``kl`` is the divergence of the release's law from the true posterior of the case's data; ``nll`` the mean negative
    log-likelihood of held-out records under one draw, over data and held-out records; ``nll_sd`` its sd. ``cost`` is
    the divergence between neighbors at the order, None where it is infinite or the price was met by calibration;
    ``parameter`` is r, m, or the scale of the noise.
    """
    case, plan = cell.case, plan_of(cell)
    counts = np.arange(case.n + 1)
    if cell.method.startswith("rdp-"):
        r, m = (1.0, 1.0) if plan is None else (float(plan.parameters[name]) for name in ("r", "m"))
        first, second = case.alpha / m + r * counts, case.beta / m + r * (case.n - counts)
        mixing = np.eye(case.n + 1)
        parameter = m if cell.method == "rdp-concentrated" else r
    else:
        first, second = case.alpha + counts, case.beta + case.n - counts
        noise = _noise(plan)
        aware = cell.method in {"gaussian", "laplace"}
        mixing, parameter = mixing_of(noise, case, aware=aware), noise.scale
    shapes = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    mean, sd = log_loss(case, mixing, *shapes)
    return {
        "parameter": parameter,
        "cost": _cost(cell),
        "kl": divergence(case, mixing[case.successes], *shapes),
        "nll": mean,
        "nll_sd": sd,
    }


def plan_of(cell: UtilityCell) -> Plan | None:
    """Return the calibrated plan of a release that costs epsilon at the order; None for the true posterior.

    Raises:
        SpecError: the price cannot be met.
    """
    if cell.method == "rdp-direct" or cell.epsilon is None:
        return None
    order, epsilon = Decimal(cell.order), Decimal(cell.epsilon)
    mechanism, model = (
        mechanism_type("gaussian" if cell.method.startswith("gaussian") else cell.method),
        cell.case.model,
    )
    if cell.method.startswith("rdp-"):
        asked = {"order": order, "epsilon": epsilon}
    elif cell.method == "laplace":
        asked = {"epsilon": _pure(order, epsilon)}
    else:  # order rho; the paper charges twice that
        asked = {"rho": epsilon / order / (2 if cell.method == "gaussian-paper" else 1)}
    return mechanism().plan(model, COMPLETE, mechanism.options_for(type(model))(**asked), cell.case.n)


def _pure(order: Decimal, epsilon: Decimal) -> Decimal:
    """Return the pure epsilon whose Renyi divergence at an order is at most a price."""
    largest = Decimal(_LARGEST_PURE)

    def pure(share: float) -> Decimal:
        return max(Decimal(share) * largest, Decimal("1e-12"))

    return pure(largest_parameter(lambda share: PureDP(pure(share)).rdp(order), epsilon))


def _cost(cell: UtilityCell) -> float | None:
    if cell.method != "rdp-direct":
        return None
    cost = cell.case.model.family(cell.case.n).divergence(float(cell.order), 1.0, 1.0)
    return cost if math.isfinite(cost) else None


def _noise(plan: Plan | None) -> NoiseLaw:
    if plan is None:
        raise TypeError("a release with noise has a plan")
    (step,) = plan.steps
    return step.noise


def mixing_of(noise: NoiseLaw, case: UtilityCase, *, aware: bool) -> Floats:
    """Return the weights of the posteriors of all counts, by the exact count: one row each, shape (n + 1, n + 1).

    Summed over all noisy counts y: P(y given s) times the weight of s' given y.

    Args:
        noise: the law of the noise.
        case: the prior and the number of records.
        aware: whether the posterior knows the noise; else y is projected on the possible counts and taken for true.
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
            mixing += np.exp(log_pmf).T @ normalized_rows(log_prior + log_pmf)
        else:
            shapes = [naive_shape(replace(observation, observed=(int(y), None)))[0] for y in seen]
            np.add.at(mixing.T, np.rint(np.array(shapes) - case.alpha).astype(int), np.exp(log_pmf))
    return np.asarray(mixing / mixing.sum(axis=1, keepdims=True))


def divergence(case: UtilityCase, weights: Floats, first: Floats, second: Floats) -> float:
    """Return the Kullback-Leibler divergence of a mixture of Beta laws from the true posterior of the case's data.

    Args:
        case: the prior and the data.
        weights: of the components, shape (n_components,).
        first, second: their shapes.
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
    """Return the Kullback-Leibler divergence of Beta(other_a, other_b) from Beta(a, b)."""
    total = special.digamma(a + b)
    return float(
        special.betaln(other_a, other_b)
        - special.betaln(a, b)
        + (a - other_a) * (special.digamma(a) - total)
        + (b - other_b) * (special.digamma(b) - total)
    )


def log_loss(case: UtilityCase, mixing: Floats, first: Floats, second: Floats) -> tuple[float, float]:
    """Return mean and sd of the negative log-likelihood of held-out records under one draw.

    Data and held-out records are drawn from ``theta``; the draw is from the mixture that the data lead to.

    Args:
        case: the prior and theta.
        mixing: the weights of components given the exact count, shape (n + 1, n_components).
        first, second: the components' shapes.
    """
    weights = stats.binom.pmf(np.arange(case.n + 1), case.n, case.theta) @ mixing
    total = first + second
    means = [special.digamma(shape) - special.digamma(total) for shape in (first, second)]
    shared = special.polygamma(1, total)
    squares = [
        special.polygamma(1, shape) - shared + mean**2 for shape, mean in zip((first, second), means, strict=True)
    ]
    product = means[0] * means[1] - shared
    expected = case.n * case.theta
    spread = expected * (1.0 - case.theta)
    k_squared, other = spread + expected**2, case.n - expected
    mean = -(weights @ (expected * means[0] + other * means[1]))
    second_moment = weights @ (
        k_squared * squares[0] + 2.0 * (case.n * expected - k_squared) * product + (spread + other**2) * squares[1]
    )
    return float(mean), math.sqrt(max(0.0, float(second_moment - mean**2)))
