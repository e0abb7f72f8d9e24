"""Draw one planned release many times, through the mechanism that users run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpbayes_cli.audit.forced import released_numbers
from dpbayes_cli.core.released import Draws, Payload
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.workflow.pricing import PlannedRelease
from dpbayes_cli.workflow.release import privatize

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_MAX_BATCH = 25_000


def first_batch_size(planned: PlannedRelease) -> int:
    """Return the size of the first batch: large for samplers, which compute their law once a call."""
    return 2000 if _batched(planned) else 16


def _batched(planned: PlannedRelease) -> bool:
    return planned.plan.final_step.law.draws_at_once


def draw_releases(planned: PlannedRelease, evidence: ExactEvidence, n_draws: int) -> Floats:
    """Return the released numbers of many releases of the same evidence, shape (n_draws, n_numbers).

    A release of k draws is one row with all k. Draws of samplers and of independent chains are made in large batches;
    all others are separate releases.
    """
    import numpy as np

    final_step = planned.plan.final_step
    if _batched(planned):
        rows: list[list[float]] = []
        while len(rows) < n_draws:
            size = min(_MAX_BATCH, n_draws - len(rows)) * final_step.draws
            many = replace(planned.plan, steps=(*planned.plan.steps[:-1], replace(final_step, draws=size)))
            drawn = np.asarray(_draw_values(privatize(replace(planned, plan=many), evidence)), dtype=np.float64)
            rows += drawn.reshape(size // final_step.draws, -1).tolist()
        return np.asarray(rows)
    return np.asarray([released_numbers(privatize(planned, evidence)) for _ in range(n_draws)], dtype=np.float64)


def _draw_values(released: Payload | Draws) -> list[tuple[float, ...]]:
    if isinstance(released, Payload):
        raise TypeError("a sampler releases draws")
    return list(released.values)
