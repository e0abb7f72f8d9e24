"""The summary of a study of hidden Markov models: a table a case, and what it shows, in sentences made from numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.hmm.cell import HmmCell
from dpbayes_cli.experiments.hmm.study import HmmStudy, Method, model_of
from dpbayes_cli.experiments.hmm.tempered_chain import record_range
from dpbayes_cli.experiments.means import mean_difference
from dpbayes_cli.experiments.store import FinishedCell
from dpbayes_cli.experiments.tables import Results

CLEAR = 3.0
"""A difference of so many standard errors is called one."""

_Place = tuple[int, str | None, Method]
_Found = dict[_Place, FinishedCell]


def summary_markdown(study: HmmStudy, results: Results[HmmCell], figures: Sequence[str]) -> bytes:
    """Return the bytes of ``summary.md``."""
    lines = [
        f"# Study `{study.name}`",
        f"**{NOT_PRIVATE}.** How likely records are that were held out, under what was released of the others by a "
        "hidden Markov model.",
        f"{len(results)} cells, {study.trials} trials, seed {study.seed}. In each trial another {study.held_out:.3g} "
        "of all pairs of a sequence and a time step is held out: their records are removed, and what is released of "
        "them is noise alone. Measured is the log-likelihood of a record that was held out. With one state the model "
        "is naive Bayes, and counts of all records together are released.",
        *_about(study),
        *(part for name in study.cases for part in _case(name, study, results)),
        "## Figures\n\n" + "\n".join(f"- [{name}]({name})" for name in figures),
        "Log-likelihoods are natural logarithms, plus or minus one standard error of the mean over trials, which are "
        "splits of the same records. A difference is called one from three standard errors on, trial by trial.",
    ]
    return ("\n\n".join(lines) + "\n").encode("utf-8")


def _about(study: HmmStudy) -> list[str]:
    """Return what the study's methods are."""
    least, draws = f"{study.least_share:g}", f"{study.draws} draws"
    said: dict[Method, str] = {
        "non-private": f"the posterior of exact counts, {draws}",
        "laplace": f"counts with discrete Laplace noise, and the posterior that knows the noise, {draws}",
        "laplace-naive": "the same release; negative counts become zero and the rest is taken for the truth, as in the "
        f"paper, {draws}",
        "ops": "**idealized**: one draw of the tempered posterior with emissions of at least "
        f"{least}, epsilon-DP only if it were exact. It is the end of a chain of {study.converged} sweeps in floats, "
        "of which the first half has more of the likelihood, as no release could",
        "gibbs": f"the mechanism's chain in floats: {study.sweeps} sweeps from the prior on, each update paid for, "
        "emissions of at least min(0.1, 0.5 / values) as there; its last point predicts. With one state every sweep is "
        "an independent draw, of which one would do: that is `ops`",
    }
    return ["\n".join(f"- `{method}`: {said[method]}." for method in said if method in study.methods)]


def _case(name: str, study: HmmStudy, results: Results[HmmCell]) -> list[str]:
    """Return the parts of the summary that a case has."""
    own = [(cell, result) for cell, result in results if cell.name == name]
    found = {(cell.states, cell.epsilon, cell.method): result for cell, result in own}
    model = model_of(own[0][0].case, 1)
    sizes = model.sizes
    held = own[0][1].trials["n_test"]
    parts = [
        f"## {name}",
        f"{model.shape[0]} sequences, {model.shape[1]} time steps, features of {', '.join(map(str, sizes))} values; "
        f"{min(held):,.0f} to {max(held):,.0f} records are held out. Were all values equally likely, the "
        f"log-likelihood of a record would be {-sum(map(math.log, sizes)):.4g}. It ranges over "
        f"R = {record_range(sizes, [study.least_share] * len(sizes)):.4g} under the emissions of `ops`.",
        _table(study, found),
    ]
    for states in study.states:
        said = _said(states, study, found)
        if said:
            parts += [f"### {states} state{'s' * (states > 1)}", *said]
    return parts


def _table(study: HmmStudy, found: _Found) -> str:
    """Return a case's cells as a table, one row a number of states and method."""
    head = ["states", "method", *(f"epsilon {epsilon}" for epsilon in study.epsilon)]
    lines = [f"| {' | '.join(head)} |", "|---:|---|" + "---:|" * len(study.epsilon)]
    for states in study.states:
        for method in study.methods:
            prices = [None] if method == "non-private" else list(study.epsilon)
            shown = [_shown(found[states, price, method]) for price in prices]
            shown += [""] * (len(study.epsilon) - len(shown))
            lines.append(f"| {states} | {method} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _shown(result: FinishedCell) -> str:
    value, error = result.measures["log_likelihood"], result.measures["log_likelihood_se"]
    return "" if value is None or error is None else f"{value:.4f} ± {error:.4f}"


def _said(states: int, study: HmmStudy, found: _Found) -> list[str]:
    """Return what is said of a number of states."""
    held = set(study.methods)
    said = []
    if {"laplace", "ops"} <= held:
        said.append(_compared("laplace", "ops", states, study, found) + _claim("laplace", states, study, found))
    if {"laplace-naive", "ops"} <= held:
        text = _compared("laplace-naive", "ops", states, study, found)
        said.append(text + _claim("laplace-naive", states, study, found))
    if {"laplace", "laplace-naive"} <= held:
        said.append(_compared("laplace", "laplace-naive", states, study, found))
    if "gibbs" in held and len(held - {"non-private"}) > 1:
        said.append(_lowest(states, study, found))
    if "non-private" in held:
        said.append(_cost(states, study, found))
    if states > 1 and 1 in study.states:
        said += [_gain(method, states, study, found) for method in study.methods]
    return said


def _away(found: _Found, first: _Place, second: _Place) -> tuple[float, float]:
    """Return the mean log-likelihood of one cell less that of another, and its standard error."""
    return mean_difference(found[first].trials["log_likelihood"], found[second].trials["log_likelihood"])


def _sorted(away: Sequence[tuple[str, tuple[float, float]]]) -> dict[str, list[str]]:
    """Return the prices at which differences are clear, by which way they go."""
    said: dict[str, list[str]] = {"better": [], "worse": [], "not clearly different": []}
    for epsilon, (value, error) in away:
        clear = abs(value) > CLEAR * error
        said["not clearly different" if not clear else "better" if value > 0.0 else "worse"].append(epsilon)
    return said


def _compared(first: Method, second: Method, states: int, study: HmmStudy, found: _Found) -> str:
    """Return at which prices a method is better than another, and by how much."""
    away = [(epsilon, _away(found, (states, epsilon, first), (states, epsilon, second))) for epsilon in study.epsilon]
    shown = "; ".join(f"{key} at epsilon {', '.join(at)}" for key, at in _sorted(away).items() if at)
    numbers = "; ".join(f"{epsilon}: {value:+.4f} ± {error:.4f}" for epsilon, (value, error) in away)
    return f"**`{first}` against `{second}`**: {shown}. By epsilon: {numbers}."


def _claim(method: Method, states: int, study: HmmStudy, found: _Found) -> str:
    """Return whether what the paper says of Laplace noise against one posterior sample holds for a method."""
    away = [(epsilon, _away(found, (states, epsilon, method), (states, epsilon, "ops"))) for epsilon in study.epsilon]
    what = "Laplace noise is superior for naive Bayes" if states == 1 else "Laplace noise is superior with much data"
    verdicts = {"better": "holds", "worse": "**does not hold**", "not clearly different": "is not seen"}
    said = [f"{verdicts[key]} at epsilon {', '.join(at)}" for key, at in _sorted(away).items() if at]
    return f" The paper says that {what}: this {', '.join(said)}."


def _lowest(states: int, study: HmmStudy, found: _Found) -> str:
    """Return whether the chain that pays for every update is worse than everything else."""
    others = [method for method in study.methods if method not in {"gibbs", "non-private"}]
    above = []
    for epsilon in study.epsilon:
        pairs = {m: _away(found, (states, epsilon, "gibbs"), (states, epsilon, m)) for m in others}
        above += [f"`{m}` at epsilon {epsilon}" for m, (value, error) in pairs.items() if value > -CLEAR * error]
    if above:
        return f"**`gibbs`** is not clearly worse than {', '.join(above)}; it is worse than all others elsewhere."
    return "**`gibbs`** is worse than all others at every epsilon."


def _cost(states: int, study: HmmStudy, found: _Found) -> str:
    """Return what privacy costs, by method."""
    shown = []
    for method in study.methods:
        if method != "non-private":
            away = (_away(found, (states, e, method), (states, None, "non-private")) for e in study.epsilon)
            shown.append(f"`{method}` {', '.join(f'{value:+.4f}' for value, _ in away)}")
    return f"**Against `non-private`**, by epsilon {', '.join(study.epsilon)}: {'; '.join(shown)}."


def _gain(method: Method, states: int, study: HmmStudy, found: _Found) -> str:
    """Return at which prices more states than one are worth having."""
    prices = [None] if method == "non-private" else study.epsilon
    away = [(epsilon or "", _away(found, (states, epsilon, method), (1, epsilon, method))) for epsilon in prices]
    if method == "non-private":
        value, error = away[0][1]
        return f"**{states} states against one**, `{method}`: {value:+.4f} ± {error:.4f}."
    shown = "; ".join(f"{key} at epsilon {', '.join(at)}" for key, at in _sorted(away).items() if at)
    return f"**{states} states against one**, `{method}`: {shown}."
