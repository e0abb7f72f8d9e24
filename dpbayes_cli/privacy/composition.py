"""Several guarantees together, and guarantees of every kind read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any, ClassVar

from dpbayes_cli.base.numeric import exact_sum, parse_decimal
from dpbayes_cli.privacy.conversions import INFINITE
from dpbayes_cli.privacy.guarantee import Guarantee, Statement
from dpbayes_cli.privacy.kinds import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    PureDP,
    RenyiCurve,
    ZeroConcentrated,
    parse_points,
)

_UP = Context(prec=40, rounding=ROUND_CEILING)
_EXACT = Context(prec=100)


@dataclass(frozen=True)
class Composition(Guarantee):
    """Several guarantees together, fixed in advance; each route adds what it can add.

    Privacy: epsilons add; Renyi curves add order by order; mu^2 and rho add; deltas add beside.
    Source: mechanisms, composition of what is fixed in advance; Mironov 2017; Dong, Roth and Su 2022.
    """

    kind: ClassVar[str] = "composition"
    parts: tuple[Guarantee, ...] = ()

    @property
    def epsilon(self) -> Decimal:
        """The sum, infinite where one is."""
        return exact_sum(part.epsilon for part in self.parts)

    @property
    def delta(self) -> Decimal:
        """The sum."""
        return exact_sum(part.delta for part in self.parts)

    @property
    def rho(self) -> Decimal:
        """The sum, infinite where one is."""
        return exact_sum(part.rho for part in self.parts)

    @property
    def mu(self) -> Decimal:
        """The root of the sum of squares, rounded up, infinite where one is not Gaussian."""
        if any(not part.mu.is_finite() for part in self.parts):
            return INFINITE
        squares = exact_sum(_UP.multiply(part.mu, part.mu) for part in self.parts)
        root = _UP.sqrt(squares)  # to the nearest, whatever the context says
        return root if _EXACT.multiply(root, root) >= squares else root.next_plus(_UP)

    @property
    def order_max(self) -> Decimal:
        """The smallest of them."""
        return min((part.order_max for part in self.parts), default=INFINITE)

    def rdp(self, order: Decimal) -> Decimal:
        """Return the sum, infinite where one is."""
        return exact_sum(part.rdp(order) for part in self.parts)

    def statement(self, delta: Decimal) -> Statement:
        """Return the best statement over the basic, the Renyi and the Gaussian route."""
        best = super().statement(delta)
        if self.parts and self.mu.is_finite() and self.mu > 0:
            best = min([GaussianDP(self.mu).statement(delta), best], key=lambda s: s.epsilon)
        return best

    def delta_at(self, epsilon: Decimal) -> Decimal:
        """Return the smallest delta over the routes."""
        best = super().delta_at(epsilon)
        if self.parts and self.mu.is_finite() and self.mu > 0:
            best = min(best, GaussianDP(self.mu).delta_at(epsilon))
        return best

    def serialize(self) -> dict[str, Any]:
        """Return the stored form."""
        return {"kind": self.kind, "parts": [part.serialize() for part in self.parts]}


def compose(guarantees: Iterable[Guarantee]) -> Composition:
    """Put guarantees together that were fixed in advance; for adaptive choices see the ledger's budgets."""
    return Composition(tuple(guarantees))


def parse_guarantee(stored: Mapping[str, Any]) -> Guarantee:
    """Read back what ``serialize`` wrote.

    Raises:
        ValueError: an unknown kind, a missing or an unknown key, or a malformed number.
    """
    kind, rest = stored.get("kind"), {key: value for key, value in stored.items() if key != "kind"}
    try:
        guarantee = _parsed(str(kind), rest)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("malformed guarantee") from error
    if rest:
        raise ValueError("malformed guarantee")
    return guarantee


def _parsed(kind: str, rest: dict[str, Any]) -> Guarantee:
    """Read a guarantee, taking its keys out of ``rest``."""
    if kind == PureDP.kind:
        return PureDP(parse_decimal(rest.pop("epsilon")))
    if kind == ApproximateDP.kind:
        return ApproximateDP(parse_decimal(rest.pop("epsilon")), parse_decimal(rest.pop("delta")))
    if kind == BoundedRange.kind:
        epsilon, parts = parse_decimal(rest.pop("epsilon")), int(parse_decimal(rest.pop("parts")))
        return BoundedRange(epsilon, parts, parse_points(rest.pop("curve", {})))
    if kind == ZeroConcentrated.kind:
        return ZeroConcentrated(parse_decimal(rest.pop("rho")))
    if kind == GaussianDP.kind:
        return GaussianDP(parse_decimal(rest.pop("mu")))
    if kind == RenyiCurve.kind:
        largest = rest.pop("order_max", None)
        curve = parse_points(rest.pop("curve"))
        return RenyiCurve(curve, INFINITE if largest is None else parse_decimal(largest))
    if kind == Composition.kind:
        return Composition(tuple(parse_guarantee(part) for part in rest.pop("parts")))
    raise ValueError("unknown kind of guarantee")
