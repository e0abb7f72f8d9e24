"""Guarantees: what a release promises, how promises add up, and how they are written down for good.

A guarantee is frozen and serialisable, and the meaning of a serialised guarantee never changes: the ledger derives
every balance from the guarantees it stores. All numbers are exact decimals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Protocol, runtime_checkable

from dpbayes_cli.errors import SpecError
from dpbayes_cli.numeric import decimal_text, exact_sum, parse_decimal

SMALLEST_EPSILON = Decimal("1e-12")
LARGEST_EPSILON = Decimal(1000)


@runtime_checkable
class Guarantee(Protocol):
    """A promise of differential privacy that can price and serialise itself.

    ``charge`` returns what basic composition adds up, by component; ``serialize`` returns a JSON object of strings.
    """

    kind: ClassVar[str]

    @property
    def epsilon(self) -> Decimal:
        """The epsilon of the (epsilon, delta) statement."""
        ...

    @property
    def delta(self) -> Decimal:
        """The delta of the (epsilon, delta) statement."""
        ...

    def serialize(self) -> dict[str, str]:
        """Return the stored form."""
        ...


@dataclass(frozen=True)
class PureDP:
    """Pure epsilon-differential privacy.

    Privacy: P(A in E) <= exp(epsilon) P(A' in E) for all neighbouring data sets and all events E; delta = 0.
    Source: Dwork, McSherry, Nissim and Smith 2006, Definition 1.
    """

    kind: ClassVar[str] = "pure"
    epsilon: Decimal

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def delta(self) -> Decimal:
        """Zero: there is no failure probability."""
        return Decimal(0)

    def serialize(self) -> dict[str, str]:
        """Return the stored form."""
        return {"kind": self.kind, "epsilon": decimal_text(self.epsilon)}


@dataclass(frozen=True)
class ApproximateDP:
    """(epsilon, delta)-differential privacy.

    Privacy: P(A in E) <= exp(epsilon) P(A' in E) + delta for all neighbouring data sets and all events E.
    Source: Dwork, Kenthapadi, McSherry, Mironov and Naor 2006.
    """

    kind: ClassVar[str] = "approximate"
    epsilon: Decimal
    delta: Decimal

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    def serialize(self) -> dict[str, str]:
        """Return the stored form."""
        return {
            "kind": self.kind,
            "epsilon": decimal_text(self.epsilon),
            "delta": decimal_text(self.delta),
        }


def check_epsilon(epsilon: Decimal) -> None:
    """Refuse an epsilon that no release should carry.

    Raises:
        SpecError: not within 1e-12 .. 1000.
    """
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise SpecError(
            f"epsilon is {epsilon:g}; allowed: 1e-12 to {decimal_text(LARGEST_EPSILON)}",
            where="privacy.epsilon",
        )


def check_delta(delta: Decimal) -> None:
    """Refuse a delta that no release should carry.

    Raises:
        SpecError: not at least 1e-30 and below 1.
    """
    if not Decimal("1e-30") <= delta < 1:
        raise SpecError(f"delta is {delta:g}; allowed: 1e-30 and more, below 1", where="delta")


def parse_guarantee(stored: Mapping[str, str]) -> Guarantee:
    """Read back what ``serialize`` wrote.

    Raises:
        ValueError: an unknown kind or a malformed number.
    """
    kind = stored.get("kind")
    if kind == PureDP.kind and set(stored) == {"kind", "epsilon"}:
        return PureDP(parse_decimal(stored["epsilon"]))
    if kind == ApproximateDP.kind and set(stored) == {"kind", "epsilon", "delta"}:
        return ApproximateDP(parse_decimal(stored["epsilon"]), parse_decimal(stored["delta"]))
    raise ValueError("unknown kind of guarantee")


def compose(guarantees: Iterable[Guarantee]) -> dict[str, Decimal]:
    """Add guarantees by basic composition; sound also when each release is chosen after seeing the earlier ones.

    Returns:
        {"epsilon": sum of epsilons, "delta": sum of deltas}, exact.

    Privacy: sum eps_i and sum delta_i bound the sequence, as a filter (adaptively chosen parameters).
    Source: Rogers, Roth, Ullman and Vadhan 2016 (basic composition as a privacy filter).
    """
    listed = list(guarantees)
    return {
        "epsilon": exact_sum(g.epsilon for g in listed),
        "delta": exact_sum(g.delta for g in listed),
    }
