"""What Foulds et al. 2016 say of their case study (Figures 3 to 7), and what a study of such models measures."""

from __future__ import annotations

from collections.abc import Mapping

from dpbayes_cli.experiments.claims import OURS, Claim
from dpbayes_cli.experiments.hmm.cell import HmmCell
from dpbayes_cli.experiments.hmm.study import HmmStudy, Method
from dpbayes_cli.experiments.hmm.summary import CLEAR
from dpbayes_cli.experiments.means import mean_difference
from dpbayes_cli.experiments.store import FinishedCell
from dpbayes_cli.experiments.tables import Results

SOURCE = "[F] Figures 3-7"
_NOISE = (
    "With one count a cell and noise of scale 2 features / epsilon, counts that are taken for true are far off at "
    "small epsilon; and the sampler is idealized: no released chain draws it."
)
_PAID = "At the smallest epsilons noisy counts that are taken for true are as far off as the chain."

_Found = Mapping[tuple[int, str | None, Method], FinishedCell]


def claims(study: HmmStudy, results: Results[HmmCell]) -> list[Claim]:
    """Return the claims of the case study; see ``Kind.claims``."""
    made = []
    for name in study.cases:
        found = {(c.states, c.epsilon, c.method): result for c, result in results if c.name == name}
        for states in study.states:
            made += _of_states(name, states, study, found)
    return made


def _of_states(name: str, states: int, study: HmmStudy, found: _Found) -> list[Claim]:
    at = f"{name}, {'naive Bayes' if states == 1 else f'{states} states'}"
    said: list[tuple[str, str, Method, Method, str]] = [
        (SOURCE, "Laplace noise beats one posterior sample", "laplace-naive", "ops", _NOISE),
        (OURS, "read with its noise, Laplace noise beats one posterior sample", "laplace", "ops", ""),
        (
            OURS,
            "counts read with their noise predict better than counts taken for true",
            "laplace",
            "laplace-naive",
            "",
        ),
    ]
    if states > 1:
        paid = "a chain that pays for every update is behind"
        said += [(SOURCE, f"{paid} `{method}`", method, "gibbs", _PAID) for method in ("laplace-naive", "ops")]
    return [
        _better(source, f"{at}: {says}.", first, second, why, states, study, found)
        for source, says, first, second, why in said
        if {first, second} <= set(study.methods)
    ]


def _better(
    source: str, says: str, first: Method, second: Method, why: str, states: int, study: HmmStudy, found: _Found
) -> Claim:
    """Return whether the first is clearly worse at no epsilon, and clearly better at some."""
    away = {
        epsilon: mean_difference(
            found[states, epsilon, first].trials["log_likelihood"],
            found[states, epsilon, second].trials["log_likelihood"],
        )
        for epsilon in study.epsilon
    }
    signs = [0 if abs(value) <= CLEAR * error else 1 if value > 0.0 else -1 for value, error in away.values()]
    holds = -1 not in signs and 1 in signs
    parts = "; ".join(f"{epsilon}: {value:+.4f} ± {error:.4f}" for epsilon, (value, error) in away.items())
    measured = f"difference of the log-likelihood of a record, by epsilon: {parts}"
    return Claim(source, says, holds, measured, "" if holds else why)
