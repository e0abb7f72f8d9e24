"""The summary of a study of estimates."""

from __future__ import annotations

from collections.abc import Sequence

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.estimation.cell import EstimationCell
from dpbayes_cli.experiments.estimation.study import EstimationStudy
from dpbayes_cli.experiments.tables import Results


def summary_markdown(study: EstimationStudy, results: Results[EstimationCell], figures: Sequence[str]) -> bytes:
    """Return the bytes of ``summary.md`` without its claims."""
    lines = [
        f"# Study `{study.name}`",
        f"**{NOT_PRIVATE}.** How far off the probability of success is that a release tells: by one draw, and by the "
        "mean of the posterior.",
        f"{len(results)} cells of {study.trials} trials, seed {study.seed}. All methods and prices see the same "
        "records.",
        "`laplace-paper`: both counts with Laplace noise, taken for true after negative counts are made possible. "
        "`laplace-naive`: the number of successes alone, of half the sensitivity. `laplace`: the same, read with its "
        "noise. `ops`: one draw of the tempered posterior on its support, drawn in floats.",
        *(_case_table(name, study, results) for name in study.cases),
        "## Figures\n\n" + "\n".join(f"- [{name}]({name})" for name in figures),
        "`l1`: mean absolute error of one draw, `l1 of mean`: of the posterior mean, plus or minus one standard error. "
        "`sd`: mean sd of the posterior that is drawn from. `cost at order 2`: Renyi divergence, exact where the law "
        "of a draw is known on its grid, and what its range alone implies.",
    ]
    return ("\n\n".join(lines) + "\n").encode("utf-8")


def _case_table(name: str, study: EstimationStudy, results: Results[EstimationCell]) -> str:
    case = study.cases[name]
    lines = [
        f"## {name}",
        "",
        f"theta = {case.theta:g}, Beta({case.alpha:g}, {case.beta:g}), `ops` on {case.support[0]:g} to "
        f"{case.support[1]:g}.",
        "",
        "| n | epsilon | method | l1 | l1 of mean | sd | cost at order 2 | by its range |",
        "|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    for cell, result in results:
        if cell.name == name:
            found = result.measures
            mean = "" if found["l1_mean"] is None else f"{found['l1_mean']:.4f} ± {found['l1_mean_se']:.4f}"
            costs = ["" if found[key] is None else f"{found[key]:.4g}" for key in ("rdp_2", "rdp_2_bound")]
            lines.append(
                f"| {cell.n_records} | {cell.epsilon or ''} | {cell.method} | {found['l1']:.4f} ± {found['l1_se']:.4f} "
                f"| {mean} | {found['sd']:.4f} | {' | '.join(costs)} |"
            )
    return "\n".join(lines)
