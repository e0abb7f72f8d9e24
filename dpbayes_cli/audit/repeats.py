"""Drawing again and again, here and in fresh processes: draws must follow their law, and never come again.

What restarts at every release shows in one process, what restarts with the process in two.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from dpbayes_cli.audit.checks import Check
from dpbayes_cli.audit.events import clopper_pearson
from dpbayes_cli.audit.forced import UnknownDrawError, can_be_dictated, numbers, on_smaller_covers, run
from dpbayes_cli.audit.langevin_checks import noise_streams
from dpbayes_cli.audit.laws import Stream
from dpbayes_cli.core.langevin import Langevin
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec
from dpbayes_cli.workflow.pricing import PlannedRelease, price
from dpbayes_cli.workflow.release import privatized

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

SMALLEST_P = 1e-11
"""Of one test; at most some ten thousand are made, so that together they raise a false alarm once in 1e7 audits."""
_MOST_ROWS = 2000
_MOST_STREAMS = 12
_FEWEST_RELEASES = 48
WHOLE = "whole releases"


@dataclass(frozen=True)
class ProcessDraws:
    """What one process drew: for each stream its rows, and whole releases."""

    rows: tuple[Any, ...]
    releases: tuple[tuple[float, ...], ...]


def planned_release(spec: ReleaseSpec, n_records: int) -> PlannedRelease:
    """Return the release that is audited, with covers of few points.

    Raises:
        SpecError: it has no price.
    """
    return on_smaller_covers(price(spec, n_records))


def streams(planned: PlannedRelease, evidence: ExactEvidence) -> list[Stream]:
    """Return what a release draws, one stream for every kind of draw."""
    if not can_be_dictated(planned):
        return noise_streams(require_type(planned.plan.final_step.law, Langevin), evidence)
    try:
        elements = run(planned, evidence, 0, {}).elements
    except UnknownDrawError:
        return []
    kinds = {element.shape: element for element in reversed(elements)}
    found = [element.stream() for element in reversed(list(kinds.values()))]
    return [stream for stream in found if stream is not None][:_MOST_STREAMS]


def draw_again(planned: PlannedRelease, evidence: ExactEvidence, seconds: float) -> ProcessDraws:
    """Draw from every stream one row after the other, and release as a whole, in about so many seconds."""
    import numpy as np

    known = streams(planned, evidence)
    each = seconds / (len(known) + 1)
    rows = tuple(np.array(_repeated(stream.again, _MOST_ROWS, each), dtype=np.float64) for stream in known)
    releases = _repeated(lambda: tuple(numbers(privatized(planned, evidence))), _MOST_ROWS // 10, each)
    return ProcessDraws(rows, tuple(releases))


def _repeated(draw: Any, most: int, seconds: float) -> list[Any]:
    found, end = [draw()], time.monotonic() + seconds
    while len(found) < most and time.monotonic() < end:
        found.append(draw())
    return found


@contextmanager
def fresh_processes(
    spec: ReleaseSpec, n_records: int, evidence: ExactEvidence, seconds: float, count: int
) -> Iterator[list[Any]]:
    """Begin to draw in processes of their own, and yield what to ask for their samples; they end with the context."""
    import msgspec

    if not count:
        yield []
        return
    document = msgspec.to_builtins(spec)
    with get_context("spawn").Pool(count, _begin) as pool:
        yield [pool.apply_async(_in_fresh_process, (document, n_records, evidence, seconds)) for _ in range(count)]


def _begin() -> None:
    """Leave interrupts to the parent, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _in_fresh_process(
    document: dict[str, Any], n_records: int, evidence: ExactEvidence, seconds: float
) -> ProcessDraws:
    filled = {key: value for key, value in document.items() if value is not None}
    return draw_again(planned_release(build_spec(filled), n_records), evidence, seconds)


def compared(known: Sequence[Stream], samples: Sequence[ProcessDraws]) -> Iterator[Check]:
    """Compare what processes drew with its law, and with each other's draws.

    Args:
        known: the streams.
        samples: of each process.
    """
    import numpy as np

    for i, stream in enumerate(known):
        rows = [sample.rows[i] for sample in samples]
        p = min(_law(stream, np.concatenate(rows)), *(_apart(stream, each) for each in rows))
        n = sum(map(len, rows))
        name = f"draws of {stream.name}, {n:,} in {len(rows)} processes"
        yield Check(name, p > SMALLEST_P, f"p = {p:.2g}", f"a p above {SMALLEST_P:g}")
        masses = np.diff(stream.below, axis=1, prepend=0.0, append=1.0)
        yield from _again(stream.name, [each.tolist() for each in rows], float(np.prod((masses**2).sum(axis=1))))
    releases = [list(sample.releases) for sample in samples]
    same = [sum(a == b for a, b in zip(each[::2], each[1::2], strict=False)) for each in releases]
    pairs = sum(len(each) // 2 for each in releases)
    collision = clopper_pearson(sum(same), pairs, 1000)[1] if pairs else 1.0
    if min(map(len, releases), default=0) >= _FEWEST_RELEASES:
        yield from _again(WHOLE, releases, collision)


def _again(name: str, rows: list[list[Any]], collision: float) -> Iterator[Check]:
    """Yield whether processes draw the same, where chance would not have them do so."""
    for i in range(len(rows)):
        for j in range(i):
            n = min(len(rows[i]), len(rows[j]))
            if collision**n < SMALLEST_P:
                same = rows[i][:n] == rows[j][:n]
                if same:
                    yield Check(f"{name} in two fresh processes", False, f"{n} draws are the same", "different draws")
                    return


def _law(stream: Stream, rows: Floats) -> float:
    """Return a p-value: by binomial tails, at every threshold of every place; exact but for the union of all."""
    counts = (rows[:, :, None] <= stream.thresholds[None]).sum(axis=0)
    tails = _tails(counts, len(rows), stream.below)
    return min(1.0, float(tails.min()) * tails.size)


def _apart(stream: Stream, rows: Floats) -> float:
    """Return a p-value of independence: of successive rows, and of neighboring places of a row."""
    import numpy as np

    middle = stream.below.shape[1] // 2
    low, p = rows <= stream.thresholds[:, middle], stream.below[:, middle]
    n = len(rows) // 2
    found = [_tails((low[: 2 * n : 2] & low[1 : 2 * n : 2]).sum(axis=0), n, p**2)] if n else []
    if len(p) > 1:
        found.append(_tails((low[:, 1:] & low[:, :-1]).sum(axis=0), len(rows), p[1:] * p[:-1]))
    tails = np.concatenate(found) if found else np.ones(1)
    return min(1.0, float(tails.min()) * tails.size)


def _tails(counts: Any, n: int, p: Floats) -> Floats:
    """Return twice the smaller tail of binomial counts."""
    import numpy as np
    from scipy.special import bdtr, bdtrc

    p = np.clip(p, 0.0, 1.0)
    above = np.where(counts > 0, bdtrc(np.maximum(counts - 1, 0), n, p), 1.0)
    return np.asarray(np.minimum(1.0, 2.0 * np.minimum(bdtr(counts, n, p), above)))
