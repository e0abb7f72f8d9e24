"""Many independent draws of one planned release, through the mechanism that draws it for users."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpbayes_cli.audit.forced import numbers
from dpbayes_cli.core.released import Draws, Payload
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.workflow.pricing import PlannedRelease
from dpbayes_cli.workflow.release import privatized

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_AT_ONCE = 25_000


def drawn_at_once(planned: PlannedRelease) -> int:
    """Return how many releases are asked for first: of samplers many, for one call computes their law once."""
    return 2000 if _batched(planned) else 16


def _batched(planned: PlannedRelease) -> bool:
    return planned.plan.final_step.law.draws_at_once


def answers(planned: PlannedRelease, evidence: ExactEvidence, n_draws: int) -> Floats:
    """Return what so many releases of the same evidence let out, shape (n_draws, n_numbers).

    A release of k draws is one row of all of them. Draws of a sampler, and chains that are independent of each other,
    are asked for in one call; all others are releases of their own.
    """
    import numpy as np

    answer = planned.plan.final_step
    if _batched(planned):
        found: list[list[float]] = []
        while len(found) < n_draws:
            size = min(_AT_ONCE, n_draws - len(found)) * answer.draws
            many = replace(planned.plan, steps=(*planned.plan.steps[:-1], replace(answer, draws=size)))
            drawn = np.asarray(_numbers(privatized(replace(planned, plan=many), evidence)), dtype=np.float64)
            found += drawn.reshape(size // answer.draws, -1).tolist()
        return np.asarray(found)
    return np.asarray([numbers(privatized(planned, evidence)) for _ in range(n_draws)], dtype=np.float64)


def _numbers(released: Payload | Draws) -> list[tuple[float, ...]]:
    if isinstance(released, Payload):
        raise TypeError("a sampler draws")
    return list(released.values)
