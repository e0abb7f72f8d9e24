"""Audit a planned release in limited time: compare exact laws of its draws, repeat the draws, attack releases."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from multiprocessing import TimeoutError
from pathlib import Path
from typing import Any

import numpy as np

from dpbayes_cli.audit import repeats
from dpbayes_cli.audit.checks import Check, ExactComparison
from dpbayes_cli.audit.datasets import DataSets, Pair
from dpbayes_cli.audit.events import Bound, best_event, bound_loss, event_scores
from dpbayes_cli.audit.langevin_checks import CoupledChains
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.private_choice import PrivateChoice
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.workflow.pricing import PlannedRelease

N_RECORDS, _MAX_RECORDS = 8, 400
"""Default and largest default number of records; in a small data set, each record has a large influence."""
SECONDS, SECONDS_THOROUGH = 12.0, 600.0
"""The CPU time of this process that an audit may take; releases that it has no time for would show rarer losses."""
PROCESSES = 2
FALSE_ALARM = 1e-6
_MAX_DRAWS, _MAX_DRAWS_THOROUGH = 20_000, 200_000
_MIN_DRAWS = 200
_FIRST_BATCH, _FIRST_SAMPLER_BATCH = 1, 2000
"""Number of releases in the first batch; larger for exact samplers, which compute their law once for each batch."""
_MOST_WARM_UP = 10.0
"""The first batch takes at most about this many times as long as it would take later."""
_MAX_DATA_SETS, _MAX_DATA_SETS_THOROUGH = 240, 2000
_MAX_NUMBERS = 10_000_000
_MAX_PAIRS = 3
_MAX_WAIT = 120.0
"""The audit waits for a fresh process so many seconds longer than its draws should take, and then gives up on it."""
_DELTAS = ("0", "1e-6", "1e-3", "1e-2", "0.1")
_EXACT_SHARE, _REPEATED_SHARE, _END_SHARE = 0.4, 0.15, 0.97
"""Shares of the allotted time: when the comparison of laws ends, how long draws are repeated, when the audit ends."""
DOES_NOT_PROVE = (
    "Passing does not prove the guarantee: a lower bound below the claim may mean that the mechanism loses less "
    "privacy than claimed, or that the attack was weak. The proofs are in the docstrings of the code.",
    "The attacks use data sets of a few records, read by the embedded engine. If the laws of the draws are not known "
    "exactly, the audit misses rare losses, such as a delta of 1e-6, which would need more draws to show.",
    "The audit does not examine time, memory, or what other users of the machine can see.",
)

Progress = Callable[[float, str], None]
"""Called with the share of the time that has passed, at most 1, and a description of the present step."""


@dataclass(frozen=True)
class AuditedClaim:
    """The epsilon that a guarantee claims at a delta, and the lower bounds of the loss that an attack proves."""

    epsilon: float  # the claimed epsilon
    bound: Bound  # the lower bound of epsilon at the delta
    delta_at_epsilon: float  # the lower bound of delta at the claimed epsilon
    pair: str  # a description of the two data sets

    @property
    def ok(self) -> bool:
        """Whether the lower bounds are consistent with the claim."""
        return self.bound.epsilon <= self.epsilon and self.delta_at_epsilon <= self.bound.delta


@dataclass(frozen=True)
class Audit:
    """The result of an audit."""

    guarantee: Guarantee  # the claimed guarantee
    n_records: int  # the number of records in each data set
    kinds: int  # the number of kinds of record; records of one kind have the same statistics
    stars: tuple[int, int]  # the number of compared stars and the number of all stars; see ``Star``
    data_pairs: int  # the number of pairs of data sets that were compared
    checks: tuple[Check, ...]  # the checks of the mechanism's parts
    claims: tuple[AuditedClaim, ...]  # the attacks on whole releases, at several deltas
    not_attacked: tuple[str, ...]  # what the audit did not cover, one phrase each

    @property
    def draws(self) -> int:
        """The number of releases of each data set in the first attacked pair."""
        return self.claims[0].bound.draws * 2 if self.claims else 0

    @property
    def pair(self) -> str:
        """A description of the first attacked pair of data sets."""
        return self.claims[0].pair if self.claims else ""

    @property
    def findings(self) -> list[str]:
        """The violations of the guarantee, one sentence each."""
        parts = [f"{c.name}: measured {c.measured}; expected {c.allowed}" for c in self.checks if not c.ok]
        return parts + [
            f"the guarantee claims epsilon {claim.epsilon:.4g} at delta {claim.bound.delta:g}, but epsilon is at least "
            f"{claim.bound.epsilon:.4g}, and delta at the claimed epsilon is at least {claim.delta_at_epsilon:.3g} "
            f"({claim.pair})"
            for claim in self.claims
            if not claim.ok
        ]


@dataclass
class Clock:
    """Measures the CPU time that an audit takes, so that a busy machine does not weaken its attacks."""

    seconds: float  # the time that the audit may take
    progress: Progress  # see ``Progress``
    _start: float = field(default_factory=time.process_time)

    @property
    def passed(self) -> float:
        """The share of the time that has passed."""
        return (time.process_time() - self._start) / self.seconds

    def report(self, share: float, step: str) -> bool:
        """Report the present step; return whether less than a share of the time has passed."""
        self.progress(min(1.0, self.passed), step)
        return self.passed < share


def _default_records(choice: PrivateChoice | None) -> int:
    """Return the default number of records, with which a private choice is a typical one."""
    return max(N_RECORDS, min(_MAX_RECORDS, 0 if choice is None else choice.least_records))


def audit(
    spec: ReleaseSpec,
    n_records: int | None = None,
    draws: int | None = None,
    *,
    thorough: bool = False,
    processes: int | None = None,
    progress: Progress = lambda _share, _what: None,
) -> Audit:
    """Audit the mechanism of a spec with made-up data; nothing is charged.

    Args:
        n_records: the number of records in each data set; None: the spec's number, else a few.
        draws: the number of releases of each data set; None: as many as the time allows.
        thorough: whether to take more time, and compare more data sets.
        processes: the number of fresh processes that also draw; None: ``PROCESSES``.

    Raises:
        SpecError: the request cannot be priced, or all valid records have the same statistic.
    """
    n = n_records or spec.records or _default_records(spec.private_choice)
    clock = Clock(SECONDS_THOROUGH if thorough else SECONDS, progress)
    planned = repeats.planned_release(spec, n)
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
        self.clock.report(1.0, "reading made-up records")
        most = _MAX_DATA_SETS_THOROUGH if self.thorough else _MAX_DATA_SETS
        sets = DataSets(self.planned, self.n_records, directory, most)
        first = sets.star(sets.bases()[0])
        if sets.n_kinds < 2 and first.removed is None:
            raise SpecError(
                "all valid records of this domain have the same statistic, so there is nothing to attack",
                where="domain",
            )
        (_, evidence), seconds = first.sets[0], _REPEATED_SHARE * self.clock.seconds
        checks = [
            Check(f"reading of the made-up record {record}", False, "an error", "no error for any record")
            for record in sets.unreadable
        ]
        fresh = repeats.fresh_processes(self.planned.spec, self.n_records, evidence, seconds, self.processes)
        with fresh as waiting:
            exact, done = self._exact(sets)
            checks += [*exact.checks(), *self._repeated(evidence, seconds, waiting)]
        claims = tuple(self._attacked(exact.pairs_to_attack(_MAX_PAIRS), draws))
        if isinstance(exact, ExactComparison):
            self.missed += sorted(exact.missed)
        guarantee, stars = self.planned.plan.guarantee, (done, sets.all_bases)
        return Audit(
            guarantee, self.n_records, sets.n_kinds, stars, exact.n_pairs, tuple(checks), claims, tuple(self.missed)
        )

    def _exact(self, sets: DataSets) -> tuple[ExactComparison | CoupledChains, int]:
        planned, done = self.planned, 0
        choice = planned.plan.choice
        exact: ExactComparison | CoupledChains = CoupledChains(planned)
        if planned.plan.final_step.law.can_be_dictated:
            exact = ExactComparison(planned, 4 if self.thorough else 1 if choice else 2)
            exact.compare_statistics(sets.alone)
        for base in sets.bases():
            for _ in exact.compare_star(sets.star(base)):
                if not self.clock.report(_EXACT_SHARE, "comparing the laws of neighbors") and exact.n_pairs:
                    break
            else:
                done += 1
                continue
            break
        if done < sets.all_bases:
            self.missed.append(
                f"some data sets: only {done:,} of {sets.all_bases:,} choices of the {self.n_records - 1} records that "
                "neighbors share were tried"
            )
        if choice:
            self.missed.append(f"private {choice.key} that did not occur in this audit")
        return exact, done

    def _repeated(self, evidence: ExactEvidence, seconds: float, waiting: list[Any]) -> Iterator[Check]:
        self.clock.report(1.0, "repeating draws")
        known = repeats.draw_streams(self.planned, evidence)
        samples = [repeats.draw_repeatedly(self.planned, evidence, seconds / (1 + self.processes))]
        try:
            samples += [result.get(seconds + _MAX_WAIT) for result in waiting]
        except TimeoutError:
            waiting = []
        if not known:
            self.missed.append("the law of the draws, which is not known exactly")
        if not waiting:
            self.missed.append("draws of fresh processes")
        yield from repeats.compare_draws(known, samples)

    def _attacked(self, pairs: list[Pair], draws: int | None) -> Iterator[AuditedClaim]:
        final_step = self.planned.plan.final_step
        wide = max(1, len(final_step.statistic.names) + final_step.law.n_states) * max(1, final_step.draws)
        most = min(_MAX_DRAWS_THOROUGH if self.thorough else _MAX_DRAWS, _MAX_NUMBERS // wide)
        most = most if draws is None else draws
        for i, pair in enumerate(pairs):
            left = math.inf if draws else (_END_SHARE - self.clock.passed) / (len(pairs) - i)
            one, other = self._drawn(pair, most, self.clock.passed + left)
            if len(one) < _MIN_DRAWS:
                reason = f"{_MIN_DRAWS} of each of two data sets take more than the time that is left"
                self.missed.append(f"whole releases, because {reason}; --trials 1000 makes them")
                break
            if len(one) < most:
                self.missed.append(f"losses that need more than {len(one):,} releases to show: {pair.described}")
            yield from self._claims(pair, one, other, len(pairs))

    def _drawn(self, pair: Pair, most: int, share: float) -> tuple[Floats, Floats]:
        """Return at most ``most`` releases of each data set, and only a few if time would not allow ``_MIN_DRAWS``."""
        released: tuple[list[Floats], list[Floats]] = ([], [])
        n, law = 0, self.planned.plan.final_step.law
        is_exact = law.draws_at_once and not law.has_normal_approximation
        size = _FIRST_SAMPLER_BATCH if is_exact else _FIRST_BATCH
        while n < most and (self.clock.report(share, "releasing from neighboring data sets") or not n):
            size = min(size, most - n)
            start = time.process_time()
            for rows, evidence in zip(released, (pair.one, pair.other), strict=True):
                rows.append(repeats.draw_releases(self.planned, evidence, size))
            n += size
            seconds = time.process_time() - start
            warm_up = _MOST_WARM_UP if n == size else 1.0
            needed = seconds / size / warm_up * (_MIN_DRAWS - n)
            if self.clock.passed + needed / self.clock.seconds > share:
                break
            if seconds < 0.5:
                size *= 2
        return np.concatenate(released[0]), np.concatenate(released[1])

    def _claims(self, pair: Pair, one: Floats, other: Floats, n_pairs: int) -> Iterator[AuditedClaim]:
        one, other = event_scores(one, other)
        guarantee, half = self.planned.plan.guarantee, len(one) // 2
        stated = [guarantee.statement(max(Decimal(delta), guarantee.delta)) for delta in _DELTAS]
        claims = list({claim.delta: claim for claim in stated if claim.epsilon.is_finite()}.values())
        n_bounds = 2 * len(claims) * n_pairs
        for claim in claims:
            delta, epsilon = float(claim.delta), float(claim.epsilon)
            event = best_event(one[:half], other[:half], delta=delta)
            proved = bound_loss(event, one[half:], other[half:], delta, n_bounds)
            event = best_event(one[:half], other[:half], epsilon=epsilon)
            least = bound_loss(event, one[half:], other[half:], delta, n_bounds).delta_at(epsilon, n_bounds)
            yield AuditedClaim(epsilon, proved, least, pair.described)
