"""The kind of study that asks how well what was released predicts the class of new records."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.claims import Claim
from dpbayes_cli.experiments.classification.cell import ERRORS, SCORES, ClassificationCell, cells
from dpbayes_cli.experiments.classification.study import ClassificationStudy, build_classification, check_predicts
from dpbayes_cli.experiments.kind import Kind
from dpbayes_cli.experiments.tables import CASE, Results, Tables, columns, with_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Classification(Kind[ClassificationStudy, ClassificationCell]):
    """Accuracy of posterior predictions of a network's target, and the error of its released tables.

    Source: Zhang, Rubinstein and Dimitrakakis 2016, sec. 5.1 and Fig. 1.
    """

    name: ClassVar[str] = "classification"
    tables: ClassVar[Tables[ClassificationCell]] = Tables(
        {**CASE, "model": attrgetter("case.model"), **columns("epsilon", "method")},
        with_errors(*SCORES, "majority", *ERRORS),
        (*SCORES, "majority", *ERRORS),
    )
    shown: ClassVar[tuple[str, ...]] = (
        "case", "epsilon", "method", "accuracy", "accuracy_se", "log_score", "calibration_error", "cell_error",
    )  # fmt: skip

    def build(self, document: dict[str, Any], base: Path) -> ClassificationStudy:
        """Check a document; see ``Kind.build``."""
        return build_classification(document, base)

    def cells(self, study: ClassificationStudy) -> list[ClassificationCell]:
        """Plan every release once and return the cells; see ``Kind.cells``."""
        from dpbayes_cli.experiments.classification.posteriors import check_plans
        from dpbayes_cli.experiments.classification.records import model_of

        check_predicts(study)
        grid = cells(study)
        check_plans(grid, model_of)
        return grid

    def compute(self, cell: ClassificationCell) -> CellOutcome:
        """Release, infer and predict in every trial; see ``Kind.compute``."""
        from dpbayes_cli.experiments.classification.prediction import predict_cell

        return predict_cell(cell)

    def figures(self, study: ClassificationStudy, results: Results[ClassificationCell]) -> dict[str, Figure]:
        """Return the figures; see ``Kind.figures``."""
        from dpbayes_cli.experiments.classification.charts import charts

        return charts(study, results)

    def claims(self, study: ClassificationStudy, results: Results[ClassificationCell]) -> list[Claim]:
        """Return what the paper says and what is measured; see ``Kind.claims``."""
        from dpbayes_cli.experiments.classification.claims import claims

        return claims(study, results)

    def summary(
        self, study: ClassificationStudy, results: Results[ClassificationCell], figures: Sequence[str]
    ) -> bytes:
        """Return the summary; see ``Kind.summary``."""
        from dpbayes_cli.experiments.classification.summary import summary_markdown

        return summary_markdown(study, results, figures)
