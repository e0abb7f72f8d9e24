"""An audit of a planned release: its draws looked at exactly, repeated and attacked from outside, in a given time."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from multiprocessing import TimeoutError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbayes_cli.audit.checks import Check, Exact
from dpbayes_cli.audit.datasets import DataSets, Pair
from dpbayes_cli.audit.draws import answers, drawn_at_once
from dpbayes_cli.audit.events import Bound, best_event, bound, scores_of
from dpbayes_cli.audit.forced import can_be_dictated
from dpbayes_cli.audit.langevin_checks import Coupled
from dpbayes_cli.audit.repeats import compared, draw_again, fresh_processes, planned_release, streams
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.private_quantile import PrivateBounds
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.workflow.pricing import PlannedRelease

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.privacy.guarantee import Guarantee

N_RECORDS, _MOST_RECORDS = 8, 400
"""Few records: the one that differs weighs the most among few. Quantiles need some on either side: see ``_few``."""
SECONDS, SECONDS_THOROUGH = 40.0, 600.0
PROCESSES = 2
FALSE_ALARM = 1e-6
_DRAWS, _DRAWS_THOROUGH = 20_000, 200_000
_FEWEST_DRAWS = 200
_DATA_SETS, _DATA_SETS_THOROUGH = 240, 2000
_MOST_NUMBERS = 10_000_000
_MOST_PAIRS = 3
_PATIENCE = 3.0
"""How much longer than it was given a fresh process is waited for; where it died, for good."""
_DELTAS = ("0", "1e-6", "1e-3", "1e-2", "0.1")
_EXACT, _REPEATED, _LAST = 0.4, 0.15, 0.97
"""Shares of the time: until when laws are compared, for how long draws are repeated, and when all ends."""
DOES_NOT_PROVE = (
    "Passing does not prove the guarantee: a lower bound below the claim is what a mechanism shows that loses less "
    "than it may, and also one that was attacked clumsily. The proofs are in the docstrings of the code.",
    "Attacked were data sets of a few records, read by the embedded engine; losses that need more draws than these to "
    "show, such as a delta of 1e-6, do not show where the laws of the draws are not known exactly.",
    "Time, memory and what a machine's other users see are not looked at.",
)

Progress = Callable[[float, str], None]
"""Told what share of the time has passed at most, and what is done now."""


@dataclass(frozen=True)
class AuditedClaim:
    """What a guarantee claims at a delta, and what an attack proves against it.

    Attributes:
        epsilon: what is claimed.
        bound: what is proved.
        delta_at_epsilon: every delta below it is disproved at the claimed epsilon.
        pair: the data sets.
    """

    epsilon: float
    bound: Bound
    delta_at_epsilon: float
    pair: str

    @property
    def ok(self) -> bool:
        """Whether the attack stays within the claim."""
        return self.bound.epsilon <= self.epsilon and self.delta_at_epsilon <= self.bound.delta


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        guarantee: the claim.
        n_records: of the data sets.
        kinds, stars, data_pairs: how many kinds of record, data sets without one record, and pairs were compared.
        draws: of each data set that was attacked, for the first pair.
        pair: the data sets of that pair.
        checks: the parts.
        claims: the whole, at several deltas.
        not_attacked: what was left out, one sentence each.
    """

    guarantee: Guarantee
    n_records: int
    kinds: int
    stars: tuple[int, int]
    data_pairs: int
    draws: int
    pair: str
    checks: tuple[Check, ...]
    claims: tuple[AuditedClaim, ...]
    not_attacked: tuple[str, ...]

    @property
    def findings(self) -> list[str]:
        """What is wrong, one sentence each."""
        parts = [f"{c.name}: {c.measured}, and not {c.allowed}" for c in self.checks if not c.ok]
        return parts + [
            f"at delta {claim.bound.delta:g} epsilon {claim.bound.epsilon:.4g} is proved, and at epsilon "
            f"{claim.epsilon:.4g}, which is claimed there, delta {claim.delta_at_epsilon:.3g} ({claim.pair})"
            for claim in self.claims
            if not claim.ok
        ]


@dataclass
class Clock:
    """The time of an audit.

    Attributes:
        seconds: that it may take.
        progress: told of it.
    """

    seconds: float
    progress: Progress
    _start: float = field(default_factory=time.monotonic)

    @property
    def passed(self) -> float:
        """The share of the time that has passed."""
        return (time.monotonic() - self._start) / self.seconds

    def before(self, share: float, what: str) -> bool:
        """Return whether a share of the time has not passed yet; tells the progress."""
        self.progress(min(1.0, self.passed), what)
        return self.passed < share


def _few(bounds: PrivateBounds | None) -> int:
    """Return a number of records of which two lie beyond each quantile that is drawn."""
    if bounds is None:
        return N_RECORDS
    tails = [1 - bounds.upper, *([] if bounds.lower is None else [bounds.lower])]
    return max(N_RECORDS, min(_MOST_RECORDS, math.ceil(2 / min(tails))))


def _all_read(sets: DataSets) -> Iterator[Check]:
    for record in sets.unreadable:
        yield Check(f"reading of the made-up record {record}", False, "stops", "any record is read")


def audit(
    spec: ReleaseSpec,
    n_records: int | None = None,
    draws: int | None = None,
    *,
    thorough: bool = False,
    processes: int | None = None,
    progress: Progress = lambda _share, _what: None,
) -> Audit:
    """Audit the mechanism that a spec names, with data that are made up; nothing is charged.

    Args:
        spec: what is asked.
        n_records: of the data sets; None: a few, where the spec states no number.
        draws: of each data set; None: as many as the time allows.
        thorough: whether to take ten times as long, and look at more data sets.
        processes: how many fresh processes draw too; None: ``PROCESSES``.
        progress: told how much of the time has passed.

    Raises:
        SpecError: the spec has no price, or no data set of so few records.
    """
    n = n_records or spec.records or _few(spec.private_bounds)
    clock = Clock(SECONDS_THOROUGH if thorough else SECONDS, progress)
    planned = planned_release(spec, n)
    with tempfile.TemporaryDirectory() as directory:
        return _Attack(planned, n, clock, thorough, PROCESSES if processes is None else processes).run(
            Path(directory), draws
        )


@dataclass
class _Attack:
    planned: PlannedRelease
    n_records: int
    clock: Clock
    thorough: bool
    processes: int
    missed: list[str] = field(default_factory=list)

    def run(self, directory: Path, draws: int | None) -> Audit:
        guarantee = self.planned.plan.guarantee
        self.clock.before(1.0, "reading made-up records")
        most = _DATA_SETS_THOROUGH if self.thorough else _DATA_SETS
        sets = DataSets(self.planned, self.n_records, directory, most)
        first = sets.star(sets.bases()[0])
        if sets.n_kinds < 2 and first.removed is None:
            raise SpecError("all records count alike: there are no neighbors to attack with", where="domain")
        (_, evidence), seconds = first.sets[0], _REPEATED * self.clock.seconds
        fresh = fresh_processes(self.planned.spec, self.n_records, evidence, seconds, self.processes)
        with fresh as waiting:
            exact, done = self._exact(sets)
            checks = [*_all_read(sets), *exact.checks(), *self._repeated(evidence, seconds, waiting)]
        pairs = exact.to_attack(_MOST_PAIRS)
        claims = list(self._attacked(pairs, draws))
        if isinstance(exact, Exact):
            self.missed += sorted(exact.missed)
        return Audit(
            guarantee,
            self.n_records,
            sets.n_kinds,
            (done, sets.all_bases),
            exact.n_pairs,
            claims[0].bound.draws * 2 if claims else 0,
            claims[0].pair if claims else "",
            tuple(checks),
            tuple(claims),
            tuple(self.missed),
        )

    def _exact(self, sets: DataSets) -> tuple[Exact | Coupled, int]:
        """Compare the laws of all neighbors, or of as many as there is time for."""
        planned, done = self.planned, 0
        known = can_be_dictated(planned)
        bounds = planned.plan.bounds is not None
        paths = 4 if self.thorough else 1 if bounds else 2
        exact = Exact(planned, paths) if known else Coupled(planned)
        if isinstance(exact, Exact):
            exact.look_at_statistics(sets.alone)
        for base in sets.bases():
            for _ in exact.look(sets.star(base)):
                if not self.clock.before(_EXACT, "comparing the laws of neighbors") and exact.n_pairs:
                    break
            else:
                done += 1
                continue
            break
        if done < sets.all_bases:
            self.missed.append(
                f"neighbors that share other records: of {sets.all_bases:,} choices of the {self.n_records - 1} "
                f"records that neighbors share, {done:,} were made"
            )
        if bounds:
            self.missed.append("statistics between other bounds than those that were dictated, or drawn")
        return exact, done

    def _repeated(self, evidence: ExactEvidence, seconds: float, waiting: list[Any]) -> Iterator[Check]:
        self.clock.before(1.0, "drawing again and again")
        known = streams(self.planned, evidence)
        samples = [draw_again(self.planned, evidence, seconds / (1 + self.processes))]
        try:
            samples += [each.get(_PATIENCE * seconds) for each in waiting]
        except TimeoutError:
            waiting = []
        if not known:
            self.missed.append("draws against their law, which is not known")
        if not waiting:
            self.missed.append("draws of fresh processes")
        yield from compared(known, samples)

    def _attacked(self, pairs: list[Pair], draws: int | None) -> Iterator[AuditedClaim]:
        answer = self.planned.plan.final_step
        wide = max(1, len(answer.statistic.names) + answer.law.n_states) * max(1, answer.draws)
        most = min(_DRAWS_THOROUGH if self.thorough else _DRAWS, _MOST_NUMBERS // wide) if draws is None else draws
        for i, pair in enumerate(pairs):
            left = math.inf if draws else (_LAST - self.clock.passed) / (len(pairs) - i)
            one, other = self._drawn(pair, most, self.clock.passed + left)
            if len(one) < most:
                self.missed.append(f"what shows only in more than {len(one):,} releases: {pair.described}")
            if len(one) >= _FEWEST_DRAWS:
                yield from self._claims(pair, one, other, len(pairs))

    def _drawn(self, pair: Pair, most: int, share: float) -> tuple[Floats, Floats]:
        """Release both data sets, in turn, until a share of the time has passed."""
        import numpy as np

        found: tuple[list[Floats], list[Floats]] = ([], [])
        n, size = 0, drawn_at_once(self.planned)
        while n < most and (self.clock.before(share, "releasing neighbors from outside") or not n):
            size = min(size, most - n)
            start = time.monotonic()
            for rows, evidence in zip(found, (pair.one, pair.other), strict=True):
                rows.append(answers(self.planned, evidence, size))
            n += size
            if time.monotonic() - start < 1.0:
                size *= 2
        return np.concatenate(found[0]), np.concatenate(found[1])

    def _claims(self, pair: Pair, one: Floats, other: Floats, n_pairs: int) -> Iterator[AuditedClaim]:
        one, other = scores_of(one, other)
        guarantee, half = self.planned.plan.guarantee, len(one) // 2
        stated = [(delta, guarantee.statement(max(Decimal(delta), guarantee.delta))) for delta in _DELTAS]
        known = [statement for _, statement in stated if statement.epsilon.is_finite()]
        claims = list({float(statement.delta): statement for statement in known}.values())
        for statement in claims:
            delta = float(statement.delta)
            epsilon, n_bounds = float(statement.epsilon), 2 * len(claims) * n_pairs
            event = best_event(one[:half], other[:half], delta=delta)
            proved = bound(event, one[half:], other[half:], delta, n_bounds)
            event = best_event(one[:half], other[:half], epsilon=epsilon)
            least = bound(event, one[half:], other[half:], delta, n_bounds).delta_at(epsilon, n_bounds)
            yield AuditedClaim(epsilon, proved, least, pair.described)
