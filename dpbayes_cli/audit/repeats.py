"""Draw many times, in this process and in fresh processes: draws must follow their law, and no sequence may recur.

Repeated draws in one process show whether the random generator restarts at every release. Draws of two processes show
whether the random generator starts from the same state in every process.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import numpy as np
from scipy.special import bdtr, bdtrc

from dpbayes_cli.audit.checks import Check
from dpbayes_cli.audit.events import clopper_pearson
from dpbayes_cli.audit.forced import UnknownDrawError, released_numbers, run_dictated
from dpbayes_cli.audit.langevin_checks import noise_streams
from dpbayes_cli.audit.laws import Stream
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.langevin import Langevin
from dpbayes_cli.core.plan import Step
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec
from dpbayes_cli.workflow.pricing import PlannedRelease, price
from dpbayes_cli.workflow.release import privatize, privatize_often

SMALLEST_P = 1e-11
"""Significance level of each test; an audit makes at most 10,000 tests, so its false-alarm rate is at most 1e-7."""
_MAX_ROWS = 2000
_MAX_STREAMS = 12
_MIN_RELEASES = 48
_MAX_BATCH = 25_000
WHOLE = "whole releases"


@dataclass(frozen=True)
class ProcessDraws:
    """The draws of one process: the rows of each stream, and whole releases."""

    rows: tuple[Any, ...]
    releases: tuple[tuple[float, ...], ...]


def planned_release(spec: ReleaseSpec, n_records: int) -> PlannedRelease:
    """Return the requested release with grids of fewer points, which change neither its cost nor its power."""
    planned = price(spec, n_records)
    if planned.plan.threshold is not None:
        reason = "an audit attacks groups with listed keys only: failures of probability delta are too rare to show"
        raise SpecError(reason, where="by.values", hint="list some keys: --groups FILE; the noise is the same")
    final_step = planned.plan.final_step
    return _with_final_step(planned, replace(final_step, law=final_step.law.coarsened()))


def _with_final_step(planned: PlannedRelease, final_step: Step) -> PlannedRelease:
    return replace(planned, plan=replace(planned.plan, steps=(*planned.plan.steps[:-1], final_step)))


def draw_releases(planned: PlannedRelease, evidence: ExactEvidence, n_draws: int) -> Floats:
    """Return the released numbers of many releases of the same evidence, shape (n_draws, n_numbers).

    A release of k draws is one row with all k draws. Samplers and independent chains make many draws at once; with
    other mechanisms, each row is a separate release.
    """
    final_step = planned.plan.final_step
    if not final_step.law.draws_at_once:
        return np.asarray([*map(released_numbers, privatize_often(planned, evidence, n_draws))], dtype=np.float64)
    rows: list[list[float]] = []
    while len(rows) < n_draws:
        size = min(_MAX_BATCH, n_draws - len(rows)) * final_step.draws
        released = privatize(_with_final_step(planned, replace(final_step, draws=size)), evidence)
        drawn = np.asarray(released.values, dtype=np.float64)
        rows += drawn.reshape(size // final_step.draws, -1).tolist()
    return np.asarray(rows)


def draw_streams(planned: PlannedRelease, evidence: ExactEvidence) -> list[Stream]:
    """Return the streams of a release, one for every kind of draw."""
    final_step = planned.plan.final_step
    if not final_step.law.can_be_dictated:
        return noise_streams(require_type(final_step.law, Langevin), evidence)
    try:
        elements = run_dictated(planned, evidence, 0, {}).elements
    except UnknownDrawError:
        return []
    kinds = {element.shape: element for element in reversed(elements)}
    drawable = (element.stream() for element in reversed(list(kinds.values())))
    return [stream for stream in drawable if stream is not None][:_MAX_STREAMS]


def draw_repeatedly(planned: PlannedRelease, evidence: ExactEvidence, seconds: float) -> ProcessDraws:
    """Draw rows from every stream, and whole releases, for about the given CPU time in total."""
    known = draw_streams(planned, evidence)
    share = seconds / (len(known) + 1)
    rows = tuple(np.array(_repeat(stream.again, _MAX_ROWS, share), dtype=np.float64) for stream in known)
    releases = _repeat(lambda: tuple(released_numbers(privatize(planned, evidence))), _MAX_ROWS // 10, share)
    return ProcessDraws(rows, tuple(releases))


def _repeat(draw: Any, most: int, seconds: float) -> list[Any]:
    draws, end = [draw()], time.process_time() + seconds
    while len(draws) < most and time.process_time() < end:
        draws.append(draw())
    return draws


@contextmanager
def fresh_processes(
    spec: ReleaseSpec, n_records: int, evidence: ExactEvidence, seconds: float, count: int
) -> Iterator[list[Any]]:
    """Start to draw in fresh processes, and yield their pending results; the processes end with the ``with`` block."""
    import msgspec

    if not count:
        yield []
        return
    document = msgspec.to_builtins(spec)
    with get_context("spawn").Pool(count, _begin) as pool:
        yield [pool.apply_async(_in_fresh_process, (document, n_records, evidence, seconds)) for _ in range(count)]


def _begin() -> None:
    """Ignore interrupts: the parent process handles them, and ends the fresh processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _in_fresh_process(
    document: dict[str, Any], n_records: int, evidence: ExactEvidence, seconds: float
) -> ProcessDraws:
    filled = {key: value for key, value in document.items() if value is not None}
    return draw_repeatedly(planned_release(build_spec(filled), n_records), evidence, seconds)


def compare_draws(known: Sequence[Stream], samples: Sequence[ProcessDraws]) -> Iterator[Check]:
    """Yield checks that the draws of each process follow the known streams, and that those of two processes differ."""
    for i, stream in enumerate(known):
        rows = [sample.rows[i] for sample in samples]
        p = min(_law_p(stream, np.concatenate(rows)), *(_independence_p(stream, sample) for sample in rows))
        n = sum(map(len, rows))
        name = f"draws of {stream.name}, {n:,} in {len(rows)} processes"
        yield Check(name, p > SMALLEST_P, f"p = {p:.2g}", f"a p-value above {SMALLEST_P:g}")
        masses = np.diff(stream.below, axis=1, prepend=0.0, append=1.0)
        collision = float(np.prod((masses**2).sum(axis=1)))
        yield from _check_different(stream.name, [sample.tolist() for sample in rows], collision)
    releases = [list(sample.releases) for sample in samples]
    same = [sum(a == b for a, b in zip(drawn[::2], drawn[1::2], strict=False)) for drawn in releases]
    pairs = sum(len(drawn) // 2 for drawn in releases)
    collision = clopper_pearson(sum(same), pairs, 1000)[1] if pairs else 1.0
    if min(map(len, releases), default=0) >= _MIN_RELEASES:
        yield from _check_different(WHOLE, releases, collision)


def _check_different(name: str, rows: list[list[Any]], collision: float) -> Iterator[Check]:
    """Yield a failed check if two processes drew equal sequences; two draws agree with probability ``collision``."""
    for one, other in itertools.combinations(rows, 2):
        n = min(len(one), len(other))
        if collision**n < SMALLEST_P and one[:n] == other[:n]:
            yield Check(f"{name} in two fresh processes", False, f"{n} draws are the same", "different draws")
            return


def _law_p(stream: Stream, rows: Floats) -> float:
    """Return a p-value for the law: a union bound over exact binomial tests, one for each number and threshold."""
    counts = (rows[:, :, None] <= stream.thresholds[None]).sum(axis=0)
    tails = _tails(counts, len(rows), stream.below)
    return min(1.0, float(tails.min()) * tails.size)


def _independence_p(stream: Stream, rows: Floats) -> float:
    """Return a p-value for the independence of successive rows, and of adjacent numbers of a row."""
    middle = stream.below.shape[1] // 2
    low, p = rows <= stream.thresholds[:, middle], stream.below[:, middle]
    n = len(rows) // 2
    tests = [_tails((low[: 2 * n : 2] & low[1 : 2 * n : 2]).sum(axis=0), n, p**2)] if n else []
    if len(p) > 1:
        tests.append(_tails((low[:, 1:] & low[:, :-1]).sum(axis=0), len(rows), p[1:] * p[:-1]))
    tails = np.concatenate(tests) if tests else np.ones(1)
    return min(1.0, float(tails.min()) * tails.size)


def _tails(counts: Any, n: int, p: Floats) -> Floats:
    p = np.clip(p, 0.0, 1.0)
    above = np.where(counts > 0, bdtrc(np.maximum(counts - 1, 0), n, p), 1.0)
    return np.asarray(np.minimum(1.0, 2.0 * np.minimum(bdtr(counts, n, p), above)))
