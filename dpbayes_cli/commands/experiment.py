"""``dpbayes experiment``: run a study of many simulated releases."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbayes_cli.commands.output import detail, emit, emit_json, emit_table, output_options, say, verbosity

if TYPE_CHECKING:
    from dpbayes_cli.experiments.results import GridPoint
    from dpbayes_cli.experiments.runner import Progress
    from dpbayes_cli.experiments.study import Study


@click.command("experiment")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Directory [./experiment-<name>].")
@click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Processes [all cores].")
@click.option(
    "--trials", type=click.IntRange(2, 1_000_000), metavar="N", help="Trials per point of the grid [as FILE states]."
)
@click.option("--seed", type=click.IntRange(0, 1 << 62), metavar="S", help="Seed [as FILE states].")
@click.option(
    "--format",
    "formats",
    type=click.Choice(["svg", "png", "svg,png"]),
    default="svg",
    show_default=True,
    help="File format of the figures.",
)
@click.option("--case", "cases", multiple=True, metavar="NAME", help="Run only this case. May be repeated.")
@output_options
def command(
    file: Path,
    out: Path | None,
    jobs: int | None,
    trials: int | None,
    seed: int | None,
    formats: str,
    cases: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run the study in FILE; its output is not private: it is computed from exact statistics.

    \b
    dpbayes experiment configs/experiments/calibration.yaml --jobs 2
    dpbayes experiment configs/experiments/naive-bayes.yaml --format svg,png
    dpbayes experiment configs/experiments/logistic-regression.yaml --case abalone

    FILE states a grid of cases, methods and prices, repeated in trials: study: calibration asks whether posteriors hold
    the truth as often as they say; classification, hmm, logistic-regression and linear-regression how well new records
    are predicted; estimation how far off one number is; renyi-curves, renyi-utility and adversarial-data compute what
    draws of a posterior cost, and what they tell. What the papers show of each figure is told with its verdict: a claim
    that does not hold is no failure. The directory keeps every finished point: the same command finishes a killed run,
    and a changed study recomputes the points that changed.
    """
    from dpbayes_cli.experiments import NOT_PRIVATE
    from dpbayes_cli.experiments.report import result_rows
    from dpbayes_cli.experiments.runner import publish, run_study
    from dpbayes_cli.experiments.studies import read_study

    study = read_study(file, trials=trials, seed=seed, cases=cases)
    directory = Path(f"experiment-{study.name}") if out is None else out
    with _progress(study) as progress:
        results = run_study(study, directory, jobs or len(os.sched_getaffinity(0)), progress)
    written = publish(directory, study, results, formats.split(","))
    say(f"wrote {', '.join(written)} to {directory}: {NOT_PRIVATE}")
    rows, claims, shown = result_rows(study, results), study.claims(results), study.layout.shown
    if as_json:
        told = [claim._asdict() for claim in claims]
        emit_json({"stamp": NOT_PRIVATE, "study": study.name, "out": str(directory), "results": rows, "claims": told})
        return
    emit(NOT_PRIVATE)
    emit_table(shown, [[_text(row[name]) for name in shown] for row in rows])
    for claim in claims:
        emit(f"\n{claim.verdict}: {claim.source}, {claim.says}\n  {claim.measured}")


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextmanager
def _progress(study: Study) -> Iterator[Progress]:
    """Yield what a finished point is told to: a bar with the time left on a terminal, and words under ``-v``."""
    show: Callable[[int, int], None] = _show_nothing
    bar = None
    if sys.stderr is not None and sys.stderr.isatty() and verbosity() >= 0:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("points"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        task = bar.add_task("points", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

    def progress(point: GridPoint, seconds: float, done: int, total: int) -> None:
        show(done, total)
        detail(f"{done} of {total}: {study.label(point)}, {seconds:.2f} s")

    if bar is None:
        yield progress
        return
    with bar:
        yield progress


def _show_nothing(_done: int, _total: int) -> None:
    """Replace the bar if stderr is not a terminal."""
