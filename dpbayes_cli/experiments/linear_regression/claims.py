"""What Zhang, Rubinstein and Dimitrakakis 2016 say of their Figure 2, and what a study measures of it."""

from __future__ import annotations

from collections.abc import Mapping

from dpbayes_cli.experiments.claims import OURS, Claim
from dpbayes_cli.experiments.linear_regression.cell import LinearCell, methods_of
from dpbayes_cli.experiments.linear_regression.study import LinearStudy
from dpbayes_cli.experiments.linear_regression.summary import CLEAR
from dpbayes_cli.experiments.means import mean_difference
from dpbayes_cli.experiments.store import FinishedCell
from dpbayes_cli.experiments.tables import Results

SOURCE = "[Z] Figure 2"
_OTHER_RECORDS = "Other records than the paper's, whose census is not public here."

_Found = Mapping[tuple[str, str | None, str], FinishedCell]


def claims(study: LinearStudy, results: Results[LinearCell]) -> list[Claim]:
    """Return the claims of Figure 2, case by case; see ``Kind.claims``."""
    made = []
    for name, case in study.cases.items():
        found = {(c.prior_variance, c.epsilon, str(c.method)): result for c, result in results if c.name == name}
        methods = set(methods_of(study, case))
        if {"non-private", "truncated-sampler"} <= methods:
            made += [_falls(name, study, found), _narrow(name, study, found)]
        if {"noise-aware", "truncated-sampler"} <= methods:
            made.append(_noise_aware(name, study, found))
    return made


def _mse(found: _Found, variance: str, epsilon: str | None, method: str) -> float:
    return float(str(found[variance, epsilon, method].measures["mse"]))


def _falls(name: str, study: LinearStudy, found: _Found) -> Claim:
    """The excess at the largest epsilon, less than a tenth of that at the smallest."""
    prices = sorted(study.epsilon, key=float)
    first, last = prices[0], prices[-1]
    excess = {
        variance: [
            _mse(found, variance, epsilon, "truncated-sampler") - _mse(found, variance, None, "non-private")
            for epsilon in (first, last)
        ]
        for variance in study.prior_variance
    }
    return Claim(
        SOURCE,
        f"{name}: with epsilon the error of the posterior sampler falls to that without privacy.",
        all(high <= max(0.1 * low, 0.0) for low, high in excess.values()),
        f"excess mean squared error at epsilon {first} and {last}: "
        + "; ".join(f"v {variance}: {low:.3g}, {high:.3g}" for variance, (low, high) in excess.items()),
        f"{_OTHER_RECORDS} The ball and the single draw remain.",
    )


def _narrow(name: str, study: LinearStudy, found: _Found) -> Claim:
    """The excess of the narrowest prior is the least, that of the widest the largest."""
    variances = sorted(study.prior_variance, key=float)
    parts, holds = [], True
    for epsilon in study.epsilon:
        narrow, wide = (
            _mse(found, variance, epsilon, "truncated-sampler") - _mse(found, variance, None, "non-private")
            for variance in (variances[0], variances[-1])
        )
        holds = holds and narrow < wide
        parts.append(f"{epsilon}: {narrow:.3g}, {wide:.3g}")
    return Claim(
        SOURCE,
        f"{name}: the sampler suits narrow priors: what privacy costs grows with the prior's variance.",
        holds,
        f"excess mean squared error at v {variances[0]} and {variances[-1]}, by epsilon: {'; '.join(parts)}",
        f"{_OTHER_RECORDS} A ball that is too narrow keeps the weights from where the data are, whatever epsilon is.",
    )


def _noise_aware(name: str, study: LinearStudy, found: _Found) -> Claim:
    """Cell by cell."""
    worse, better = [], 0
    for epsilon in study.epsilon:
        for variance in study.prior_variance:
            pair = [found[variance, epsilon, method].trials["mse"] for method in ("noise-aware", "truncated-sampler")]
            value, error = mean_difference(*pair)
            if value > CLEAR * error:
                worse.append(f"(epsilon {epsilon}, v {variance}: {value:+.3g})")
            better += value < -CLEAR * error
    return Claim(
        OURS,
        f"{name}: moments with Laplace noise, read with their noise, predict better than the sampler.",
        not worse and better > 0,
        f"better in {better} of {len(study.epsilon) * len(study.prior_variance)} cells, worse in {len(worse)}"
        + (f" {', '.join(worse)}" if worse else ""),
    )
