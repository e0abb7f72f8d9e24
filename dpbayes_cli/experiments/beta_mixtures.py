"""Mixtures of Beta laws, which posterior draws after a release follow: divergence from the true posterior, log loss."""

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
"""Sums over the noise leave out values that are less probable than exp(-40) times the most probable one."""
_NODES = 4000
_ROWS = 1 << 13


class UtilityCase(CoinCase, frozen=True, kw_only=True):
    """A Beta prior; one data set, for divergences; and a true probability of success, for expected log losses."""

    n: Annotated[
        int, Meta(ge=1, le=1000, description="number of records to learn from, and number of held-out records")
    ]
    successes: Annotated[int, Meta(ge=0, description="successes in the data set for which divergences are computed")]
    theta: Annotated[float, Meta(gt=0, lt=1, description="true probability of success in expected log losses")] = 0.5

    def __post_init__(self) -> None:
        if self.successes > self.n:
            raise ValueError(f"successes is {self.successes}; expected at most n = {self.n}")


def mixing_of(noise: NoiseLaw, case: UtilityCase, *, aware: bool) -> Floats:
    """Return the weights of a mixture of Beta posteriors for each exact count, shape (n + 1, n + 1).

    Row s is for the exact count s. Its entry s' is the weight of the posterior of the count s': the sum over noisy
    counts y of P(y | s) * P(s' | y). If ``aware``, P(s' | y) is the posterior probability of s' given the noisy count
    y. Otherwise it is 1 for the possible count that is closest to y.
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
    """Return the Kullback-Leibler divergence KL(p || q) of the case's true posterior p and a mixture q of Beta laws.

    Args:
        weights: the weights of the components, shape (n_components,).
        first, second: the two parameters of each component, shape (n_components,).
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

    They are taken over data sets, held-out records and draws. A record is a success with the probability
    ``case.theta``.

    Args:
        mixing: for each exact count, the weights of the components, shape (n + 1, n_components).
        first, second: the two parameters of each component, shape (n_components,).
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
