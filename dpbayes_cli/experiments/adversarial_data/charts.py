"""The figures of a study of adversarial data: the local epsilon, and the local divergence, against the records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.experiments.adversarial_data.cell import AdversaryCell
from dpbayes_cli.experiments.adversarial_data.study import AdversarialStudy
from dpbayes_cli.experiments.stamped import stamped_panels
from dpbayes_cli.experiments.tables import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def charts(study: AdversarialStudy, results: Results[AdversaryCell]) -> dict[str, Figure]:
    """Return the figure by name: a panel a case."""
    found = {cell.name: result for cell, result in results}

    def draw(axes: Axes, name: str) -> None:
        result = found[name]
        n = np.arange(1, len(result.trials["local_epsilon"]) + 1)
        axes.plot(n, result.trials["local_epsilon"], color="tab:blue", label="local epsilon")
        axes.plot(n, result.trials["local_divergence"], color="tab:orange", label="local divergence of order 2")
        worst, largest = result.measures["worst_case"], result.measures["largest_divergence"]
        axes.axhline(float(str(worst)), color="tab:blue", linestyle="--", linewidth=1.0, label="worst case of epsilon")
        charged: dict[str, Any] = {"color": "tab:orange", "marker": "x", "linestyle": "", "label": "charged at order 2"}
        axes.plot([n[-1]], [float(str(largest))], **charged)
        axes.set_xscale("log")
        axes.set_xlabel("records that an adversary added")
        axes.set_title(
            f"{name}, theta in [{study.cases[name].support[0]:g}, {study.cases[name].support[1]:g}]", fontsize=9
        )

    panels = [(name,) for name in study.cases]
    title = "What one posterior sample loses on data of an adversary"
    return {"local-epsilon": stamped_panels(panels, min(len(panels), 3), draw, title, share_y=False, panel=4.0)}
