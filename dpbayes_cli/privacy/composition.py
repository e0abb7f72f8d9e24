"""Composition of guarantees, and the parser of stored guarantees of every kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any, ClassVar

from dpbayes_cli.base.numeric import Number, as_decimal, exact_sum, parse_decimal
from dpbayes_cli.privacy.conversions import INFINITE, epsilon_of_rho, round_up
from dpbayes_cli.privacy.guarantee import Guarantee, Statement, check_delta
from dpbayes_cli.privacy.kinds import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    NoisyShift,
    Points,
    PureDP,
    RenyiCurve,
    Shifts,
    ZeroConcentrated,
    root_up,
)

_UP = Context(prec=40, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class Failure(Guarantee):
    """An event of a stated probability, outside of which the output reveals nothing.

    Composed with another guarantee, it states that the other one holds outside an event of probability delta.

    Privacy: the laws of the output under neighbors are (1 - delta) P + delta R and (1 - delta) P + delta R', for some
        laws P, R and R'; this is (0, delta)-DP. A composition with a mechanism whose guarantee is (epsilon, 0) is
        (epsilon, delta)-DP. Renyi divergences and rho are those of the composition outside the event, and delta is
        charged separately.
    Source: Dwork, Kenthapadi, McSherry, Mironov and Naor 2006; Bun and Steinke 2016, Definition 8.1 (approximate zCDP).
    """

    kind: ClassVar[str] = "failure"
    delta: Decimal = Decimal("1e-6")

    def __post_init__(self) -> None:
        check_delta(self.delta)

    @property
    def epsilon(self) -> Decimal:
        return Decimal(0)

    @property
    def rho(self) -> Decimal:
        return Decimal(0)

    def rdp(self, order: Decimal) -> Decimal:
        return Decimal(0)


@dataclass(frozen=True)
class Composition(Guarantee):
    """The composition of guarantees that were fixed in advance, by every rule that applies to all of them.

    Privacy: epsilons add; Renyi curves add order by order; mu^2 and rho add; deltas add separately.
    Source: Mironov 2017; Dong, Roth and Su 2022; the rest is derived here.
    """

    kind: ClassVar[str] = "composition"
    parts: tuple[Guarantee, ...] = ()

    @property
    def epsilon(self) -> Decimal:
        return exact_sum(part.epsilon for part in self.parts)

    @property
    def delta(self) -> Decimal:
        return exact_sum(part.delta for part in self.parts)

    @property
    def rho(self) -> Decimal:
        return exact_sum(part.rho for part in self.parts)

    @property
    def mu(self) -> Decimal:
        """The root of the sum of the squared mus, rounded up; infinite if one guarantee has no mu."""
        if any(not part.mu.is_finite() for part in self.parts):
            return INFINITE
        return root_up(exact_sum(_UP.multiply(part.mu, part.mu) for part in self.parts))

    @property
    def order_max(self) -> Decimal:
        return min((part.order_max for part in self.parts), default=INFINITE)

    def rdp(self, order: Decimal) -> Decimal:
        return exact_sum(part.rdp(order) for part in self.parts)

    def statement(self, delta: Decimal) -> Statement:
        statements = [*(gaussian.statement(delta) for gaussian in self._gaussian()), super().statement(delta)]
        if 0 < self.delta < delta and self.rho.is_finite():
            between = epsilon_of_rho(float(self.rho), float(delta - self.delta))
            statements.append(Statement(round_up(between), delta, "zcdp"))
        return min(statements, key=lambda s: s.epsilon)

    def delta_at(self, epsilon: Number) -> Decimal:
        epsilon = as_decimal(epsilon)
        return min([super().delta_at(epsilon), *(gaussian.delta_at(epsilon) for gaussian in self._gaussian())])

    def _gaussian(self) -> list[GaussianDP]:
        return [GaussianDP(self.mu)] if self.mu.is_finite() and self.mu > 0 else []

    @property
    def former(self) -> Composition:
        return Composition(tuple(part.former for part in self.parts))

    def serialize(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [part.serialize() for part in self.parts]}


def compose(guarantees: Iterable[Guarantee]) -> Composition:
    """Return the composition of guarantees that were fixed in advance, not chosen adaptively."""
    return Composition(tuple(guarantees))


def parse_guarantee(stored: Mapping[str, Any]) -> Guarantee:
    """Return the guarantee from the stored form that ``Guarantee.serialize`` wrote.

    Raises:
        ValueError: the kind is unknown, a key is missing or unknown, or a number is malformed.
    """
    kind, rest = stored.get("kind"), {key: value for key, value in stored.items() if key != "kind"}
    try:
        guarantee = _take_guarantee(str(kind), rest)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("malformed guarantee") from error
    if rest:
        raise ValueError("malformed guarantee")
    return guarantee


def _take_guarantee(kind: str, rest: dict[str, Any]) -> Guarantee:
    if kind == PureDP.kind:
        return PureDP(parse_decimal(rest.pop("epsilon")), _shifts(rest.pop("shifts", [])))
    for simple in (ApproximateDP, Failure, ZeroConcentrated, GaussianDP):
        if kind == simple.kind:
            return simple(**{field.name: parse_decimal(rest.pop(field.name)) for field in fields(simple)})
    if kind == BoundedRange.kind:
        epsilon, parts = parse_decimal(rest.pop("epsilon")), int(parse_decimal(rest.pop("parts")))
        shares = tuple((parse_decimal(share), int(number)) for share, number in rest.pop("shares", []))
        return BoundedRange(epsilon, parts, _points(rest.pop("curve", {})), shares)
    if kind == RenyiCurve.kind:
        largest = rest.pop("order_max", None)
        curve = _points(rest.pop("curve"))
        return RenyiCurve(curve, INFINITE if largest is None else parse_decimal(largest))
    if kind == Composition.kind:
        return Composition(tuple(parse_guarantee(part) for part in rest.pop("parts")))
    raise ValueError("unknown kind of guarantee")


def _shifts(stored: list[list[list[str]]]) -> Shifts:
    return tuple(
        tuple(NoisyShift(parse_decimal(scale), int(change), int(components)) for scale, change, components in shift)
        for shift in stored
    )


def _points(stored: Mapping[str, str]) -> Points:
    """Return the (order, divergence) pairs of a stored curve, in ascending order."""
    return tuple(sorted((parse_decimal(order), parse_decimal(value)) for order, value in stored.items()))
