"""Exact checks: on neighboring data sets, compare sensitivities and the laws of all draws with the guarantee."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from dpbayes_cli.audit.datasets import Pair, Star, identity
from dpbayes_cli.audit.forced import DictatedRun, UnknownDrawError, run_dictated
from dpbayes_cli.audit.laws import RENYI_ORDERS, PrivacyLoss, privacy_loss
from dpbayes_cli.core.statistic import ExactEvidence, Part, Statistic
from dpbayes_cli.privacy.composition import Composition
from dpbayes_cli.privacy.kinds import BoundedRange
from dpbayes_cli.workflow.pricing import PlannedRelease

_ROUNDING = 1.0 + 1e-9
_ORDER_ROUNDING = 1e-11  # the float error of a Renyi divergence at order a is at most this times a
_RANGE = "range of the log ratios of choices"
_RELEASED = "released values, given the random draws"


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str  # the checked quantity
    ok: bool  # whether the measured value is allowed
    measured: str
    allowed: str


def check_at_most(name: str, measured: float, allowed: float, where: str = "") -> Check:
    """Return the check of a number that must not exceed another."""
    return Check(name, measured <= allowed, f"{measured:.6g}{where}", f"at most {allowed:.6g}")


@dataclass
class WorstLoss:
    """The largest measured loss, relative to the allowed loss, of all pairs that were compared."""

    measured: float = -math.inf  # the losses of the pair with the largest quotient measured / allowed
    allowed: float = math.inf
    pair: Pair | None = None  # this pair; None if no pair has a finite allowed loss

    @property
    def quotient(self) -> float:
        """The measured loss divided by the allowed loss."""
        return -math.inf if self.pair is None else self.measured / max(self.allowed, 1e-300)

    def take(self, measured: float, allowed: float, pair: Pair) -> None:
        """Keep the loss of a pair if its quotient is the largest so far."""
        if math.isfinite(allowed) and measured / max(allowed, 1e-300) > self.quotient:
            self.measured, self.allowed, self.pair = measured, allowed, pair

    def check(self, name: str) -> Iterator[Check]:
        """Yield the check of the largest loss; nothing if there is no pair."""
        if self.pair is not None:
            exceeds = self.measured > self.allowed
            yield check_at_most(name, self.measured, self.allowed, f" ({self.pair.described})" if exceeds else "")


@dataclass
class ExactComparison:
    """Compares the laws of all draws from neighboring data sets with the guarantee; see ``DictatedOutcomes``."""

    planned: PlannedRelease  # the release to attack
    paths: int = 1  # the number of sequences of dictated outcomes
    n_pairs: int = 0  # the number of pairs compared so far
    missed: set[str] = field(default_factory=set)  # what could not be compared, one phrase each
    _runs: dict[Any, tuple[DictatedRun, ...]] = field(default_factory=dict)
    _weights: dict[Any, Any] = field(default_factory=dict)
    _worst: defaultdict[str, WorstLoss] = field(default_factory=lambda: defaultdict(WorstLoss))
    _moving: dict[int, tuple[int, Pair]] = field(default_factory=dict)
    _broken: dict[str, Check] = field(default_factory=dict)
    _orders: dict[float, WorstLoss] = field(default_factory=lambda: {order: WorstLoss() for order in RENYI_ORDERS})
    _most: tuple[float, Pair] | None = None
    _first: Pair | None = None

    def __post_init__(self) -> None:
        guarantee = self.planned.plan.guarantee
        pure = guarantee.delta == 0
        self._epsilon = float(guarantee.epsilon) * _ROUNDING if pure else math.inf
        parts = guarantee.parts if isinstance(guarantee, Composition) else (guarantee,)
        ranges = [float(part.epsilon) for part in parts if isinstance(part, BoundedRange)]
        self._spread = sum(ranges) * _ROUNDING if ranges else math.inf  # of the choices of all parts together
        rdp = {order: float(guarantee.rdp(Decimal(repr(order)))) if pure else math.inf for order in RENYI_ORDERS}
        self._renyi = {order: value * _ROUNDING + _ORDER_ROUNDING * order for order, value in rdp.items()}

    def compare_star(self, star: Star) -> Iterator[None]:
        """Compare each data set of a star with all earlier ones; yield after each data set."""
        statistic = self.planned.plan.steps[0].statistic
        for last, (_, evidence) in enumerate(star.sets):
            self._run(evidence)
            for pair in star.pairs(last):
                self.n_pairs += 1
                self._first = self._first or pair
                self._sensitivity(statistic, pair)
                for one, other in zip(self._run(pair.one), self._run(pair.other), strict=True):
                    self._compare(one, other, pair)
            yield

    def compare_statistics(self, star: Star) -> None:
        """Check the sensitivities on all pairs of a star, without comparing laws."""
        for last in range(len(star.sets)):
            for pair in star.pairs(last):
                self._sensitivity(self.planned.plan.steps[0].statistic, pair)

    def _run(self, evidence: ExactEvidence) -> tuple[DictatedRun, ...]:
        key = identity(evidence)
        if key not in self._runs:
            try:
                runs = tuple(run_dictated(self.planned, evidence, path, self._weights) for path in range(self.paths))
                repeat = None if self._runs else run_dictated(self.planned, evidence, 0, self._weights)
                if repeat is not None and repeat.released != runs[0].released:
                    raise UnknownDrawError("the released values differ from run to run")
            except UnknownDrawError as unknown:
                self.missed.add(f"the exact law of a release: {unknown}")
                runs = ()
            self._runs[key] = runs
        return self._runs[key]

    def _compare(self, one: DictatedRun, other: DictatedRun, pair: Pair) -> None:
        loss = privacy_loss(one.elements, other.elements)
        if loss is None:
            self._add_difference("order and number of the draws", pair)
            return
        if one.released != other.released:
            self._add_difference(_RELEASED, pair)
        if any(not getattr(element, "whole", True) for element in one.elements):
            self.missed.add(
                "the exact laws on lattices of more than 65,536 points, except for log ratios at the corners"
            )
        self._take(loss, pair)

    def _take(self, loss: PrivacyLoss, pair: Pair) -> None:
        self._worst["largest log ratio of the exact laws"].take(max(loss.up, loss.down), self._epsilon, pair)
        self._worst[_RANGE].take(loss.spread, self._spread, pair)
        renyi = [0.0] * len(RENYI_ORDERS) if isinstance(loss.renyi, float) else loss.renyi.max(axis=0)
        for order, measured in zip(RENYI_ORDERS, renyi, strict=True):
            self._orders[order].take(float(measured), self._renyi[order], pair)
        score = max(loss.up, loss.down, loss.spread / 2.0)
        if self._most is None or score > self._most[0]:
            self._most = score, pair
        for i, change in enumerate(_changes(pair.one, pair.other)):
            if change > self._moving.get(i, (0, pair))[0]:
                self._moving[i] = change, pair

    def _add_difference(self, name: str, pair: Pair) -> None:
        measured = f"differ between neighbors ({pair.described})"
        self._broken.setdefault(name, Check(name, False, measured, "the same for all data sets"))

    def _sensitivity(self, statistic: Statistic, pair: Pair) -> None:
        if not statistic.sensitivity_l1:
            return
        changes = _changes(pair.one, pair.other)
        self._take_changes("", changes, statistic, pair)
        first = 0
        for part in statistic.parts:
            self._take_changes(" of one part", changes[first : first + part.size], part, pair)
            first += part.size

    def _take_changes(self, of: str, changes: list[int], stated: Statistic | Part, pair: Pair) -> None:
        self._worst[f"L1 sensitivity{of}"].take(sum(changes), stated.sensitivity_l1, pair)
        squares = sum(change * change for change in changes)
        self._worst[f"squared L2 sensitivity{of}"].take(squares, stated.sensitivity_l2_squared, pair)

    def checks(self) -> Iterator[Check]:
        """Yield the checks of all pairs that were compared."""
        for name, worst in self._worst.items():
            yield from worst.check(name)
        known = [order for order in RENYI_ORDERS if self._orders[order].pair is not None]
        if known:
            order = max(known, key=lambda o: self._orders[o].quotient)
            yield from self._orders[order].check(
                f"Renyi divergence of the exact laws at order {order:g}; of {len(known)} orders, this is closest to "
                "the claim"
            )
        yield from self._broken.values()
        if not self._broken and self._most is not None:
            yield Check(_RELEASED, True, "the same", "the same for all data sets")

    def pairs_to_attack(self, most: int) -> list[Pair]:
        """Return the pair with the largest privacy loss, then pairs that differ in other parts of the statistic."""
        strongest = self._first if self._most is None else self._most[1]
        pairs = [] if strongest is None else [strongest]
        changed: set[int] = set().union(*(_changed_components(pair) for pair in pairs))
        while len(pairs) < most:
            candidates = [pair for i, (_, pair) in self._moving.items() if i not in changed]
            if not candidates:
                break
            pairs.append(max(candidates, key=lambda pair: len(_changed_components(pair) - changed)))
            changed |= _changed_components(pairs[-1])
        return pairs


def _changes(one: ExactEvidence, other: ExactEvidence) -> list[int]:
    """Return the absolute change of each component of the statistic; a histogram has a component for each code."""
    if one.histogram or other.histogram:
        codes = sorted(one.histogram.keys() | other.histogram.keys())
        return [abs(one.histogram.get(code, 0) - other.histogram.get(code, 0)) for code in codes]
    return [abs(a - b) for a, b in zip(one.values, other.values, strict=True)]


def _changed_components(pair: Pair) -> set[int]:
    return {i for i, change in enumerate(_changes(pair.one, pair.other)) if change}
