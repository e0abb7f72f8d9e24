"""The tables of the page and of the Markdown report, whose cells are texts, and sentences that go with them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import TypeVar

from msgspec import UnsetType

from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.report.digits import percent, rounded
from dpbayes_cli.bundle.report.intervals import Intervals, share_of_log_without_noise, stored_intervals
from dpbayes_cli.bundle.report.prior import prior_ends
from dpbayes_cli.bundle.report.report_context import BudgetChange, Expected
from dpbayes_cli.bundle.report.result_sentence import findings_of, numbers_of_records
from dpbayes_cli.bundle.report.wording import are_estimates, draws_word
from dpbayes_cli.core.model import Model
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.tradeoff import Tradeoff

AVERAGE = "average change with "
"""The beginning of the names of average effects in a document."""
MAX_ROWS = 40  # tables of the report are cut to this number of rows; a file of the bundle holds all rows
_NUMERIC = re.compile(r"[-+]?[0-9.,]+(e[-+]?[0-9]+)?( ?%)?|-")
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
    "halves_p_value": "p-value of agreement between the halves of the chains",
}
_GOOD = {
    "r_hat": "at most 1.01",
    "ess_bulk": "at least 400",
    "ess_tail": "at least 400",
    "agreement_p_value": "above 0.001",
    "halves_p_value": "above 0.001",
}
Item = TypeVar("Item")


@dataclass(frozen=True)
class ReportTable:
    """A table of texts."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]  # the rows that are shown
    n_rows: int  # the number of rows in the file
    file: str  # the file that holds all rows
    shares: Sequence[float] = ()  # for each row, a share from 0 to 1 that the page shows as a bar, if there are bars

    @property
    def is_numeric(self) -> list[bool]:
        """Whether each column holds only numbers."""
        return [all(_NUMERIC.fullmatch(row[k]) for row in self.rows) for k in range(len(self.columns))]


def released_table(document: ReleaseDocument) -> ReportTable:
    """Return the released draws, estimates or statistics."""
    if document.draws:
        word = draws_word(document)
        columns = [word[:-1], *list(document.posterior)[:MAX_ROWS]]
        draws = list(enumerate(document.draws, 1))
        return cut_table(
            f"The released {word}",
            columns,
            draws,
            lambda draw: [str(draw[0]), *(f"{x:.6g}" for x in draw[1][:MAX_ROWS])],
            document.inference.samples_file,
        )
    columns = ["statistic", "released value", "noise scale", "what a record adds"]
    if not document.meanings.keys() & {item.name for item in document.statistics[:MAX_ROWS]}:
        columns.pop()  # the meanings of whole tables have a table of their own
    return cut_table(
        "The released statistics",
        columns,
        document.statistics,
        lambda item: [item.name, str(item.value), f"{item.noise_scale:.6g}", document.meanings.get(item.name, "")][
            : len(columns)
        ],
        "statistics.csv",
    )


def meanings_table(document: ReleaseDocument) -> ReportTable:
    """Return what a record adds to each table of counts; without such tables, there are no rows."""
    names = {item.name for item in document.statistics}
    meanings = [item for item in document.meanings.items() if item[0] not in names]
    return cut_table("What a record adds to a table", ["table", "what a record adds"], meanings, list)


def effects_table(document: ReleaseDocument, model: Model, intervals: Intervals | None = None) -> ReportTable:
    """Return ratios with their intervals; without any, there are no rows."""
    shown = intervals or stored_intervals(document)
    stated = {} if isinstance(document.effects, UnsetType) else document.effects
    samples, rows = shown.samples, []
    for effect in model.effects:
        if (each := stated.get(effect.name)) is None:
            continue
        ends: Sequence[float | None] = (each.q05, each.q50, each.q95)
        if samples is not None:
            ends = np.quantile(effect.of_samples(samples), [shown.tails[0], 0.5, shown.tails[1]]).tolist()
        remaining = share_of_log_without_noise(document, effect.name)
        noise = "-" if remaining is None else f"{100.0 * (1.0 - remaining):.0f} %"
        rows.append([effect.name, *("-" if end is None else f"{end:.3g}" for end in ends), noise])
    kind = next((effect.kind for effect in model.effects), "")
    columns = [kind, shown.heads[0], "median", shown.heads[1], "width from noise"]
    return ReportTable("Effects in the units of the data", columns, rows, len(rows), "release.json")


def average_effects_table(document: ReleaseDocument, intervals: Intervals | None = None) -> ReportTable:
    """Return average effects with their 90 % intervals, which samples alone do not give at other levels."""
    shown = intervals or stored_intervals(document)
    stated = {} if isinstance(document.effects, UnsetType) or shown.samples is not None else document.effects
    rows = [
        [name.removeprefix(AVERAGE), *("-" if end is None else f"{end:.3g}" for end in (each.q05, each.q50, each.q95))]
        for name, each in stated.items()
        if name.startswith(AVERAGE)
    ]
    columns = ["average change of the mean", shown.heads[0], "median", shown.heads[1]]
    return ReportTable("Average effects of a change in one column", columns, rows, len(rows), "release.json")


def posterior_table(
    document: ReleaseDocument, model: Model, intervals: Intervals | None = None, max_rows: int = MAX_ROWS
) -> ReportTable:
    """Return mean, sd, median, interval and prior of each parameter; for estimates or one draw, only their values."""
    summaries = list(document.posterior.items())
    if are_estimates(document) or (len(document.draws) == 1):
        one = "estimate" if are_estimates(document) else "draw"
        columns = ["parameter", f"mean of the {one}s" if len(document.draws) > 1 else one]
        rows = [[name, f"{p.mean:.4g}"] for name, p in summaries[:max_rows]]
        return ReportTable(f"The {one}{'s' * (len(document.draws) > 1)}", columns, rows, len(summaries), "release.json")
    shown = intervals or stored_intervals(document)
    priors = prior_ends(document, model, shown.tails)
    columns = ["parameter", "mean", "sd", shown.heads[0], "median", shown.heads[1]]
    columns += [f"prior, {shown.percent}"] if priors else []
    rows, write = [], percent if model.has_one_unit and model.main_fact.is_share else rounded
    for name, p in summaries[:max_rows]:
        low, high = shown.ends.get(name, (math.nan, math.nan))
        numbers = [(p.mean, high - low), (p.sd, p.sd), (low, high - low), (p.q50, high - low), (high, high - low)]
        row = [name, *("-" if x is None or math.isnan(x) else write(x, width or 0.0) for x, width in numbers)]
        if priors:
            ends = priors.get(name)
            row.append("-" if ends is None else " to ".join(write(end, ends[1] - ends[0]) for end in ends))
        rows.append(row)
    added = numbers_of_records(document, shown)
    for name, median, ends in added:
        cells = (rounded(x, ends[1] - ends[0]) for x in (ends[0], median, ends[1])) if ends else ("-", "-", "-")
        rows.append([name, "-", "-", *cells, *["-"] * bool(priors)])
    caption = findings_of(document).caption or "Posterior of each parameter"
    return ReportTable(caption, columns, rows, len(summaries) + len(added), "release.json")


def width_table(document: ReleaseDocument) -> ReportTable:
    """Return the two parts of each posterior standard deviation, and privacy's share of the variance."""
    columns = ["parameter", "sd", "sd from the data", "sd from privacy", "privacy's share of the variance"]
    rows, shares = [], []
    for name, width in list(document.width.items())[:MAX_ROWS]:
        sd = document.posterior[name].sd or 0.0
        shares.append((width.sd_noise / sd) ** 2 if sd > 0 else 0.0)
        sds = (rounded(x, sd) for x in (sd, width.sd_data, width.sd_noise))
        rows.append([name, *sds, f"{100.0 * shares[-1]:.0f} %"])
    return ReportTable("Where the width comes from", columns, rows, len(document.width), "release.json", shares)


def renyi_table(document: ReleaseDocument) -> ReportTable:
    """Return the Renyi curve of the guarantee; without such a curve, there are no rows."""
    curve = document.guarantee.rdp or []
    return cut_table(
        "Renyi divergence by order",
        ["order", "upper bound on the Renyi divergence"],
        curve,
        lambda point: [f"{point[0]:g}", f"{point[1]:.6g}"],
    )


def cut_table(
    caption: str,
    columns: Sequence[str],
    items: Sequence[Item],
    row: Callable[[Item], Sequence[str]],
    file: str = "release.json",
) -> ReportTable:
    """Return a table with a row for each item, up to ``MAX_ROWS`` rows."""
    return ReportTable(caption, columns, [row(item) for item in items[:MAX_ROWS]], len(items), file)


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
        released = None if summary.q05 is None or summary.q95 is None else summary.q95 - summary.q05
        numbers = (released, width.interval_width, width.sd)
        rows.append([name, *("-" if x is None else rounded(x, x) for x in numbers)])
    return ReportTable("Widths expected without privacy", columns, rows, len(expected.widths), "release.json")


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
