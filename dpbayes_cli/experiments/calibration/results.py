"""The tables of a calibration study: one row a cell, one row a trial, and a summary; each stamped NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.calibration.cell import CalibrationCell
from dpbayes_cli.experiments.calibration.measures import INTERVAL, ks_band
from dpbayes_cli.experiments.calibration.study import CalibrationStudy, parameter_of
from dpbayes_cli.experiments.stamped import stamped_csv
from dpbayes_cli.experiments.store import FinishedCell

Results = Sequence[tuple[CalibrationCell, FinishedCell]]

_PLACE = ("case", "model", "parameter", "n", "epsilon", "method")
_MEASURES = ("ks", "ks_p_value", "coverage", "mean_sd", "mmd", "mmd_squared", "mmd_squared_error")
_ALARM = 0.001


def rows(results: Results) -> list[dict[str, Any]]:
    """Return one object a cell: its place in the grid, and its measures."""
    found = []
    for cell, result in results:
        place = (cell.name, cell.case.model, parameter_of(cell.case), cell.n_records, cell.epsilon, cell.method)
        measures = {name: result.measures[name] for name in _MEASURES}
        found.append({**dict(zip(_PLACE, place, strict=True)), "trials": cell.trials, **measures})
    return found


def results_csv(results: Results) -> bytes:
    """Return the bytes of ``results.csv``: the stamp, the place in the grid, the measures."""
    table = ([row[name] for name in (*_PLACE, "trials", *_MEASURES)] for row in rows(results))
    return stamped_csv((*_PLACE, "trials", *_MEASURES), table)


def ranks_csv(results: Results) -> bytes:
    """Return the bytes of ``ranks.csv``: the true parameter and its rank, one row a trial."""
    table = (
        (cell.name, cell.case.model, parameter, cell.n_records, cell.epsilon, cell.method, trial, theta, rank)
        for cell, result in results
        for parameter in [parameter_of(cell.case)]
        for trial, (theta, rank) in enumerate(zip(result.trials["theta"], result.trials["rank"], strict=True))
    )
    return stamped_csv((*_PLACE, "trial", "theta", "rank"), table)


def summary_markdown(study: CalibrationStudy, results: Results, figures: Sequence[str]) -> bytes:
    """Return the bytes of ``summary.md``."""
    caught = sum(result.measures["ks_p_value"] < _ALARM for _, result in results)  # type: ignore[operator]
    lines = [
        f"# Study `{study.name}`",
        f"**{NOT_PRIVATE}.** Parameters from the prior, complete records from the model, noise of `{study.mechanism}`.",
        f"{len(results)} cells of {study.trials} trials and {study.draws} posterior draws, seed {study.seed}. "
        f"95 % of cells with a correct posterior have a KS distance below {ks_band(study.trials):.4f}. "
        f"{caught} cells have a p-value below {_ALARM:g}.",
        *(_case_table(name, results) for name in study.cases),
        "## Figures\n\n" + "\n".join(f"- [{name}]({name})" for name in figures),
        "`ks`: Kolmogorov-Smirnov distance of the ranks of the true parameter from uniform. "
        f"`coverage`: of central {INTERVAL:.0%} intervals. `mmd`: distance to the non-private posterior, kernel "
        "exp(-|x - y|^2 / 2), unbiased estimate, 0 where it is negative.",
    ]
    return ("\n\n".join(lines) + "\n").encode("utf-8")


def _case_table(name: str, results: Results) -> str:
    lines = [
        f"## {name}",
        "",
        "| n | epsilon | method | ks | p-value | coverage | mean sd | mmd |",
        "|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    for cell, result in results:
        if cell.name == name:
            found = result.measures
            mmd = "" if found["mmd"] is None else f"{found['mmd']:.4f}"
            lines.append(
                f"| {cell.n_records} | {cell.epsilon} | {cell.method} | {found['ks']:.4f} | {found['ks_p_value']:.2g} "
                f"| {found['coverage']:.3f} | {found['mean_sd']:.4g} | {mmd} |"
            )
    return "\n".join(lines)
