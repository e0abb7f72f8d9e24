"""An audit of one question: its parts looked at, then the whole attacked with data that it must not tell apart."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from dpbayes_cli.audit.checks import Check, white_box
from dpbayes_cli.audit.draws import answers
from dpbayes_cli.audit.events import Bound, best_event, bound, scores_of
from dpbayes_cli.audit.neighbours import Pair, pairs
from dpbayes_cli.contracts import Chain, Plan
from dpbayes_cli.errors import SpecError
from dpbayes_cli.pricing import price
from dpbayes_cli.privacy.noise import DiscreteGaussian, DiscreteLaplace
from dpbayes_cli.privacy.part_noise import PartNoise
from dpbayes_cli.private_quantile import PrivateBounds
from dpbayes_cli.question import Question
from dpbayes_cli.sources.location import Location
from dpbayes_cli.spec.release_spec import ReleaseSpec

if TYPE_CHECKING:
    from dpbayes_cli.privacy.guarantee import Guarantee

N_RECORDS = 8
"""Few records: the one that differs weighs the most among few."""
DRAWS, DRAWS_OF_CHAINS, DRAWS_OF_BOUNDS = 100_000, 10_000, 2_000
_MOST_NUMBERS = 10_000_000
_PILOT = 1000
_DELTAS = ("0", "1e-6", "1e-3", "1e-2", "0.1")
DOES_NOT_PROVE = (
    "Passing does not prove the guarantee: a lower bound below the claim is what a mechanism shows that loses less "
    "than it may, and also one that was attacked clumsily. The proofs are in the docstrings of the code.",
    "Attacked were a few pairs of data sets of a few records, not all; losses that need more draws than these to "
    "show, such as a delta of 1e-6, do not show.",
    "Time, memory and what a machine's other users see are not looked at.",
)


@dataclass(frozen=True)
class Claim:
    """What a guarantee claims at a delta, and what an attack proves against it.

    Attributes:
        epsilon: what is claimed.
        bound: what is proved.
        delta_at_epsilon: every delta below it is disproved at the claimed epsilon.
    """

    epsilon: float
    bound: Bound
    delta_at_epsilon: float

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
        draws: of each.
        pair: the data sets that were attacked with all draws.
        checks: the parts.
        claims: the whole, at several deltas.
    """

    guarantee: Guarantee
    n_records: int
    draws: int
    pair: str
    checks: tuple[Check, ...]
    claims: tuple[Claim, ...]

    @property
    def findings(self) -> list[str]:
        """What is wrong, one sentence each."""
        parts = [f"{c.name}: {c.measured}, and not {c.allowed}" for c in self.checks if not c.ok]
        return parts + [
            f"at delta {claim.bound.delta:g} epsilon {claim.bound.epsilon:.4g} is proved, and at epsilon "
            f"{claim.epsilon:.4g}, which is claimed there, delta {claim.delta_at_epsilon:.3g}"
            for claim in self.claims
            if not claim.ok
        ]


def audit(spec: ReleaseSpec, n_records: int | None = None, draws: int | None = None) -> Audit:
    """Audit the mechanism that a spec names, with data that are made up; nothing is charged.

    Args:
        spec: the question.
        n_records: of the data sets; None: a few, where the spec states no number.
        draws: of each data set; None: ``DRAWS``, of chains ``DRAWS_OF_CHAINS``.

    Raises:
        SpecError: the question has no price, or no data set of so few records.
    """
    n = n_records or spec.records or N_RECORDS
    model, mechanism, plan = price(spec, n)
    question = Question(spec, Location("-", ()), "audit", model, mechanism, plan, n)
    draws = draws or _draws(plan)
    with tempfile.TemporaryDirectory() as directory:
        found = pairs(question, n, Path(directory))
    if not found:
        raise SpecError("there are no neighbours to attack with", where="privacy.neighbors")
    checks = tuple(white_box(question, found, min(draws, DRAWS)))
    pair = _weakest(question, found, min(_PILOT, draws // 10))
    return Audit(plan.guarantee, n, draws, pair.described, checks, tuple(_attacked(question, pair, draws)))


def _draws(plan: Plan) -> int:
    """Return how many releases are affordable: in time, and in the numbers that they let out together."""
    if isinstance(plan.steps[0].law, PrivateBounds):
        return DRAWS_OF_BOUNDS
    wide = len(plan.answer.statistic.names) * max(1, plan.answer.draws)
    return max(1000, min(DRAWS_OF_CHAINS if isinstance(plan.answer.law, Chain) else DRAWS, _MOST_NUMBERS // wide))


def _weakest(question: Question, found: Sequence[Pair], pilot: int) -> Pair:
    """Return the pair that a few draws tell apart best."""
    if isinstance(question.plan.answer.law, DiscreteLaplace | DiscreteGaussian | PartNoise):
        apart = {tuple(a - b for a, b in zip(p.one.values, p.other.values, strict=True)): p for p in found[::-1]}
        found = list(apart.values())  # noise sees the difference alone
    if len(found) == 1:
        return found[0]

    def told_apart(pair: Pair) -> float:
        one, other = scores_of(*(answers(question, evidence, pilot) for evidence in (pair.one, pair.other)))
        event = best_event(one, other)
        return bound(event, one, other, 0.0, 1).epsilon

    return max(found, key=told_apart)


def _attacked(question: Question, pair: Pair, draws: int) -> Iterator[Claim]:
    one, other = scores_of(answers(question, pair.one, draws), answers(question, pair.other, draws))
    guarantee, half = question.plan.guarantee, draws // 2
    stated = [(delta, guarantee.statement(max(Decimal(delta), guarantee.delta))) for delta in _DELTAS]
    known = [statement for _, statement in stated if statement.epsilon.is_finite()]
    claims = list({float(statement.delta): statement for statement in known}.values())
    for statement in claims:
        delta = float(statement.delta)
        epsilon, n_bounds = float(statement.epsilon), 2 * len(claims)
        event = best_event(one[:half], other[:half], delta=delta)
        proved = bound(event, one[half:], other[half:], delta, n_bounds)
        event = best_event(one[:half], other[:half], epsilon=epsilon)
        least = bound(event, one[half:], other[half:], delta, n_bounds).delta_at(epsilon, n_bounds)
        yield Claim(epsilon, proved, least)
