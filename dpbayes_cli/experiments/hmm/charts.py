"""The figure of a study of hidden Markov models, as SVG: log-likelihood of held-out records against epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.experiments.hmm.results import Results
from dpbayes_cli.experiments.hmm.study import HmmStudy, Method
from dpbayes_cli.experiments.stamped import stamped_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES: dict[Method, tuple[str, str, str, str]] = {
    "laplace": ("tab:blue", "o", "-", "laplace"),
    "laplace-naive": ("tab:orange", "s", "--", "laplace-naive"),
    "ops": ("tab:green", "d", ":", "ops (idealized)"),
    "gibbs": ("tab:red", "v", "-.", "gibbs (in floats)"),
}
_SHARE = 0.02
"""Of a step of the logarithm of epsilon, by which methods are drawn side by side so that error bars can be told."""


def charts(study: HmmStudy, results: Results) -> dict[str, bytes]:
    """Return the figure by its file name: a panel a case and number of states, a line a method."""

    def draw(axes: Axes, name: str, states: int) -> None:
        own = [(cell, result) for cell, result in results if (cell.name, cell.states) == (name, states)]
        for k, (method, style) in enumerate(_STYLES.items()):
            _line(axes, [pair for pair in own if pair[0].method == method], 10.0 ** (_SHARE * (k - 1.5)), style)
        for cell, result in own:
            if cell.method == "non-private":
                value = result.measures["log_likelihood"]
                axes.axhline(float("nan") if value is None else value, color="0.2", linewidth=1.2, label="non-private")
        axes.set_xscale("log")
        axes.set_xlabel("epsilon")
        axes.set_ylabel("log-likelihood of a held-out record")
        axes.set_title(f"{name}, {states} state{'s' * (states > 1)}", fontsize=9)

    panels = [(name, states) for name in study.cases for states in study.states]
    title = "Log-likelihood of held-out records; bars: two standard errors"
    drawn = stamped_panels(panels, min(len(study.states), 3), draw, title, share_y=len(study.cases) == 1, panel=4.2)
    return {"log-likelihood.svg": drawn}


def _line(axes: Axes, found: Results, shift: float, style: tuple[str, str, str, str]) -> None:
    """Draw one line with its error bars."""
    points = [
        (float(str(c.epsilon)) * shift, r.measures["log_likelihood"], r.measures["log_likelihood_se"]) for c, r in found
    ]
    if not points:
        return
    color, marker, line, label = style
    places, values, errors = zip(*points, strict=True)
    axes.errorbar(
        places, values, yerr=[2.0 * error for error in errors], color=color, marker=marker, linestyle=line,
        markersize=4, linewidth=1.2, elinewidth=0.8, capsize=2, label=label,
    )  # fmt: skip
