"""The summary of a study of Renyi curves, and what Geumlek, Song and Chaudhuri 2017 say of their Figure 1."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.claims import OURS, Claim
from dpbayes_cli.experiments.renyi_curves.cell import RenyiCurveCell
from dpbayes_cli.experiments.renyi_curves.study import RenyiCurvesStudy
from dpbayes_cli.experiments.tables import Results

SOURCE = "[G] Figure 1"
_NEXT_TO = 1e-3
"""How near to the asymptote the curve is looked at."""


def summary_markdown(study: RenyiCurvesStudy, results: Results[RenyiCurveCell], figures: Sequence[str]) -> bytes:
    """Return the bytes of ``summary.md`` without its claims."""
    lines = [
        f"# Study `{study.name}`",
        f"**{NOT_PRIVATE}.** What one draw of a Beta posterior costs: the largest Renyi divergence between neighbors, "
        "by order. Nothing is random, and there are no data.",
        *(_case_table(name, study, results) for name in study.cases),
        "## Figures\n\n" + "\n".join(f"- [{name}]({name})" for name in figures),
        "`order_max`: the order at and above which the divergence is infinite. With dropped records any number of them "
        "may be invalid, and neighbors may differ in that.",
    ]
    return ("\n\n".join(lines) + "\n").encode("utf-8")


def _case_table(name: str, study: RenyiCurvesStudy, results: Results[RenyiCurveCell]) -> str:
    case = study.cases[name]
    lines = [
        f"## {name}",
        "",
        f"Beta({case.alpha:g}, {case.beta:g}), n = {case.n}.",
        "",
        "| method | records | weight | epsilon at order 2 | order_max |",
        "|---|---|---:|---:|---:|",
    ]
    for cell, result in results:
        if cell.name == name:
            at_2, order_max = result.measures["epsilon_at_2"], result.measures["order_max"]
            shown = "infinite" if at_2 is None else f"{at_2:.6f}"
            lines.append(f"| {cell.method} | {cell.records} | {cell.weight} | {shown} | {order_max:.6g} |")
    return "\n".join(lines)


def claims(study: RenyiCurvesStudy, results: Results[RenyiCurveCell]) -> list[Claim]:
    """Return the claims of Figure 1, case by case; see ``Kind.claims``."""
    made = []
    for name in study.cases:
        own = [cell for cell, _ in results if cell.name == name]
        direct = [cell for cell in own if cell.weight == "1"]
        complete = [cell for cell in direct if cell.records == "complete"]
        dropped = [cell for cell in direct if cell.records == "dropped"]
        if complete:
            made.append(_asymptote(complete[0]))
        if len(study.weights) > 1:
            made.append(_improves(name, own))
        if complete and dropped:
            made.append(_dropped(complete[0], dropped[0]))
    return made


def _asymptote(cell: RenyiCurveCell) -> Claim:
    """Finite below 1 + min(alpha, beta), infinite there, and without bound next to it."""
    case = cell.case
    expected = 1.0 + min(case.alpha, case.beta)
    below, nearer = (cell.divergence(expected - _NEXT_TO / k) for k in (1.0, 1e2))
    at = cell.divergence(expected)
    return Claim(
        SOURCE,
        f"{cell.name}: direct sampling has a vertical asymptote at order {expected:g} under Beta({case.alpha:g}, "
        f"{case.beta:g}).",
        cell.order_max == expected and below < nearer < float("inf") == at,
        f"lambda* = {cell.order_max:g}; epsilon {cell.divergence(2.0):.6f} at order 2, {below:.3f} at "
        f"{expected - _NEXT_TO:g}, {nearer:.3f} at {expected - _NEXT_TO / 1e2:g}, {at:g} at {expected:g}",
        "The paper pairs posteriors of which one may leave the hull of possible ones: too large for small priors, and "
        "the same for this one if it is the paper's Beta(6, 12). The asymptote is the same in any case.",
    )


def _improves(name: str, own: Sequence[RenyiCurveCell]) -> Claim:
    """At every common order less weight costs less, and the asymptote is further out."""
    parts, holds = [], True
    for method in dict.fromkeys(cell.method for cell in own):
        for records in dict.fromkeys(cell.records for cell in own):
            some = [cell for cell in own if (cell.method, cell.records) == (method, records)]
            some.sort(key=lambda cell: float(cell.weight))
            for less, more in pairwise(some):
                holds = holds and less.order_max > more.order_max
                holds = holds and all(less.divergence(order) <= more.divergence(order) for order in more.orders)
            parts.append(f"{method}, {records}: lambda* {', '.join(f'{cell.order_max:.4g}' for cell in some)}")
    weights = ", ".join(sorted({cell.weight for cell in own}, key=float))
    return Claim(
        SOURCE,
        f"{name}: smaller r or m improve epsilon at every order and stay finite at larger ones, but an asymptote "
        "remains.",
        holds,
        f"at r, m = {weights}: {'; '.join(parts)}",
    )


def _dropped(complete: RenyiCurveCell, dropped: RenyiCurveCell) -> Claim:
    """What it costs at order 2 that records may be invalid."""
    less, more = complete.divergence(2.0), dropped.divergence(2.0)
    return Claim(
        OURS,
        f"{complete.name}: where invalid records are dropped the true posterior costs more.",
        more > less,
        f"at order 2 {more:.3f} against {less:.3f} with complete records",
        "Fewer records count, so that the posterior may be wider and a record moves it further. The mechanisms refuse "
        "such records.",
    )
