"""The kind of study that asks whether posteriors are calibrated, and what they are worth."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from dpbayes_cli.experiments.calibration.cell import CalibrationCell, cells
from dpbayes_cli.experiments.calibration.results import Results, ranks_csv, results_csv, rows, summary_markdown
from dpbayes_cli.experiments.calibration.study import CalibrationStudy, build_calibration, check_served
from dpbayes_cli.experiments.kind import Kind


class Calibration(Kind[CalibrationStudy, CalibrationCell]):
    """Ranks of true parameters in posteriors, and distances of posteriors to the non-private one."""

    name: ClassVar[str] = "calibration"
    shown: ClassVar[tuple[str, ...]] = (
        "case", "n", "epsilon", "method", "ks", "ks_p_value", "coverage", "mean_sd", "mmd",
    )  # fmt: skip

    def build(self, document: dict[str, Any], base: Path) -> CalibrationStudy:
        """Check a document, which names no file; see ``Kind.build``."""
        return build_calibration(document)

    def cells(self, study: CalibrationStudy) -> list[CalibrationCell]:
        """Plan every case once and return the cells; see ``Kind.cells``."""
        from dpbayes_cli.experiments.calibration.simulation import check_plans

        check_served(study)
        grid = cells(study)
        check_plans(grid)
        return grid

    def rows(self, results: Results) -> list[dict[str, Any]]:
        """Return one object a cell; see ``Kind.rows``."""
        return rows(results)

    def files(self, study: CalibrationStudy, results: Results) -> Mapping[str, bytes]:
        """Return tables, figures and the summary; see ``Kind.files``."""
        from dpbayes_cli.experiments.calibration.charts import charts

        drawn = charts(study, results)
        return {
            "results.csv": results_csv(results),
            "ranks.csv": ranks_csv(results),
            "summary.md": summary_markdown(study, results, list(drawn)),
            **drawn,
        }
