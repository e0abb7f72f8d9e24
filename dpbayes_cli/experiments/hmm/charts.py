"""The figures of a study of hidden Markov models: log-likelihood of held-out records against epsilon."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpbayes_cli.experiments.hmm.cell import HmmCell
from dpbayes_cli.experiments.hmm.study import HmmStudy, Method
from dpbayes_cli.experiments.means import mean_difference
from dpbayes_cli.experiments.stamped import stamped_panels
from dpbayes_cli.experiments.store import FinishedCell
from dpbayes_cli.experiments.tables import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES: dict[Method, tuple[str, str, str, str]] = {
    "laplace": ("tab:blue", "o", "-", "laplace"),
    "laplace-naive": ("tab:orange", "s", "--", "laplace-naive"),
    "ops": ("tab:green", "d", ":", "ops (idealized)"),
    "gibbs": ("tab:red", "v", "-.", "gibbs (in floats)"),
}
_SHARE = 0.02
"""Of a step of the logarithm of epsilon, by which methods are drawn side by side so that error bars can be told."""
_LINEAR = 1e-3
"""Shortfalls of less are drawn on a linear scale, for they may be negative."""


def charts(study: HmmStudy, results: Results[HmmCell]) -> dict[str, Figure]:
    """Return the figures by name: a panel a case and number of states, a line a method."""
    panels = [(name, states) for name in study.cases for states in study.states]
    wide = min(len(study.states), 3)

    def levels(axes: Axes, name: str, states: int) -> None:
        own = _own(results, name, states)
        _lines(axes, own, lambda result: (result.measures["log_likelihood"], result.measures["log_likelihood_se"]))
        for cell, result in own:
            if cell.method == "non-private":
                value = result.measures["log_likelihood"]
                axes.axhline(float("nan") if value is None else value, color="0.2", linewidth=1.2, label="non-private")
        _label(axes, name, states, "log-likelihood of a held-out record")

    def shortfalls(axes: Axes, name: str, states: int) -> None:
        own = _own(results, name, states)
        exact = next(result for cell, result in own if cell.method == "non-private").trials["log_likelihood"]
        _lines(axes, own, lambda result: mean_difference(exact, result.trials["log_likelihood"]))
        axes.set_yscale("symlog", linthresh=_LINEAR)
        axes.axhline(0.0, color="0.2", linewidth=1.2)
        _label(axes, name, states, "shortfall of the log-likelihood")

    title = "Log-likelihood of held-out records; bars: two standard errors"
    one = len(study.cases) == 1
    found = {"log-likelihood": stamped_panels(panels, wide, levels, title, share_y=one, panel=4.2)}
    if "non-private" in study.methods and len(study.methods) > 1:
        title = "Log-likelihood of held-out records, less than without privacy by; bars: two standard errors"
        found["shortfall"] = stamped_panels(panels, wide, shortfalls, title, share_y=one, panel=4.2)
    return found


def _own(results: Results[HmmCell], name: str, states: int) -> list[tuple[HmmCell, FinishedCell]]:
    return [(cell, result) for cell, result in results if (cell.name, cell.states) == (name, states)]


def _label(axes: Axes, name: str, states: int, what: str) -> None:
    axes.set_xscale("log")
    axes.set_xlabel("epsilon")
    axes.set_ylabel(what)
    axes.set_title(f"{name}, {states} state{'s' * (states > 1)}", fontsize=9)


def _lines(
    axes: Axes, own: Results[HmmCell], measured: Callable[[FinishedCell], tuple[float | None, float | None]]
) -> None:
    """Draw one line a method with its error bars."""
    for k, (method, (color, marker, line, label)) in enumerate(_STYLES.items()):
        shift = 10.0 ** (_SHARE * (k - 1.5))
        points = [(float(str(c.epsilon)) * shift, *measured(result)) for c, result in own if c.method == method]
        if points:
            places, values, errors = zip(*points, strict=True)
            axes.errorbar(
                places, values, yerr=[2.0 * error for error in errors], color=color, marker=marker, linestyle=line,
                markersize=4, linewidth=1.2, elinewidth=0.8, capsize=2, label=label,
            )  # fmt: skip
