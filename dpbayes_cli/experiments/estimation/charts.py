"""The figures of a study of estimates: L1 error against n, what draws cost, and the posteriors of some releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.estimation.cell import EstimationCell
from dpbayes_cli.experiments.estimation.study import EstimationStudy, Method, prices_of
from dpbayes_cli.experiments.estimation.trials import mixture_of, step_of
from dpbayes_cli.experiments.stamped import stamped_panels
from dpbayes_cli.experiments.store import FinishedCell
from dpbayes_cli.experiments.tables import Results
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES: dict[Method, tuple[str, str]] = {
    "non-private": ("0.2", "s"),
    "laplace": ("tab:blue", "o"),
    "laplace-naive": ("tab:purple", "v"),
    "laplace-paper": ("tab:red", "^"),
    "ops": ("tab:orange", "d"),
}


def charts(study: EstimationStudy, results: Results[EstimationCell]) -> dict[str, Figure]:
    """Return the figures by name."""
    panels = [(name, epsilon) for name, case in study.cases.items() for epsilon in prices_of(study, case)]
    many = [(name, epsilon) for name, epsilon in panels if len(study.cases[name].n) > 1]
    found = {}
    if many:
        title = "L1 error of one draw, and (dashed) of the posterior mean"
        found["l1"] = stamped_panels(many, min(len(many), 3), lambda *a: _errors(results, *a), title, panel=4.2)
        if "ops" in study.methods:
            title = "What one posterior sample costs at order 2"
            found["charge"] = stamped_panels(
                many, min(len(many), 3), lambda *a: _charges(results, *a), title, share_y=False, panel=4.2
            )
    for name, case in study.cases.items():
        if case.densities:
            found[f"posteriors-{name}"] = _posteriors(study, name, results)
    return found


def _errors(results: Results[EstimationCell], axes: Axes, name: str, epsilon: str) -> None:
    for method, (color, marker) in _STYLES.items():
        own = [
            (c.n_records, r.measures)
            for c, r in results
            if (c.name, c.method) == (name, method) and c.epsilon in {epsilon, None}
        ]
        for measure, line in (("l1", "-"), ("l1_mean", "--")):
            points = [(n, found[measure]) for n, found in own if found[measure] is not None]
            if points:
                axes.plot(
                    *zip(*points, strict=True), color=color, marker=marker, linestyle=line, markersize=4,
                    linewidth=1.2, label=method if measure == "l1" else None,
                )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("number of records n")
    axes.set_ylabel("L1 error")
    axes.set_title(f"{name}, epsilon {epsilon}", fontsize=9)


def _charges(results: Results[EstimationCell], axes: Axes, name: str, epsilon: str) -> None:
    own = [(c.n_records, r.measures) for c, r in results if (c.name, c.epsilon, c.method) == (name, epsilon, "ops")]
    for measure, color, label in (("rdp_2", "tab:blue", "exact"), ("rdp_2_bound", "tab:red", "by its range")):
        axes.plot(
            [n for n, _ in own], [float(str(found[measure])) for _, found in own], color=color, marker="o", label=label
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("number of records n")
    axes.set_ylabel("divergence of order 2")
    axes.set_title(f"{name}, epsilon {epsilon}", fontsize=9)


def _posteriors(study: EstimationStudy, name: str, results: Results[EstimationCell]) -> Figure:
    """Draw the posteriors of the first releases, one panel a method, beside the true one of the first trial."""
    case = study.cases[name]
    n, epsilon = case.n[0], prices_of(study, case)[0]
    own = {c.method: (c, r) for c, r in results if c.name == name and c.n_records == n and c.epsilon in {epsilon, None}}
    methods = [(method,) for method in study.methods if method != "non-private"]
    theta = np.linspace(0.002, 0.998, 499)
    successes = round(n * case.theta)

    def draw(axes: Axes, method: Method) -> None:
        cell, result = own[method]
        color = _STYLES[method][0]
        for density in _densities(cell, result, theta, successes, case.densities):
            axes.plot(theta, density, color=color, linewidth=0.5, alpha=0.6)
        true = stats.beta.pdf(theta, case.alpha + successes, case.beta + n - successes)
        axes.plot(theta, true, color="0.2", linewidth=1.6, label="true posterior of the expected count")
        axes.axvline(case.theta, color="0.2", linewidth=0.8, linestyle=":", label="theta")
        axes.set_xlabel("theta")
        axes.set_title(method, fontsize=9)

    title = f"Posteriors of {case.densities} releases, {name}, n {n}, epsilon {epsilon}"
    return stamped_panels(methods, min(len(methods), 4), draw, title)


def _densities(
    cell: EstimationCell, result: FinishedCell, theta: np.ndarray, successes: int, many: int
) -> list[np.ndarray]:
    """Return densities of posteriors on a grid: one of posterior sampling, whose data are given; else one a release."""
    if cell.method == "ops":
        step = step_of(cell)
        law = require_type(None if step is None else step.law, ScalarSampler)
        logs = law.logs((successes,))
        masses = np.exp(logs - logs.max())
        return [np.interp(theta, law.cells, masses / masses.mean() / (law.support[1] - law.support[0]), 0.0, 0.0)]
    if cell.method == "laplace":
        return [mixture_of(cell, int(value)).pdf(theta) for value in result.trials["released"][:many]]
    totals = result.trials["shape_total"][:many]
    means = result.trials["mean"][:many]
    return [stats.beta.pdf(theta, m * t, (1.0 - m) * t) for m, t in zip(means, totals, strict=True)]
