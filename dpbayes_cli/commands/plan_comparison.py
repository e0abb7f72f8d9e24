"""The text of ``dpbayes plan --compare``: a line for each mechanism, and which is better."""

from __future__ import annotations

from textwrap import fill
from typing import Any

from dpbayes_cli.base.numeric import float_text
from dpbayes_cli.commands.output import emit, emit_table, verbosity

COLUMNS = 80
ESTIMATE = "a point estimate has no posterior: {} is its root mean square distance from the true parameter"
_PARAMETERS = ("scale", "sigma", "rho", "likelihood_power", "r", "m")


def show_comparison(described: list[dict[str, Any]], asked: str) -> None:
    """Print the plans of all mechanisms of a request, the best first.

    Args:
        described: the plans as JSON objects, refusals last.
        asked: the mechanism that the request names, or the default one.
    """
    from dpbayes_cli.workflow.account_costs import TOTALS, shown_amounts
    from dpbayes_cli.workflow.plan_sentences import best_sentence

    rows, planned = [], [each for each in described if "refused" not in each]
    for sentence in described[0].get("sentences", []):
        emit(fill(f"{described[0]['mechanism']}: {sentence}", COLUMNS))
    emit("")
    for each in planned:
        guarantee, expected = each["guarantee"], each["expected"] or each.get("groups") or {}
        epsilon = "-" if guarantee["epsilon"] is None else f"{guarantee['epsilon']:.4g}"
        coverage = (expected.get("coverage") or {}).get("noise-aware")
        rows.append(
            [
                each["mechanism"] + ("*" if each["costs_more"] else ""),
                f"{epsilon} at {float_text(guarantee['delta'])}",
                *_sizes(expected),
                "" if coverage is None else f"{coverage:.3f}",
                f"{_approximate(each)['times']:,}",
                ", ".join(f"{name} {value:.5g}" for name, value in each["parameters"].items() if name in _PARAMETERS),
            ]
        )
    if planned:
        has_effects = any((each["expected"] or {}).get("effect_error") for each in planned)
        sizes = ["error", "no privacy"] if has_effects else ["sd", "inflation"]
        columns = ["mechanism", "epsilon at delta", *sizes, "coverage", "times", "parameters"]
        emit_table(columns, rows, optional=("coverage",))
        if has_effects:
            emit(f"error: of estimated effects, in units of coefficients; true ones are drawn from {asked}'s prior")
        total = shown_amounts(_approximate(planned[0])["total"])
        emit(f"times: how many such releases a new account of {total} pays for")
        if best := best_sentence(planned):
            emit(best)
    if planned and verbosity() > 0:
        emit("")
        costs = [[f"{shown_amounts(of['cost'])}: {of['times']:,}" for of in each["accounts"]] for each in planned]
        rows_of_costs = [[each["mechanism"], *of] for each, of in zip(planned, costs, strict=True)]
        emit_table(["in new accounts of", *(TOTALS[of["kind"]] for of in planned[0]["accounts"])], rows_of_costs)
        emit("cost of a release, and how many such releases the account pays for")
    if any(each["costs_more"] for each in planned):
        emit("*: costs more than was asked, so it is ranked after the others")
    if len({row[1] for row in rows}) > 1:
        emit("these mechanisms do not cost the same: compare the column 'epsilon at delta' first")
    for each in planned:
        if (each["expected"] or {}).get("sd_of") == "estimate":
            emit(f"{each['mechanism']}: {ESTIMATE.format('sd')}")
    refusals: dict[str, list[str]] = {}
    for each in described[len(planned) :]:
        refusals.setdefault(each["refused"], []).append(each["mechanism"])
    for reason, names in refusals.items():
        emit(f"\nnot possible: {', '.join(names)}: {reason}")


def _sizes(expected: dict[str, Any]) -> tuple[str, str]:
    """Return error with and without privacy if effects are estimated, else the posterior's sd and its inflation."""
    if not expected:
        return "", ""
    if expected.get("effect_error") is not None:
        return f"{expected['effect_error']:.3g}", f"{expected['nonprivate_effect_error']:.3g}"
    return f"{expected['posterior_sd']:.4g}", f"{expected['posterior_sd'] / expected['nonprivate_sd']:.3f}"


def _approximate(described: dict[str, Any]) -> dict[str, Any]:
    """Return the cost of a planned release in a new account of epsilon and delta."""
    return next(each for each in described["accounts"] if each["kind"] == "renyi")
