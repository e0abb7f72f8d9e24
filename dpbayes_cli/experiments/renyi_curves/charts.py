"""The figure of a study of Renyi curves: epsilon against the order, one line a weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.experiments.renyi_curves.cell import RenyiCurveCell
from dpbayes_cli.experiments.renyi_curves.study import RenyiCurvesStudy
from dpbayes_cli.experiments.stamped import stamped_panels
from dpbayes_cli.experiments.tables import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LARGEST = 2.0
"""The paper's figure ends there."""


def charts(study: RenyiCurvesStudy, results: Results[RenyiCurveCell]) -> dict[str, Figure]:
    """Return the figure by name: a panel a case and method; solid where records are complete."""
    from matplotlib import colormaps

    colors = {weight: colormaps["viridis"](k / len(study.weights)) for k, weight in enumerate(study.weights)}

    def draw(axes: Axes, name: str, method: str) -> None:
        for cell, result in results:
            if (cell.name, cell.method) == (name, method):
                complete = cell.records == "complete"
                axes.plot(
                    result.trials["order"], result.trials["epsilon"], color=colors[cell.weight], linewidth=1.2,
                    linestyle="-" if complete else ":",
                    label=f"r, m = {cell.weight}" if complete else "dropped records",
                )  # fmt: skip
                if complete and cell.order_max <= study.highest_order:
                    axes.axvline(cell.order_max, color=colors[cell.weight], linewidth=0.5, linestyle="--")
        axes.set_xlim(0.0, study.highest_order)
        axes.set_ylim(0.0, _LARGEST)
        axes.set_xlabel("order")
        axes.set_ylabel("epsilon")
        axes.set_title(f"{name}, {method}", fontsize=9)

    panels = [(name, method) for name in study.cases for method in study.methods]
    title = "What one draw of the posterior costs; dashed: the orders from which on it is infinite"
    return {"curves": stamped_panels(panels, len(study.methods), draw, title, panel=4.2)}
