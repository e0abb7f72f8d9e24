"""What Zhang, Rubinstein and Dimitrakakis 2016 say of their Figure 1, and what a classification study measures."""

from __future__ import annotations

from collections.abc import Mapping

from dpbayes_cli.experiments.claims import OURS, Claim, listed
from dpbayes_cli.experiments.classification.cell import ClassificationCell
from dpbayes_cli.experiments.classification.comparison import CLEAR
from dpbayes_cli.experiments.classification.study import ClassificationStudy
from dpbayes_cli.experiments.means import mean_difference
from dpbayes_cli.experiments.store import FinishedCell
from dpbayes_cli.experiments.tables import Results

SOURCE = "[Z] Figure 1"
_PAPERS = ("laplace-naive", "fourier-naive", "ops")

_Found = Mapping[tuple[str | None, str], FinishedCell]


def claims(study: ClassificationStudy, results: Results[ClassificationCell]) -> list[Claim]:
    """Return the claims of Figure 1, case by case; see ``Kind.claims``."""
    made: list[Claim | None] = []
    for name in study.cases:
        own = [(cell, result) for cell, result in results if cell.name == name]
        prices = list(dict.fromkeys(cell.epsilon for cell, _ in own if cell.epsilon is not None))
        found = {(cell.epsilon, str(cell.method)): result for cell, result in own}
        made += [_cost(name, prices, found), _fourier(name, prices, found), _sampler(name, prices, found)]
        made.append(_noise(name, prices, found))
    return [claim for claim in made if claim is not None]


def _accuracy(found: _Found, epsilon: str | None, method: str) -> float:
    return float(str(found[epsilon, method].measures["accuracy"]))


def _clear(found: _Found, epsilon: str, first: str, second: str) -> tuple[float, int]:
    """Return the mean difference in accuracy, and 1 or -1 where it is clear."""
    value, error = mean_difference(found[epsilon, first].trials["accuracy"], found[epsilon, second].trials["accuracy"])
    return value, 0 if abs(value) <= CLEAR * error else (1 if value > 0.0 else -1)


def _held(found: _Found, prices: list[str], *methods: str) -> bool:
    return bool(prices) and all((epsilon, method) in found for epsilon in prices for method in methods)


def _cost(name: str, prices: list[str], found: _Found) -> Claim | None:
    methods = [method for method in _PAPERS if _held(found, prices, method)]
    if not methods or (None, "non-private") not in found:
        return None
    exact = _accuracy(found, None, "non-private")
    ends = {method: [_accuracy(found, epsilon, method) for epsilon in (prices[0], prices[-1])] for method in methods}
    return Claim(
        SOURCE,
        f"{name}: privacy costs every mechanism accuracy, the less of it the larger epsilon is.",
        all(low <= high for low, high in ends.values()) and all(low < exact for low, _ in ends.values()),
        f"accuracy at epsilon {prices[0]} and {prices[-1]}: "
        + "; ".join(f"`{method}` {low:.3f}, {high:.3f}" for method, (low, high) in ends.items())
        + f"; non-private {exact:.3f}",
    )


def _fourier(name: str, prices: list[str], found: _Found) -> Claim | None:
    if not _held(found, prices, "laplace-naive", "fourier-naive"):
        return None
    signs = {epsilon: _clear(found, epsilon, "fourier-naive", "laplace-naive") for epsilon in prices}
    better = [epsilon for epsilon, (_, sign) in signs.items() if sign > 0]
    return Claim(
        SOURCE,
        f"{name}: consistent tables from the Fourier domain predict no better than noisy counts.",
        not better,
        "accuracy, Fourier less Laplace, by epsilon: "
        + "; ".join(f"{epsilon}: {value:+.4f}" for epsilon, (value, _) in signs.items())
        + f"; clearly better at epsilon {listed(better)}",
        "The noise of the coefficients is that of their exact joint sensitivity, which is below the paper's.",
    )


def _sampler(name: str, prices: list[str], found: _Found) -> Claim | None:
    if not _held(found, prices, "laplace-naive", "ops"):
        return None
    signs = {epsilon: _clear(found, epsilon, "ops", "laplace-naive") for epsilon in prices}
    better = [epsilon for epsilon, (_, sign) in signs.items() if sign > 0]
    return Claim(
        OURS,
        f"{name}: one posterior sample predicts no better than noisy counts.",
        not better,
        "accuracy, sample less Laplace, by epsilon: "
        + "; ".join(f"{epsilon}: {value:+.4f}" for epsilon, (value, _) in signs.items())
        + f"; clearly better at epsilon {listed(better)}",
        "Each table has its own temperature here, and the sampler is idealized.",
    )


def _noise(name: str, prices: list[str], found: _Found) -> Claim | None:
    if not _held(found, prices, "laplace-naive", "laplace"):
        return None
    signs = {epsilon: _clear(found, epsilon, "laplace", "laplace-naive") for epsilon in prices}
    worse = [epsilon for epsilon, (_, sign) in signs.items() if sign < 0]
    return Claim(
        OURS,
        f"{name}: a posterior that knows the noise predicts no worse than one that takes counts for true.",
        not worse,
        "accuracy, noise-aware less naive, by epsilon: "
        + "; ".join(f"{epsilon}: {value:+.4f}" for epsilon, (value, _) in signs.items())
        + f"; clearly worse at epsilon {listed(worse)}",
    )
