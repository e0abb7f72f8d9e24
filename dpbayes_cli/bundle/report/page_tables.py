"""The tables and sentences that are on the page but not in the Markdown report."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context

from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.report.digits import rounded
from dpbayes_cli.bundle.report.report_context import BudgetChange, Expected
from dpbayes_cli.bundle.report.report_tables import MAX_ROWS, ReportTable, cut_table
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.tradeoff import Tradeoff

_DELTAS = (1e-3, 1e-5, 1e-6, 1e-9)
_FALSE_ALARM_RATE = 0.05
_FOUR_DIGITS = Context(prec=4, rounding=ROUND_CEILING)
"""Rounds up to four digits, so that the table never understates epsilon."""
_DIAGNOSTICS = {
    "r_hat": "R-hat",
    "ess_bulk": "effective sample size (bulk)",
    "ess_tail": "effective sample size (tails)",
    "ess_within_chains": "effective sample size (within chains)",
    "agreement_p_value": "p-value of agreement between chains",
}
_GOOD = {
    "r_hat": "at most 1.01",
    "ess_bulk": "at least 400",
    "ess_tail": "at least 400",
    "agreement_p_value": "above 0.001",
}


def power_text(guarantee: Guarantee) -> str:
    """Return a bound on the power of a test between neighboring data sets, in sentences; empty if there is no bound."""
    power = math.ceil(1000.0 * Tradeoff(guarantee).power(_FALSE_ALARM_RATE)) / 10.0
    if power >= 100.0:
        return ""
    return (
        "Consider any hypothesis test that decides from this bundle which of two neighboring data sets was used. If "
        f"the test has a false positive rate of at most {100 * _FALSE_ALARM_RATE:g} %, then its power (its true "
        f"positive rate) is at most {power:g} %."
    )


def drawn_width_text(document: ReleaseDocument, expected: Expected) -> str:
    """Return the standard deviation of the released draws and the one without privacy; empty if they are unknown."""
    drawn, nonprivate = expected.drawn_sd, expected.drawn_nonprivate_sd
    if not drawn or not nonprivate:
        return ""
    return (
        f"In the same simulation, the standard deviation of `{next(iter(document.posterior))}` (as a root mean square) "
        f"is {drawn:.4g} in the distribution of the released draws and {nonprivate:.4g} in the posterior without "
        f"privacy. Privacy's share of the variance is {max(0.0, 1.0 - (nonprivate / drawn) ** 2):.1%}."
    )


def epsilon_table(guarantee: Guarantee) -> ReportTable:
    """Return upper bounds on epsilon at a few values of delta; infinite bounds are left out."""
    curve = Tradeoff(guarantee)
    pairs = [(delta, curve.epsilon(delta)) for delta in _DELTAS if delta > guarantee.delta]
    if guarantee.epsilon.is_finite():
        pairs.append((float(guarantee.delta), float(guarantee.epsilon)))
    finite = [(delta, epsilon) for delta, epsilon in pairs if math.isfinite(epsilon)]
    return cut_table(
        "Upper bound on epsilon at each delta",
        ["delta", "epsilon"],
        finite,
        lambda pair: [f"{pair[0]:g}".replace("e-0", "e-"), f"{float(_FOUR_DIGITS.create_decimal(repr(pair[1]))):.4g}"],
    )


def expected_table(document: ReleaseDocument, expected: Expected) -> ReportTable:
    """Return, for each parameter, the width of the released posterior and the width expected without privacy."""
    columns = ["parameter", "width of the 90 % interval", "expected without privacy", "sd expected without privacy"]
    rows = []
    for name, width in list(expected.widths.items())[:MAX_ROWS]:
        summary = document.posterior[name]
        released = "-" if summary.q05 is None or summary.q95 is None else _two_digits(summary.q95 - summary.q05)
        rows.append([name, released, _two_digits(width.interval_width), _two_digits(width.sd)])
    return ReportTable("Widths expected without privacy", columns, rows, len(expected.widths), "release.json")


def _two_digits(width: float) -> str:
    return rounded(width, width)


def budget_table(change: BudgetChange) -> ReportTable:
    """Return the total, spent and remaining budget of the account before and after a release."""
    columns = ["component", "total", "spent before", "spent after", "remaining after"]
    amounts = (change.total, change.before, change.after, change.remaining)
    rows = [[name, *(amount[name] for amount in amounts)] for name in change.total]
    return ReportTable("The account before and after this release", columns, rows, len(rows), "")


def diagnostics_table(document: ReleaseDocument) -> ReportTable:
    """Return the diagnostics of the Markov chains, each with the range of its good values."""
    values = document.inference.diagnostics
    good = dict(_GOOD)
    if required := values.get("ess_required"):  # a test of agreement between chains replaces the limit on R-hat
        good |= {"r_hat": "near 1", "ess_within_chains": f"at least {required:,.0f}"}
    rows = []
    for key, title in _DIAGNOSTICS.items():
        if key in values:
            value = values[key]
            rows.append([title, "-" if value is None else f"{value:.4g}", good[key]])
    columns = ["diagnostic", "value", "good if"]
    return ReportTable("Diagnostics: the worst value over all parameters", columns, rows, len(rows), "")
