"""The figures of a study of logistic regression: test error and log loss against epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.experiments.logistic_regression.cell import LogisticCell
from dpbayes_cli.experiments.logistic_regression.comparison import families
from dpbayes_cli.experiments.logistic_regression.study import LogisticStudy, Method
from dpbayes_cli.experiments.stamped import stamped_panels
from dpbayes_cli.experiments.tables import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES: dict[Method, tuple[str, str, str]] = {
    "rdp-concentrated": ("tab:orange", "s", "-"),
    "rdp-diffuse": ("tab:blue", "o", "-"),
    "ops": ("tab:green", "d", ":"),
    "gdp-langevin": ("tab:red", "^", "--"),
    "minami-langevin": ("tab:purple", "v", "--"),
}
_TITLES = {"error": "Test error of one draw", "nll": "Mean negative log-likelihood of one draw"}


def charts(study: LogisticStudy, results: Results[LogisticCell]) -> dict[str, Figure]:
    """Return the figures by name: a row of panels a case, one panel a family of prices."""
    panels = [(name, family) for name in study.cases for family in families(_own(name, results))]
    wide = max((sum(name == first for name, _ in panels) for first in study.cases), default=1)
    found = {}
    for measure, file in (("error", "test-error"), ("nll", "negative-log-likelihood")):

        def draw(axes: Axes, name: str, family: str, measure: str = measure) -> None:
            _panel(axes, name, family, measure, results)

        title = f"{_TITLES[measure]}; bars: two standard errors"
        found[file] = stamped_panels(panels, wide, draw, title, share_y=False, panel=3.4)
    return found


def _own(name: str, results: Results[LogisticCell]) -> Results[LogisticCell]:
    return [(cell, result) for cell, result in results if cell.name == name]


def _panel(axes: Axes, name: str, family: str, measure: str, results: Results[LogisticCell]) -> None:
    """Draw one line a method with its error bars, and the true posterior across."""
    own = _own(name, results)
    for method, (color, marker, line) in _STYLES.items():
        points = [
            (float(cell.price.epsilon), result.measures[measure], result.measures[f"{measure}_se"])
            for cell, result in own
            if cell.price is not None and cell.price.family == family and cell.method == method
        ]
        if points:
            places, values, errors = zip(*points, strict=True)
            axes.errorbar(
                places, values, yerr=[2.0 * error for error in errors], color=color, marker=marker, linestyle=line,
                markersize=4, linewidth=1.2, elinewidth=0.8, capsize=2, label=method,
            )  # fmt: skip
    for cell, result in own:
        if cell.method == "true-posterior":
            axes.axhline(_number(result.measures[measure]), color="0.2", linewidth=1.2, label="true posterior")
    if measure == "error":
        majority = _number(own[0][1].measures["commonest"])
        axes.axhline(majority, color="0.6", linewidth=1.2, linestyle="-.", label="commonest class")
    axes.set_xscale("log")
    if measure == "nll":
        axes.set_yscale("log")
    axes.set_xlabel("epsilon")
    axes.set_title(f"{name}, {family}", fontsize=9)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
