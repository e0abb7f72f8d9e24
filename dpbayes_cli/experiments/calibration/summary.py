"""The summary of a calibration study, stamped NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Sequence

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.calibration.cell import CalibrationCell
from dpbayes_cli.experiments.calibration.measures import INTERVAL, ks_band
from dpbayes_cli.experiments.calibration.study import CalibrationStudy
from dpbayes_cli.experiments.tables import Results

_ALARM = 0.001


def summary_markdown(study: CalibrationStudy, results: Results[CalibrationCell], figures: Sequence[str]) -> bytes:
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


def _case_table(name: str, results: Results[CalibrationCell]) -> str:
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
