"""Log ratios of the exact probabilities of neighbors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

_CONTEXT, _ERROR = Context(prec=100), Decimal("1e-90")
"""In 100 digits a quotient and its logarithm err by less than 1e-95."""


def log_interval(ratio: Fraction) -> tuple[Decimal, Decimal]:
    """Return an interval that holds the logarithm."""
    log = _CONTEXT.ln(_CONTEXT.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))
    return _CONTEXT.subtract(log, _ERROR), _CONTEXT.add(log, _ERROR)


def worst(laws: Mapping[Any, Sequence[Fraction]], neighbors: Iterable[tuple[Any, Any]]) -> tuple[Decimal, Decimal]:
    """Return the largest log ratio of two neighbors' probabilities, and the largest range of it, rounded up."""
    ratios = [[a / b for a, b in zip(laws[one], laws[other], strict=True)] for one, other in neighbors]
    return log_interval(max(map(max, ratios)))[1], log_interval(max(max(each) / min(each) for each in ratios))[1]
