"""The figures of a study of utility at Renyi prices: divergence and log-likelihood against epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.experiments.renyi_utility.cell import UtilityCell
from dpbayes_cli.experiments.renyi_utility.study import Method, RenyiUtilityStudy
from dpbayes_cli.experiments.stamped import stamped_panels
from dpbayes_cli.experiments.tables import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES: dict[Method, tuple[str, str, str]] = {
    "rdp-diffuse": ("tab:blue", "o", "-"),
    "rdp-concentrated": ("tab:orange", "s", "-"),
    "gaussian-paper": ("tab:green", "v", ":"),
    "gaussian-naive": ("tab:green", "^", "--"),
    "gaussian": ("tab:green", "d", "-"),
    "laplace": ("tab:red", "D", "-"),
}
_KL_LIMIT = 0.7
"""The paper's figure ends at 0.6."""


def charts(study: RenyiUtilityStudy, results: Results[UtilityCell]) -> dict[str, Figure]:
    """Return the figures by name: a panel a case and order, a line a method."""
    panels = [(name, order) for name in study.cases for order in study.orders]

    def draw(axes: Axes, name: str, order: str, measure: str) -> None:
        own = [(cell, result) for cell, result in results if (cell.name, cell.order) == (name, order)]
        for method, (color, marker, line) in _STYLES.items():
            points = [(float(c.epsilon), r.measures[measure]) for c, r in own if c.method == method and c.epsilon]
            if points:
                axes.plot(
                    *zip(*points, strict=True), color=color, marker=marker, linestyle=line, markersize=4,
                    linewidth=1.2, label=method,
                )  # fmt: skip
        for cell, result in own:
            if cell.method == "rdp-direct":
                value, cost = result.measures[measure], result.measures["cost"]
                axes.axhline(
                    float("nan") if value is None else value, color="0.2", linewidth=1.0, label="true posterior"
                )
                if cost is not None:
                    axes.axvline(cost, color="0.2", linewidth=0.8, linestyle=":", label="its price")
        axes.set_xscale("log")
        axes.set_xlabel("epsilon")
        axes.set_title(f"{name}, order {order}", fontsize=9)

    def apart(axes: Axes, name: str, order: str) -> None:
        draw(axes, name, order, "kl")
        axes.set_ylim(-0.02, _KL_LIMIT)
        axes.set_ylabel("KL divergence from the true posterior")

    def loss(axes: Axes, name: str, order: str) -> None:
        draw(axes, name, order, "nll")
        axes.set_ylabel("negative log-likelihood of held-out records")

    wide = len(study.orders)
    return {
        "kl": stamped_panels(panels, wide, apart, "How far releases are from the true posterior", panel=4.2),
        "log-likelihood": stamped_panels(
            panels, wide, loss, "Negative log-likelihood of held-out records under one draw", panel=4.2
        ),
    }
