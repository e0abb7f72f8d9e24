"""The kind of study that asks what releases of one Renyi price are worth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.claims import Claim
from dpbayes_cli.experiments.kind import Kind
from dpbayes_cli.experiments.renyi_utility.cell import UtilityCell, cells
from dpbayes_cli.experiments.renyi_utility.study import RenyiUtilityStudy, build_renyi_utility
from dpbayes_cli.experiments.tables import CASE, Results, Tables, columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class RenyiUtility(Kind[RenyiUtilityStudy, UtilityCell]):
    """KL divergence from the true posterior, and log-likelihood of held-out records, against epsilon at an order.

    Source: Geumlek, Song and Chaudhuri 2017, sec. 5.1 and Fig. 2.
    """

    name: ClassVar[str] = "renyi-utility"
    tables: ClassVar[Tables[UtilityCell]] = Tables(
        {**CASE, **columns("order", "epsilon", "method")},
        ("parameter", "cost", "kl", "nll", "nll_sd"),
        (),
        unit="",
    )
    shown: ClassVar[tuple[str, ...]] = ("case", "order", "epsilon", "method", "parameter", "kl", "nll", "nll_sd")

    def build(self, document: dict[str, Any], base: Path) -> RenyiUtilityStudy:
        """Check a document, which names no file; see ``Kind.build``."""
        return build_renyi_utility(document)

    def cells(self, study: RenyiUtilityStudy) -> list[UtilityCell]:
        """Return the cells; see ``Kind.cells``."""
        return cells(study)

    def compute(self, cell: UtilityCell) -> CellOutcome:
        """Compute expectations; see ``Kind.compute``."""
        from dpbayes_cli.experiments.renyi_utility.measures import measure

        return CellOutcome(measure(cell), {})

    def figures(self, study: RenyiUtilityStudy, results: Results[UtilityCell]) -> dict[str, Figure]:
        """Return the figures; see ``Kind.figures``."""
        from dpbayes_cli.experiments.renyi_utility.charts import charts

        return charts(study, results)

    def claims(self, study: RenyiUtilityStudy, results: Results[UtilityCell]) -> list[Claim]:
        """Return what the paper says and what is computed; see ``Kind.claims``."""
        from dpbayes_cli.experiments.renyi_utility.claims import claims

        return claims(study, results)

    def summary(self, study: RenyiUtilityStudy, results: Results[UtilityCell], figures: Sequence[str]) -> bytes:
        """Return the summary; see ``Kind.summary``."""
        from dpbayes_cli.experiments.renyi_utility.summary import summary_markdown

        return summary_markdown(study, results, figures)
