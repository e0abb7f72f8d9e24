"""What is promised, on the page: in plain words, as numbers and as curves."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING

from dpbayes_cli.bundle.report.guarantee_plot import guarantee_pictures
from dpbayes_cli.bundle.report.inline_svg import Picture
from dpbayes_cli.bundle.report.markup import cut, gallery, paragraph, prose, table, text, titled
from dpbayes_cli.bundle.report.page_figures import shown
from dpbayes_cli.bundle.report.wording import guarantee_meaning, guarantee_text, odds_text
from dpbayes_cli.privacy.tradeoff import Tradeoff

if TYPE_CHECKING:
    from dpbayes_cli.bundle.analysis import Analysis
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.report.report_context import ReportContext
    from dpbayes_cli.privacy.guarantee import Guarantee

_MANY = 40
_DELTAS = (1e-3, 1e-5, 1e-6, 1e-9)
_LEVEL = 0.05
_FOUR_DIGITS = Context(prec=4, rounding=ROUND_CEILING)


def guarantee_section(document: ReleaseDocument, analysis: Analysis, beside: ReportContext) -> str:
    """Return what is promised: in plain words, as curves, and as tables of them."""
    promised = document.guarantee
    curve = [[f"{order:g}", f"{value:.6g}"] for order, value in (promised.rdp or [])[:_MANY]]
    pictures = promise_pictures(document, beside)
    return titled(
        "The guarantee",
        paragraph(promise(document), "headline"),
        paragraph(prose(guarantee_meaning(document))),
        paragraph(prose(odds_text(promised))) if odds_text(promised) else "",
        paragraph(prose(power_text(beside.guarantee))) if beside.guarantee else "",
        gallery(shown(pictures), "pair") if pictures else "",
        _by_delta(beside.guarantee) if beside.guarantee else "",
        table("Renyi divergence by order", ["order", "divergence at most"], curve) if curve else "",
        cut(len(promised.rdp or []), _MANY, "release.json"),
    )


def promise(document: ReleaseDocument) -> str:
    """Return the promise in one line, markup."""
    promised = document.guarantee
    return text(f"{guarantee_text(promised)} ({promised.kind}, {promised.neighbors} neighbors)")


def promise_pictures(document: ReleaseDocument, beside: ReportContext) -> list[Picture]:
    """Return the curves of the guarantee; none where it could not be priced again."""
    if beside.guarantee is None:
        return []
    return guarantee_pictures(beside.guarantee, document.guarantee.epsilon, document.guarantee.delta)


def power_text(guarantee: Guarantee) -> str:
    """Return what a guarantee of any kind means for whoever tests for one record, in a sentence."""
    power = math.ceil(1000.0 * Tradeoff(guarantee).power(_LEVEL)) / 10.0
    if power >= 100.0:
        return ""
    return (
        "As a test: whoever decides from this bundle which of two such data sets it was made from, and wrongly says "
        f"the second at most {100 * _LEVEL:g} times in 100, rightly says so at most {power:g} times in 100."
    )


def _by_delta(guarantee: Guarantee) -> str:
    """Return the epsilons of a few deltas; nothing where the guarantee has none."""
    curve = Tradeoff(guarantee)
    found = [(delta, curve.epsilon(delta)) for delta in _DELTAS if delta > guarantee.delta]
    rows = [[_short(delta), f"{_up(epsilon):.4g}"] for delta, epsilon in found if math.isfinite(epsilon)]
    if guarantee.epsilon.is_finite():
        rows.append([_short(float(guarantee.delta)), f"{_up(float(guarantee.epsilon)):.4g}"])
    return table("Epsilon at a delta, at most", ["delta", "epsilon"], rows) if rows else ""


def _short(delta: float) -> str:
    return f"{delta:g}".replace("e-0", "e-")


def _up(epsilon: float) -> float:
    """Round up to four digits, so that what is printed is not less than what holds."""
    return float(_FOUR_DIGITS.create_decimal(repr(epsilon)))
