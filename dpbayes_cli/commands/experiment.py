"""``dpbayes experiment``: run a study of methods on many simulated releases."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbayes_cli.commands import interruption
from dpbayes_cli.commands.options import PATH
from dpbayes_cli.commands.output import emit, emit_json, emit_table, output_options, say, say_detail
from dpbayes_cli.commands.progress import progress_bar

if TYPE_CHECKING:
    from dpbayes_cli.experiments.results import GridPoint


@click.command("experiment")
@click.argument("file", type=PATH)
@click.option("--out", type=PATH, metavar="DIR", help="Directory [./experiment-<name>].")
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

    FILE names the kind of study, and states a grid of cases, methods and privacy costs; each point of the grid is
    simulated several times (trials). calibration and regression-calibration measure how often credible intervals
    contain the true value. classification, hmm, logistic-regression and linear-regression measure how well new records
    are predicted. estimation measures the error of the estimate of a parameter, and groups the errors for many groups
    of records. renyi-curves, renyi-utility and adversarial-data measure the privacy cost of posterior draws, and what
    the draws reveal. benchmark compares estimates with those of other packages, regression-accuracy predictions and
    coefficients, and synthetic analyses of synthetic records.

    The output compares the results with claims of published papers; the exit code is 0 even if a claim does not hold.
    Every finished point is saved in the output directory. The same command therefore finishes a killed run; after a
    change of FILE, it recomputes only the points that the change affects.
    """
    from dpbayes_cli.experiments import NOT_PRIVATE
    from dpbayes_cli.experiments.runner import publish, result_rows, run_study
    from dpbayes_cli.experiments.study import read_study

    study = read_study(file, trials=trials, seed=seed, cases=cases)
    directory = Path(f"experiment-{study.name}") if out is None else out
    interruption.explain_with(lambda: "the finished points are saved; run the same command again to compute the others")
    with progress_bar() as update:

        def progress(point: GridPoint, seconds: float, done: int, total: int) -> None:
            update(completed=done / total, description=f"{done} of {total}")
            say_detail(f"{done} of {total}: {study.label(point)}, {seconds:.2f} s")

        results = run_study(study, directory, jobs or len(os.sched_getaffinity(0)), progress)
    written = publish(directory, study, results, formats.split(","))
    say(f"wrote {', '.join(written)} to {directory}: {NOT_PRIVATE}")
    rows, claims, shown = result_rows(study, results), list(study.claims(results)), study.shown
    if as_json:
        listed = [claim._asdict() for claim in claims]
        emit_json({"stamp": NOT_PRIVATE, "study": study.name, "out": str(directory), "results": rows, "claims": listed})
        return
    emit(NOT_PRIVATE)
    emit_table(shown, [[_text(row[name]) for name in shown] for row in rows])
    for claim in claims:
        emit(f"\n{claim.verdict}: {claim.source}, {claim.says}\n  {claim.measured}")


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
