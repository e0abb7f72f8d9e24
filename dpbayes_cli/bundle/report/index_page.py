"""An index of several bundles as one HTML page, made from the template ``templates/index.html.j2``.

Like the page of one bundle, it contains its style and figures, fetches nothing and runs no scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.report.inline_svg import LINE, QUIET, SERIES, Picture, blank_figure, inline_svg
from dpbayes_cli.bundle.report.page import render_page
from dpbayes_cli.bundle.report.report_context import BudgetHistory
from dpbayes_cli.bundle.report.result_sentence import result_sentence
from dpbayes_cli.bundle.report.wording import guarantee_text

_SIZE = (7.0, 2.2)
_SHORTEST_SECONDS = 4 * 86400.0  # the time axis is at least this long
_INTERVALS = 4  # the number of intervals between the dates of the time axis


@dataclass(frozen=True)
class IndexedBundle:
    """One row of the index."""

    name: str  # the name of the bundle's directory
    link: str  # the relative path of the page of the bundle or, if there is none, of its text
    document: ReleaseDocument

    @property
    def result(self) -> str:
        """The first sentence of the result."""
        return result_sentence(self.document)

    @property
    def guarantee(self) -> str:
        """The guarantee of the release."""
        return guarantee_text(self.document.guarantee)


def index_html(bundles: Sequence[IndexedBundle], budgets: Sequence[BudgetHistory | str]) -> bytes:
    """Return the bytes of the page; ``budgets`` are histories of accounts, or sentences on why they are unknown."""
    figures = [each if isinstance(each, str) else budget_plot(each, f"budget-{i}") for i, each in enumerate(budgets)]
    return render_page("index.html.j2", bundles=bundles, figures=figures)


def budget_plot(history: BudgetHistory, name: str) -> Picture:
    """Return the plot of what an account has spent over time; ``name`` is the unique name of the figure."""
    seconds = [datetime.fromisoformat(time).timestamp() for time, *_ in history.points]
    end = max(seconds[-1], seconds[0] + _SHORTEST_SECONDS)
    figure, (panel,) = blank_figure(*_SIZE)
    for values, color, style in (
        ([total for _, _, total in history.points], QUIET, "--"),
        ([spent for _, spent, _ in history.points], SERIES[0], "-"),
    ):
        panel.step([*seconds, end], [*values, values[-1]], where="post", color=color, linestyle=style)
    panel.set_ylim(0.0, 1.08 * max(total for *_, total in history.points))
    ticks = [seconds[0] + (end - seconds[0]) * i / _INTERVALS for i in range(_INTERVALS + 1)]
    panel.set_xticks(ticks, [f"{datetime.fromtimestamp(tick, UTC):%Y-%m-%d}" for tick in ticks])
    panel.set_ylabel(history.component, color=QUIET, fontsize=9)
    panel.grid(color=LINE, linewidth=0.5)
    *_, (_, spent, total) = history.points
    caption = (
        f"Budget of account {history.account} over time: {history.component} {spent:.4g} of {total:.4g} is spent. The "
        "dashed line is the total."
    )
    return Picture(name, inline_svg(figure, name, caption), caption)
