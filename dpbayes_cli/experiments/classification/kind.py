"""The kind of study that asks how well what was released predicts the class of new records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from dpbayes_cli.experiments.classification.cell import ClassificationCell, cells
from dpbayes_cli.experiments.classification.comparison import Results
from dpbayes_cli.experiments.classification.study import ClassificationStudy, build_classification, check_predicts
from dpbayes_cli.experiments.kind import Kind


class Classification(Kind[ClassificationStudy, ClassificationCell]):
    """Accuracy of posterior predictions of a network's target, and the error of its released tables.

    Source: Zhang, Rubinstein and Dimitrakakis 2016, sec. 5.1 and Fig. 1.
    """

    name: ClassVar[str] = "classification"
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

    def rows(self, results: Results) -> list[dict[str, Any]]:
        """Return one object a cell; see ``Kind.rows``."""
        from dpbayes_cli.experiments.classification.results import rows

        return rows(results)

    def files(self, study: ClassificationStudy, results: Results) -> Mapping[str, bytes]:
        """Return tables, figures and the summary; see ``Kind.files``."""
        from dpbayes_cli.experiments.classification.charts import charts
        from dpbayes_cli.experiments.classification.results import results_csv, summary_markdown, trials_csv

        drawn = charts(study, results)
        return {
            "results.csv": results_csv(results),
            "trials.csv": trials_csv(results),
            "summary.md": summary_markdown(study, results, list(drawn)),
            **drawn,
        }
