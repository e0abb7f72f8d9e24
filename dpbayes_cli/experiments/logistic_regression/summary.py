"""The summary of a study of logistic regression: tables, and what they show in sentences made from the numbers."""

from __future__ import annotations

from collections.abc import Sequence

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.logistic_regression.cell import LogisticCell
from dpbayes_cli.experiments.logistic_regression.comparison import (
    CLEAR,
    PAIRS,
    MethodDifference,
    differences,
    families,
)
from dpbayes_cli.experiments.logistic_regression.study import LogisticStudy
from dpbayes_cli.experiments.logistic_regression.temperatures import divergences_of_range
from dpbayes_cli.experiments.store import FinishedCell
from dpbayes_cli.experiments.tables import Results

_WHAT = {"error": "test error", "nll": "negative log-likelihood"}
_CONVERGED = 1.05


def summary_markdown(study: LogisticStudy, results: Results[LogisticCell], figures: Sequence[str]) -> bytes:
    """Return the bytes of ``summary.md``."""
    lines = [
        f"# Study `{study.name}`",
        f"**{NOT_PRIVATE}.** How well one draw of the coefficients of a logistic regression tells classes apart.",
        f"{len(results)} cells, {study.trials} trials, seed {study.seed}. All methods and prices of a case see the "
        "same records and the same random numbers; methods that come to the same law at a price are the same there.",
        "`rdp-concentrated`, `rdp-diffuse`, `ops` and the true posterior are **idealized**: exact draws of these "
        f"posteriors do not exist, and {study.metropolis_steps} steps of a Metropolis-adjusted Langevin chain from "
        "Laplace's law stand for them here alone. `gdp-langevin` and `minami-langevin` are chains as they would be "
        "released, priced as they run, but for the generator.",
        "A price `order k` is an epsilon of Renyi divergence of order k (1: Kullback-Leibler), `delta d` an epsilon at "
        "that delta. `ops` draws from the ball of radius Q = 1 / beta, which is pure epsilon-DP at epsilon = 2 rho Q; "
        f"its divergence is {_curves(results)}.",
        *(part for name in study.cases for part in _case(name, results)),
        "## Figures\n\n" + "\n".join(f"- [{name}]({name})" for name in figures),
        "`test error`: how often the sign of a linear predictor under one draw is wrong. `negative log-likelihood`: "
        "the mean over records that were not learned from. Plus or minus one standard error of the mean over trials.",
    ]
    return ("\n\n".join(lines) + "\n").encode("utf-8")


def _curves(results: Results[LogisticCell]) -> str:
    """Return which of two curves gives the divergence of restricted draws, over the prices of the study."""
    at: dict[str, list[str]] = {"pure": [], "range": []}
    for cell, _ in results:
        if cell.method == "ops" and cell.price is not None and cell.price.order is not None and cell.law.radius:
            range_ = 2.0 * cell.law.rho * cell.law.radius
            pure, of_range = divergences_of_range(range_, float(cell.price.order))
            at["range" if of_range <= pure else "pure"].append(f"{cell.price.epsilon} at {cell.price.family}")
    said = "the smaller one of what pure epsilon-DP and a bounded range of 2 rho Q imply"
    if not at["pure"]:
        return f"{said}, here always the second" if at["range"] else said
    shown = ", ".join(dict.fromkeys(at["pure"]))
    return f"{said}: the first at epsilon {shown}, and otherwise the second"


def _case(name: str, results: Results[LogisticCell]) -> list[str]:
    """Return the parts of the summary that a case has."""
    own = [(cell, result) for cell, result in results if cell.name == name]
    first, found = own[0]
    drawn = "others in each trial"
    if first.case.test is not None:
        drawn = "the same in each trial: standard errors are those of the draws alone"
    parts = [
        f"## {name}",
        f"Learned from {first.n_train} records, {drawn}; prior precision n beta = {first.n_train * first.case.beta:g}. "
        f"Always the commonest class: test error {_shown(found, 'commonest')}."
        + "".join(
            f" True posterior: test error {_shown(result, 'error')}, negative log-likelihood {_shown(result, 'nll')}."
            for cell, result in own
            if cell.method == "true-posterior"
        ),
        _convergence(own),
    ]
    for family in families(own):
        parts += [f"### {name}, {family}", _table(own, family)]
        for pair in PAIRS:
            apart = differences(own, family, *pair)
            if apart:
                parts.append(statement(*pair, apart))
    return [part for part in parts if part]


def _convergence(own: Results[LogisticCell]) -> str:
    """Return what is known about the chains that stand for exact draws."""
    watched = [r.measures for _, r in own if r.measures["r_hat"] is not None]
    if not watched:
        return ""
    worst = max(float(str(found["r_hat"])) for found in watched)
    least = min(float(str(found["acceptance"])) for found in watched)
    verdict = "have converged" if worst <= _CONVERGED else "**have not converged everywhere**"
    return (
        f"The chains that stand for exact draws {verdict}: R-hat is {worst:.3f} at most over cells and coordinates, "
        f"and at least {least:.2f} of proposals are accepted."
    )


def _table(own: Results[LogisticCell], family: str) -> str:
    """Return the cells of a family of prices as a table."""
    lines = [
        "| epsilon | method | temperature | prior precision | steps | test error | negative log-likelihood |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]
    for cell, result in own:
        if cell.price is None or cell.price.family != family:
            continue
        law = f"{cell.law.rho:.4g} | {cell.law.tau:.4g} | {'' if cell.law.steps is None else cell.law.steps}"
        scores = f"{_shown(result, 'error')} | {_shown(result, 'nll')}"
        lines.append(f"| {cell.price.epsilon} | {cell.method} | {law} | {scores} |")
    return "\n".join(lines)


def _shown(result: FinishedCell, measure: str) -> str:
    value, error = result.measures[measure], result.measures[f"{measure}_se"]
    return "" if value is None or error is None else f"{value:.4f} ± {error:.4f}"


def statement(first: str, second: str, apart: Sequence[MethodDifference]) -> str:
    """Return who is better at which price by each measure, in a paragraph with its numbers.

    Args:
        first: the method that is expected to be better, or as good.
        second: the other.
        apart: how they differ, by epsilon.
    """
    same = [each.epsilon for each in apart if each.same_law]
    parts = []
    for measure, what in _WHAT.items():
        signs = {
            k: [each.epsilon for each in apart if not each.same_law and each.sign(measure) == k] for k in (-1, 0, 1)
        }
        said = []
        if signs[-1]:
            said.append(f"lower by more than {CLEAR:g} standard errors at epsilon {', '.join(signs[-1])}")
        if signs[1]:
            said.append(f"**against expectation** higher at epsilon {', '.join(signs[1])}")
        if signs[0]:
            said.append(f"not clearly different at epsilon {', '.join(signs[0])}")
        if said:
            numbers = "; ".join(
                f"{each.epsilon}: {getattr(each, measure):+.4f} ± {getattr(each, f'{measure}_se'):.4f}"
                for each in apart
                if not each.same_law
            )
            parts.append(f"its {what} is {', '.join(said)} (differences: {numbers})")
    if same:
        parts.append(f"both draw from one law at epsilon {', '.join(same)}")
    gains = [each.gain for each in apart if not each.same_law and not each.whole]
    whole = [each.epsilon for each in apart if each.whole and not each.same_law]
    more = ""
    if gains and "langevin" in first:
        more = f" Its temperature is {min(gains):.3g} to {max(gains):.3g} times the other's"
        more += " where one of them is below 1." if whole or same else "."
    if whole:
        more += (
            f" At epsilon {', '.join(whole)} both have the temperature of the true posterior, and differ by what a "
            "chain of finite steps is off."
        )
    return f"**`{first}` against `{second}`**: {'; '.join(parts)}.{more}"
