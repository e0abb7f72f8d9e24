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
    from dpbayes_cli.experiments.cell import Cell
    from dpbayes_cli.experiments.runner import Progress


@click.command("experiment")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Directory [./experiment-<name>].")
@click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Processes [all cores].")
@click.option("--trials", type=click.IntRange(2, 1_000_000), metavar="N", help="Trials per cell [the file's].")
@click.option("--seed", type=click.IntRange(0, 1 << 62), metavar="S", help="Seed [the file's].")
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
    """Run the study in FILE. Its results are NOT PRIVATE: they are computed from exact statistics.

    \b
    dpbayes experiment configs/experiments/calibration.yaml --jobs 2
    dpbayes experiment configs/experiments/naive-bayes.yaml --format svg,png
    dpbayes experiment configs/experiments/logistic-regression.yaml --case abalone

    FILE states a grid of cases, methods and privacy costs, and the number of trials of each cell. The key study says
    what is measured. calibration: how often credible intervals hold the true parameter. classification, hmm,
    logistic-regression and linear-regression: how well new records are predicted. estimation: the error of one number.
    renyi-curves, renyi-utility and adversarial-data: what posterior draws cost, and what they reveal.

    Claims of the papers about each figure are printed with a verdict; a claim that does not hold is not an error. The
    directory keeps every finished cell: the same command finishes a killed run, and a changed study computes only the
    cells that changed.
    """
    from dpbayes_cli.experiments import NOT_PRIVATE
    from dpbayes_cli.experiments.kinds import kind_of, read_study
    from dpbayes_cli.experiments.runner import run_study
    from dpbayes_cli.experiments.stamped import figure_formats
    from dpbayes_cli.experiments.study import overridden, restricted

    study = overridden(read_study(file), trials=trials, seed=seed)
    if cases:
        study = restricted(study, cases)
    directory = Path(f"experiment-{study.name}") if out is None else out
    with _progress() as progress:
        results = run_study(study, directory, jobs or len(os.sched_getaffinity(0)), progress)
    from dpbayes_cli.experiments.publish import publish

    kind = kind_of(study)
    written = publish(directory, study, results, figure_formats(formats))
    say(f"wrote {', '.join(written)} to {directory}: {NOT_PRIVATE}")
    rows, claims = kind.rows(results), kind.claims(study, results)
    if as_json:
        documents = [claim.document for claim in claims]
        header = {"stamp": NOT_PRIVATE, "study": study.name, "out": str(directory)}
        emit_json({**header, "results": rows, "claims": documents})
        return
    emit(NOT_PRIVATE)
    emit_table(kind.shown, [[_text(row[name]) for name in kind.shown] for row in rows])
    for claim in claims:
        emit(f"\n{claim.verdict}: {claim.source}, {claim.says}\n  {claim.measured}")


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextmanager
def _progress() -> Iterator[Progress]:
    """Yield a callback for finished cells: a bar with the time left on a terminal, messages under ``-v``."""
    show: Callable[[int, int], None] = _show_nothing
    bar = None
    if sys.stderr is not None and sys.stderr.isatty() and verbosity() >= 0:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        task = bar.add_task("cells", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

    def progress(cell: Cell, seconds: float, done: int, total: int) -> None:
        show(done, total)
        detail(f"{done} of {total}: {cell.label}, {seconds:.2f} s")

    if bar is None:
        yield progress
        return
    with bar:
        yield progress


def _show_nothing(_done: int, _total: int) -> None:
    """Replace the bar if stderr is not a terminal."""
