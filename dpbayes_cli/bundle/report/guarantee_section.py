"""The guarantee, on the page: in plain words, as numbers and as curves."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING

from dpbayes_cli.bundle.report.guarantee_plot import guarantee_plots
from dpbayes_cli.bundle.report.inline_svg import Picture
from dpbayes_cli.bundle.report.markup import gallery, more_rows_note, paragraph, prose, table, text, titled_section
from dpbayes_cli.bundle.report.page_figures import figures_of
from dpbayes_cli.bundle.report.wording import guarantee_meaning, guarantee_text, odds_text
from dpbayes_cli.privacy.tradeoff import Tradeoff

if TYPE_CHECKING:
    from dpbayes_cli.bundle.analysis import Analysis
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.report.report_context import ReportContext
    from dpbayes_cli.privacy.guarantee import Guarantee

_MAX_ROWS = 40
_DELTAS = (1e-3, 1e-5, 1e-6, 1e-9)
_FALSE_ALARM_RATE = 0.05
_FOUR_DIGITS = Context(prec=4, rounding=ROUND_CEILING)


def guarantee_section(document: ReleaseDocument, analysis: Analysis, context: ReportContext) -> str:
    """Return the guarantee: in plain words, as curves, and as tables of them."""
    guarantee = document.guarantee
    curve = [[f"{order:g}", f"{value:.6g}"] for order, value in (guarantee.rdp or [])[:_MAX_ROWS]]
    pictures = guarantee_pictures(document, context)
    return titled_section(
        "The guarantee",
        paragraph(guarantee_headline(document), "headline"),
        paragraph(prose(guarantee_meaning(document))),
        paragraph(prose(odds_text(guarantee))) if odds_text(guarantee) else "",
        paragraph(prose(power_text(context.guarantee))) if context.guarantee else "",
        gallery(figures_of(pictures), "pair") if pictures else "",
        _by_delta(context.guarantee) if context.guarantee else "",
        table("Renyi divergence by order", ["order", "divergence at most"], curve) if curve else "",
        more_rows_note(len(guarantee.rdp or []), _MAX_ROWS, "release.json"),
    )


def guarantee_headline(document: ReleaseDocument) -> str:
    """Return the guarantee in one line of markup."""
    guarantee = document.guarantee
    return text(f"{guarantee_text(guarantee)} ({guarantee.kind}, {guarantee.neighbors} neighbors)")


def guarantee_pictures(document: ReleaseDocument, context: ReportContext) -> list[Picture]:
    """Return the curves of the guarantee; none if the request could not be priced again."""
    if context.guarantee is None:
        return []
    return guarantee_plots(context.guarantee, document.guarantee.epsilon, document.guarantee.delta)


def power_text(guarantee: Guarantee) -> str:
    """Return what a guarantee of any kind means for someone who tests for one record; empty if it bounds nothing."""
    power = math.ceil(1000.0 * Tradeoff(guarantee).power(_FALSE_ALARM_RATE)) / 10.0
    if power >= 100.0:
        return ""
    return (
        "As a test: someone guesses from this bundle which of two such data sets it was made from. If they name "
        f"the second at most {100 * _FALSE_ALARM_RATE:g} times in 100 when it was the first, they name it at most "
        f"{power:g} times in 100 when it was the second."
    )


def _by_delta(guarantee: Guarantee) -> str:
    """Return a table of epsilon at a few deltas; empty if epsilon is infinite at all of them."""
    curve = Tradeoff(guarantee)
    pairs = [(delta, curve.epsilon(delta)) for delta in _DELTAS if delta > guarantee.delta]
    rows = [[_short(delta), f"{_round_up(epsilon):.4g}"] for delta, epsilon in pairs if math.isfinite(epsilon)]
    if guarantee.epsilon.is_finite():
        rows.append([_short(float(guarantee.delta)), f"{_round_up(float(guarantee.epsilon)):.4g}"])
    return table("Upper bound on epsilon at each delta", ["delta", "epsilon"], rows) if rows else ""


def _short(delta: float) -> str:
    return f"{delta:g}".replace("e-0", "e-")


def _round_up(epsilon: float) -> float:
    """Round up to four digits, so that the table never understates epsilon."""
    return float(_FOUR_DIGITS.create_decimal(repr(epsilon)))
