"""Releases of a binary outcome as mixtures of Beta laws: divergence from the true posterior, and log loss."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta
from scipy import special, stats

from dpbayes_cli.base.numeric import normalized_rows
from dpbayes_cli.experiments.coin import COMPLETE, CoinCase
from dpbayes_cli.inference.counts.count_windows import prior_term
from dpbayes_cli.inference.naive import naive_shape

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.privacy.noise import NoiseLaw

_NATS = 40.0
"""Sums over the noise stop where its probability has fallen to exp(-40) times the largest one."""
_NODES = 4000
_ROWS = 1 << 13


class UtilityCase(CoinCase, frozen=True, kw_only=True):
    """A prior, data, and the true probability of success in other trials."""

    n: Annotated[int, Meta(ge=1, le=1000, description="number of records to learn from, and of held-out records")]
    successes: Annotated[int, Meta(ge=0, description="successes in the data whose posterior is compared")]
    theta: Annotated[float, Meta(gt=0, lt=1, description="probability of success of data and held-out records")] = 0.5

    def __post_init__(self) -> None:
        if self.successes > self.n:
            raise ValueError(f"there are {self.successes} successes in {self.n} records")


def mixing_of(noise: NoiseLaw, case: UtilityCase, *, aware: bool) -> Floats:
    """Return the weights of the posteriors of all counts s', given the exact count s, shape (n + 1, n + 1).

    A weight is the sum over noisy counts y of P(y | s) P(s' | y). If ``aware``, P(s' | y) is the posterior given the
    noise; otherwise y is projected on the possible counts and plugged in.
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
        weights: the weights of the components, shape (n_components,).
        first, second: the shapes of the components.
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
    """Return mean and sd of the negative log-likelihood of held-out records under one draw, over data drawn from theta.

    Args:
        case: the prior and theta.
        mixing: the weights of components given the exact count, shape (n + 1, n_components).
        first, second: the shapes of the components.
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
