"""The figure of a study of linear regression: mean squared error against the prior's variance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.experiments.linear_regression.cell import LinearCell
from dpbayes_cli.experiments.linear_regression.study import LinearStudy, Method
from dpbayes_cli.experiments.stamped import stamped_panels
from dpbayes_cli.experiments.tables import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES: dict[Method, tuple[str, str]] = {"truncated-sampler": ("o", "-"), "noise-aware": ("^", "--")}
_SHORT: dict[Method, str] = {"truncated-sampler": "sampler", "noise-aware": "noise-aware"}
_COLORS = ("tab:red", "tab:orange", "tab:green", "tab:blue", "tab:purple")


def charts(study: LinearStudy, results: Results[LinearCell]) -> dict[str, Figure]:
    """Return the figure by name: a panel a case, a line a method and epsilon."""

    def draw(axes: Axes, name: str) -> None:
        own = [(cell, result) for cell, result in results if cell.name == name]
        _line(axes, [pair for pair in own if pair[0].epsilon is None], "non-private", ("0.2", "s", "-"))
        for k, epsilon in enumerate(study.epsilon):
            for method, (marker, line) in _LINES.items():
                found = [pair for pair in own if (pair[0].epsilon, pair[0].method) == (epsilon, method)]
                _line(axes, found, f"{_SHORT[method]}, epsilon {epsilon}", (_COLORS[k % len(_COLORS)], marker, line))
        mean = own[0][1].measures["mean_mse"]
        if mean is not None:
            axes.axhline(mean, color="0.6", linewidth=1.2, linestyle="-.", label="mean of the target")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("prior variance")
        axes.set_ylabel("mean squared error")
        axes.set_title(name, fontsize=9)

    panels = [(name,) for name in study.cases]
    title = "Mean squared error of predictions; bars: two standard errors"
    return {"mse": stamped_panels(panels, min(len(panels), 3), draw, title, share_y=False, panel=4.2)}


def _line(axes: Axes, found: Results[LinearCell], label: str, style: tuple[str, str, str]) -> None:
    """Draw one line with its error bars."""
    points = [(float(c.prior_variance), r.measures["mse"], r.measures["mse_se"]) for c, r in found]
    if not points:
        return
    color, marker, line = style
    places, values, errors = zip(*points, strict=True)
    axes.errorbar(
        places, values, yerr=[2.0 * error for error in errors], color=color, marker=marker, linestyle=line,
        markersize=4, linewidth=1.2, elinewidth=0.8, capsize=2, label=label,
    )  # fmt: skip
