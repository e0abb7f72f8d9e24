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
    says = "consistent tables from the Fourier domain predict no better than noisy counts"
    why = "The noise of the coefficients is that of their exact joint sensitivity, which is below the paper's."
    return _never(SOURCE, f"{name}: {says}.", 1, ("fourier-naive", "laplace-naive"), prices, found, why)


def _sampler(name: str, prices: list[str], found: _Found) -> Claim | None:
    says = "one posterior sample predicts no better than noisy counts"
    why = "Each table has its own temperature here, and the sampler is idealized."
    return _never(OURS, f"{name}: {says}.", 1, ("ops", "laplace-naive"), prices, found, why)


def _noise(name: str, prices: list[str], found: _Found) -> Claim | None:
    says = "a posterior that knows the noise predicts no worse than one that takes counts for true"
    return _never(OURS, f"{name}: {says}.", -1, ("laplace", "laplace-naive"), prices, found, "")


def _never(
    source: str, says: str, sign: int, methods: tuple[str, str], prices: list[str], found: _Found, why: str
) -> Claim | None:
    """Return the claim that one method is nowhere clearly better (sign 1), or worse (-1), than another."""
    if not _held(found, prices, *methods):
        return None
    differences = {epsilon: _clear(found, epsilon, *methods) for epsilon in prices}
    against = [epsilon for epsilon, (_, clear) in differences.items() if clear == sign]
    listing = "; ".join(f"{epsilon}: {value:+.4f}" for epsilon, (value, _) in differences.items())
    return Claim(
        source,
        says,
        not against,
        f"accuracy, `{methods[0]}` less `{methods[1]}`, by epsilon: {listing}; clearly "
        f"{'better' if sign > 0 else 'worse'} at epsilon {listed(against)}",
        why,
    )
