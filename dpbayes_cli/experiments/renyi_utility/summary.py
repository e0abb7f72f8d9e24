"""The summary of a study of utility at Renyi prices."""

from __future__ import annotations

from collections.abc import Sequence

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.renyi_utility.cell import UtilityCell
from dpbayes_cli.experiments.renyi_utility.study import RenyiUtilityStudy
from dpbayes_cli.experiments.tables import Results


def summary_markdown(study: RenyiUtilityStudy, results: Results[UtilityCell], figures: Sequence[str]) -> bytes:
    """Return the bytes of ``summary.md`` without its claims."""
    lines = [
        f"# Study `{study.name}`",
        f"**{NOT_PRIVATE}.** What releases of a binary outcome are worth that cost the same at an order of Renyi "
        "divergence. Expectations are computed, not simulated.",
        "`rdp-diffuse`, `rdp-concentrated`: one draw of a posterior in which the data count for less, or the prior for "
        "more. `gaussian-paper`: a count with Gaussian noise at the paper's price, twice what it costs; negative "
        "counts become zero, and what is left is taken for true. `gaussian-naive`: the same at its price. `gaussian`, "
        "`laplace`: read with their noise; Laplace noise has the largest pure epsilon whose divergence fits.",
        *(_case_tables(name, study, results) for name in study.cases),
        "## Figures\n\n" + "\n".join(f"- [{name}]({name})" for name in figures),
        "`kl`: Kullback-Leibler divergence of the law of one draw from the true posterior of the data. `nll`: mean and "
        "sd of the negative log-likelihood of as many held-out records under one draw, over data, held-out records and "
        "draws.",
    ]
    return ("\n\n".join(lines) + "\n").encode("utf-8")


def _case_tables(name: str, study: RenyiUtilityStudy, results: Results[UtilityCell]) -> str:
    case = study.cases[name]
    lines = [
        f"## {name}",
        "",
        f"Beta({case.alpha:g}, {case.beta:g}), {case.successes} successes in {case.n} records; records of other trials "
        f"are drawn from theta = {case.theta:g}.",
        "",
        "| order | epsilon | method | r, m or scale | kl | nll |",
        "|---:|---:|---|---:|---:|---:|",
    ]
    for cell, result in results:
        if cell.name == name:
            found = result.measures
            cost = "infinite" if found["cost"] is None else f"costs {found['cost']:.6f}"
            price = cost if cell.epsilon is None else cell.epsilon
            lines.append(
                f"| {cell.order} | {price} | {cell.method} | {found['parameter']:.6g} | {found['kl']:.4g} "
                f"| {found['nll']:.2f} ± {found['nll_sd']:.2f} |"
            )
    return "\n".join(lines)
