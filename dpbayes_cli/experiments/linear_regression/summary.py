"""The summary of a study of linear regression: a table a case, and what it shows in sentences made from the numbers."""

from __future__ import annotations

from collections.abc import Sequence

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.linear_regression.ball import MASS, ball_radius, likelihood_range
from dpbayes_cli.experiments.linear_regression.cell import LinearCell, methods_of
from dpbayes_cli.experiments.linear_regression.study import LinearStudy
from dpbayes_cli.experiments.means import mean_difference
from dpbayes_cli.experiments.store import FinishedCell
from dpbayes_cli.experiments.tables import Results

CLEAR = 2.0
"""A difference of so many standard errors is called one."""


def summary_markdown(study: LinearStudy, results: Results[LinearCell], figures: Sequence[str]) -> bytes:
    """Return the bytes of ``summary.md``."""
    lines = [
        f"# Study `{study.name}`",
        f"**{NOT_PRIVATE}.** How far off predictions of a number are, by a linear regression with a normal prior of "
        "variance v of every coefficient.",
        f"{len(results)} cells, {study.trials} trials, seed {study.seed}. In each trial another "
        f"{study.train_share:.3g} of the records is learned from, and the rest is predicted. The paper took census "
        "records of its own (IPUMS, 370,000 of them); these are others, and its numbers are not to be compared.",
        "`truncated-sampler` predicts by one epsilon-DP draw of a posterior within a ball, drawn in floats: an "
        f"**idealized** form of what would be released. The ball holds {MASS:g} of the prior; its radius Q, and the "
        "range R of a log likelihood ratio, set the power of the likelihood, min(1, epsilon / R).",
        *_about_noise_aware(study),
        *(part for name in study.cases for part in _case(name, study, results)),
        "## Figures\n\n" + "\n".join(f"- [{name}]({name})" for name in figures),
        "The best prior is found by looking at the results, which no custodian can. Mean squared errors are in the "
        "squared units of the target, plus or minus one standard error of the mean over trials. `non-private` predicts "
        "by the mean of the whole posterior.",
    ]
    return ("\n\n".join(lines) + "\n").encode("utf-8")


def _about_noise_aware(study: LinearStudy) -> list[str]:
    """Return what noise-aware inference takes for granted, where it is among the methods."""
    if not any("noise-aware" in methods_of(study, case) for case in study.cases.values()):
        return []
    return [
        "`noise-aware` predicts by the mean of the posterior given second moments with Laplace noise; to it features "
        "are normal vectors, their bounds are those of the study, and v is the prior variance too."
    ]


def _case(name: str, study: LinearStudy, results: Results[LinearCell]) -> list[str]:
    """Return the parts of the summary that a case has."""
    own = [(cell, result) for cell, result in results if cell.name == name]
    first = own[0][0].case
    parts = [
        f"## {name}",
        f"`{first.target.column}` from {', '.join(f'`{column.role}`' for column in first.columns[1:])}; residuals have "
        f"the sd {first.residual_sd:g}. Always the mean of the target: {_shown(own[0][1], 'mean_mse')}.",
        _table(study, own),
    ]
    said = [_sampler(epsilon, own) for epsilon in study.epsilon]
    return [*parts, *(part for part in said if part), *_untempered(own), *_against(study, own)]


def _table(study: LinearStudy, own: Results[LinearCell]) -> str:
    """Return a case's cells as a table, one row a prior and method."""
    head = ["v", "Q", "R", "method", *(f"epsilon {epsilon}" for epsilon in study.epsilon)]
    lines = [f"| {' | '.join(head)} |", "|---:|---:|---:|---|" + "---:|" * len(study.epsilon)]
    found = {(cell.prior_variance, cell.method, cell.epsilon): (cell, result) for cell, result in own}
    for variance in study.prior_variance:
        radius, range_ = _geometry(own[0][0], variance)
        for method in methods_of(study, own[0][0].case):
            prices = [None] if method == "non-private" else list(study.epsilon)
            shown = [_shown(found[variance, method, price][1], "mse") for price in prices]
            shown += [""] * (len(study.epsilon) - len(shown))
            lines.append(f"| {variance} | {radius:.3g} | {range_:.4g} | {method} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _geometry(cell: LinearCell, variance: str) -> tuple[float, float]:
    """Return radius and range of a prior variance."""
    radius = ball_radius(float(variance), len(cell.case.columns))
    return radius, likelihood_range(radius, cell.case.residual_sd / cell.case.half_range)


def _sampler(epsilon: str, own: Results[LinearCell]) -> str:
    """Return how the truncated sampler does at an epsilon: its best prior, and whether it is worth anything there."""
    found = [(c, r) for c, r in own if c.method == "truncated-sampler" and c.epsilon == epsilon]
    if not found:
        return ""
    cell, best = min(found, key=lambda pair: float(str(pair[1].measures["mse"])))
    value, error = mean_difference(best.trials["mse"], best.trials["mean_mse"])
    if abs(value) <= CLEAR * error:
        verdict = "not clearly different from the mean of the target"
    else:
        verdict = "better than the mean of the target" if value < 0.0 else "**worse** than the mean of the target"
    return (
        f"**epsilon {epsilon}**: the truncated sampler is best at v = {cell.prior_variance}, where the likelihood has "
        f"the power {best.measures['power']:.3g}: {_shown(best, 'mse')}, {verdict} ({value:+.3g} ± {error:.2g})."
    )


def _untempered(own: Results[LinearCell]) -> list[str]:
    """Return what the ball and a single draw cost, where the likelihood has all of its power."""
    exact = {cell.prior_variance: result for cell, result in own if cell.method == "non-private"}
    apart: dict[str, str] = {}
    for cell, result in own:
        if cell.method == "truncated-sampler" and result.measures["power"] == 1.0 and cell.prior_variance in exact:
            value, error = mean_difference(result.trials["mse"], exact[cell.prior_variance].trials["mse"])
            apart.setdefault(cell.prior_variance, f"v = {cell.prior_variance}: {value:+.3g} ± {error:.2g}")
    if not apart:
        return []
    return [
        "Where the likelihood has the power 1, nothing but the ball and the single draw sets the sampler apart from "
        f"the non-private posterior. Its mean squared error is then higher by: {'; '.join(apart.values())}."
    ]


def _against(study: LinearStudy, own: Results[LinearCell]) -> list[str]:
    """Return where noise-aware inference is better than the truncated sampler."""
    found = {(cell.prior_variance, cell.epsilon, cell.method): result for cell, result in own}
    if not {"noise-aware", "truncated-sampler"} <= set(methods_of(study, own[0][0].case)):
        return []
    said: dict[str, list[str]] = {"better": [], "worse": [], "not clearly different": []}
    for epsilon in study.epsilon:
        for variance in study.prior_variance:
            pair = [found[variance, epsilon, method].trials["mse"] for method in ("noise-aware", "truncated-sampler")]
            value, error = mean_difference(*pair)
            clear = abs(value) > CLEAR * error
            key = "not clearly different" if not clear else "better" if value < 0.0 else "worse"
            said[key].append(f"(epsilon {epsilon}, v {variance})")
    shown = "; ".join(f"{key} at {', '.join(places)}" for key, places in said.items() if places)
    return [f"**`noise-aware` against `truncated-sampler`**: {shown}."]


def _shown(result: FinishedCell, measure: str) -> str:
    value, error = result.measures[measure], result.measures[f"{measure}_se"]
    return "" if value is None or error is None else f"{value:.4g} ± {error:.2g}"
