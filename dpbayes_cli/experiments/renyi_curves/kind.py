"""The kind of study that asks what a draw of a posterior costs at each order of Renyi divergence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.claims import Claim
from dpbayes_cli.experiments.kind import Kind
from dpbayes_cli.experiments.renyi_curves.cell import RenyiCurveCell, cells, evaluate_curve
from dpbayes_cli.experiments.renyi_curves.study import RenyiCurvesStudy, build_renyi_curves
from dpbayes_cli.experiments.tables import CASE, Results, Tables, columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class RenyiCurves(Kind[RenyiCurvesStudy, RenyiCurveCell]):
    """Epsilon against the order.

    Source: Geumlek, Song and Chaudhuri 2017, sec. 5.1 and Fig. 1.
    """

    name: ClassVar[str] = "renyi-curves"
    tables: ClassVar[Tables[RenyiCurveCell]] = Tables(
        {**CASE, **columns("method", "records", "weight")},
        ("epsilon_at_2", "order_max"),
        ("order", "epsilon"),
        trials_file="curves.csv",
        unit="point",
    )
    shown: ClassVar[tuple[str, ...]] = ("case", "method", "records", "weight", "epsilon_at_2", "order_max")

    def build(self, document: dict[str, Any], base: Path) -> RenyiCurvesStudy:
        """Check a document, which names no file; see ``Kind.build``."""
        return build_renyi_curves(document)

    def cells(self, study: RenyiCurvesStudy) -> list[RenyiCurveCell]:
        """Return the cells; see ``Kind.cells``."""
        return cells(study)

    def compute(self, cell: RenyiCurveCell) -> CellOutcome:
        """Evaluate the curve; see ``Kind.compute``."""
        return evaluate_curve(cell)

    def figures(self, study: RenyiCurvesStudy, results: Results[RenyiCurveCell]) -> dict[str, Figure]:
        """Return the figure; see ``Kind.figures``."""
        from dpbayes_cli.experiments.renyi_curves.charts import charts

        return charts(study, results)

    def claims(self, study: RenyiCurvesStudy, results: Results[RenyiCurveCell]) -> list[Claim]:
        """Return what the paper says and what is computed; see ``Kind.claims``."""
        from dpbayes_cli.experiments.renyi_curves.summary import claims

        return claims(study, results)

    def summary(self, study: RenyiCurvesStudy, results: Results[RenyiCurveCell], figures: Sequence[str]) -> bytes:
        """Return the summary; see ``Kind.summary``."""
        from dpbayes_cli.experiments.renyi_curves.summary import summary_markdown

        return summary_markdown(study, results, figures)
