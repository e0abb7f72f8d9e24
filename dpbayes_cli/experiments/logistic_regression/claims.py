"""What Geumlek, Song and Chaudhuri 2017 say of their Figure 3, and what a study of logistic regression measures."""

from __future__ import annotations

from dpbayes_cli.experiments.claims import OURS, Claim
from dpbayes_cli.experiments.logistic_regression.cell import LogisticCell
from dpbayes_cli.experiments.logistic_regression.comparison import CLEAR, MethodDifference, differences, families
from dpbayes_cli.experiments.logistic_regression.study import LogisticStudy, Method
from dpbayes_cli.experiments.tables import Results

SOURCE = "[G] Figure 3"

_SAID: tuple[tuple[str, Method, Method, bool, str, str], ...] = (
    (SOURCE, "rdp-concentrated", "ops", True, "the concentrated posterior is below OPS in test error everywhere", ""),
    (SOURCE, "rdp-diffuse", "ops", True, "the diffuse posterior is below OPS in test error everywhere", ""),
    (
        SOURCE, "rdp-diffuse", "rdp-concentrated", False,
        "the diffuse posterior is never above the concentrated one in test error",
        "At the smallest epsilons both are near to guessing, where a draw that is all prior errs in half of the cases, "
        "and one that is all noise may do worse than one that has shrunk.",
    ),
    (
        OURS, "gdp-langevin", "rdp-diffuse", False, "the chain that is released is not above the ideal diffuse draw",
        "Finite steps are what it may lose; where it is short it costs less, and gains temperature.",
    ),
    (
        OURS, "gdp-langevin", "minami-langevin", False, "the exact curve allows draws no worse than the rule of Minami "
        "et al.", "",
    ),
)  # fmt: skip
"""Whose claim, the two methods, whether the first must be clearly lower (or not clearly higher), what is said, why."""


def claims(study: LogisticStudy, results: Results[LogisticCell]) -> list[Claim]:
    """Return the claims of Figure 3, case by case over all families of prices; see ``Kind.claims``."""
    made = []
    for name in study.cases:
        own = [(cell, result) for cell, result in results if cell.name == name]
        for source, first, second, lower, says, why in _SAID:
            apart = [
                (family, each)
                for family in families(own)
                for each in differences(own, family, first, second)
                if not each.same_law
            ]
            if apart:
                made.append(_claim(source, f"{name}: {says}.", lower, apart, why))
    return made


def _claim(source: str, says: str, lower: bool, apart: list[tuple[str, MethodDifference]], why: str) -> Claim:
    """Return whether the first method is clearly lower everywhere, or nowhere clearly higher."""
    signs = [each.sign("error") for _, each in apart]
    against = [
        f"{family}, epsilon {each.epsilon}: {each.error:+.4f} ± {each.error_se:.4f}"
        for (family, each), sign in zip(apart, signs, strict=True)
        if (sign != -1 if lower else sign == 1)
    ]
    values = [each.error for _, each in apart]
    return Claim(
        source,
        says,
        not against,
        f"difference in test error {min(values):+.4f} to {max(values):+.4f} over {len(apart)} prices; lower by "
        f"{CLEAR:g} standard errors at {signs.count(-1)}, higher at {signs.count(1)}"
        + (f"; against it: {'; '.join(against)}" if against else ""),
        why if against else "",
    )
