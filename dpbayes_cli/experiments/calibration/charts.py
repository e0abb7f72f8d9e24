"""The figures of a calibration study: KS distance and MMD against n, and how the ranks are distributed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.experiments.calibration.cell import CalibrationCell
from dpbayes_cli.experiments.calibration.measures import ks_band
from dpbayes_cli.experiments.calibration.study import CalibrationStudy
from dpbayes_cli.experiments.stamped import stamped_panels
from dpbayes_cli.experiments.tables import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES = {
    "noise-aware": ("tab:blue", "o"),
    "naive": ("tab:red", "s"),
    "ops": ("tab:orange", "^"),
    "non-private": ("0.35", "d"),
}


def charts(study: CalibrationStudy, results: Results[CalibrationCell]) -> dict[str, Figure]:
    """Return the figures by name."""
    found = {"ks": _against_n(study, results, "ks", "KS distance of the ranks")}
    for name in study.cases:
        found[f"ranks-{name}"] = _ranks(study, name, results)
    if study.mmd:
        found["mmd"] = _against_n(study, results, "mmd", "MMD to the non-private posterior")
    return found


def _against_n(study: CalibrationStudy, results: Results[CalibrationCell], measure: str, title: str) -> Figure:
    """Draw one panel a case and epsilon, one line a method, on log axes."""

    def draw(axes: Axes, name: str, epsilon: str) -> None:
        for method in study.methods:
            points = [
                (cell.n_records, result.measures[measure])
                for cell, result in results
                if (cell.name, cell.epsilon, cell.method) == (name, epsilon, method)
            ]
            drawn = [(n, value) for n, value in points if value]
            if drawn:
                color, marker = _STYLES[method]
                axes.plot(*zip(*drawn, strict=True), color=color, marker=marker, markersize=4, label=method)
        if measure == "ks":
            axes.axhspan(1e-4, ks_band(study.trials), color="0.9", zorder=0)
            axes.set_ylim(0.005, 1.2)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("number of records n")
        axes.set_title(f"{name}, epsilon {epsilon}", fontsize=9)

    band = f"; grey: 95 % of {study.trials} uniform ranks" if measure == "ks" else ""
    panels = [(name, epsilon) for epsilon in study.epsilon for name in study.cases]
    return stamped_panels(panels, len(study.cases), draw, f"{title}{band}")


def _ranks(study: CalibrationStudy, name: str, results: Results[CalibrationCell]) -> Figure:
    """Draw the empirical distribution of the ranks, one panel an epsilon and n, one line a method."""

    def draw(axes: Axes, epsilon: str, n: int) -> None:
        for cell, result in results:
            if (cell.name, cell.epsilon, cell.n_records) == (name, epsilon, n):
                axes.ecdf(result.trials["rank"], color=_STYLES[cell.method][0], linewidth=1.2, label=cell.method)
        band = ks_band(study.trials)
        axes.fill_between([0.0, 1.0], [-band, 1.0 - band], [band, 1.0 + band], color="0.9", zorder=0)
        axes.set_xlim(0.0, 1.0)
        axes.set_ylim(0.0, 1.0)
        axes.set_title(f"n {n}, epsilon {epsilon}", fontsize=9)

    panels = [(epsilon, n) for epsilon in study.epsilon for n in study.n]
    return stamped_panels(panels, len(study.n), draw, f"Ranks of the true parameter, {name}")
