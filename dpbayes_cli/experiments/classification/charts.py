"""The figures of a classification study: accuracy and the tables' error against epsilon."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpbayes_cli.experiments.classification.cell import ClassificationCell
from dpbayes_cli.experiments.classification.study import ClassificationStudy, Method
from dpbayes_cli.experiments.stamped import stamped_panels
from dpbayes_cli.experiments.tables import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES: dict[Method, tuple[str, str, str]] = {
    "laplace": ("tab:blue", "o", "-"),
    "laplace-naive": ("tab:blue", "s", "--"),
    "fourier-laplace": ("tab:orange", "^", "-"),
    "fourier-naive": ("tab:orange", "v", "--"),
    "ops": ("tab:green", "d", ":"),
}
_SHARE = 0.02
"""Of a step of the logarithm of epsilon, by which methods are drawn side by side so that error bars can be told."""
_PANEL = 4.2


def charts(study: ClassificationStudy, results: Results[ClassificationCell]) -> dict[str, Figure]:
    """Return the figures by name."""
    panels = [(name,) for name in study.cases]
    wide = min(len(panels), 2 if len(panels) <= 4 else 3)

    def accuracy(axes: Axes, name: str) -> None:
        _lines(axes, name, results, "accuracy")
        own = [(cell, result) for cell, result in results if cell.name == name]
        for cell, result in own:
            if cell.method == "non-private":
                axes.axhline(_number(result.measures["accuracy"]), color="0.2", linewidth=1.2, label="non-private")
        axes.axhline(
            _number(own[0][1].measures["majority"]), color="0.6", linewidth=1.2, linestyle="-.", label="commonest class"
        )
        axes.set_ylabel("accuracy")

    def error(axes: Axes, name: str) -> None:
        _lines(axes, name, results, "cell_error")
        axes.set_yscale("log")
        axes.set_ylabel("mean error of a cell, in records")

    found = {"accuracy": _figure(panels, wide, accuracy, "Accuracy of predictions; bars: two standard errors")}
    if any(method in study.methods for method in ("laplace-naive", "fourier-naive")):
        found["cell-error"] = _figure(panels, wide, error, "Error of the tables that are taken for true")
    return found


def _figure(panels: list[tuple[str]], wide: int, draw: Callable[[Axes, str], None], title: str) -> Figure:
    return stamped_panels(panels, wide, draw, title, share_y=False, panel=_PANEL)


def _lines(axes: Axes, name: str, results: Results[ClassificationCell], measure: str) -> None:
    """Draw one line a method with its error bars."""
    for k, (method, (color, marker, line)) in enumerate(_STYLES.items()):
        shift = 10.0 ** (_SHARE * (k - 2))
        points = [
            (float(str(cell.epsilon)) * shift, result.measures[measure], result.measures[f"{measure}_se"])
            for cell, result in results
            if cell.name == name and cell.method == method and result.measures[measure] is not None
        ]
        if points:
            places, values, errors = zip(*points, strict=True)
            axes.errorbar(
                places, values, yerr=[2.0 * error for error in errors], color=color, marker=marker, linestyle=line,
                markersize=4, linewidth=1.2, elinewidth=0.8, capsize=2, label=method,
            )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlabel("epsilon")
    axes.set_title(name, fontsize=9)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
