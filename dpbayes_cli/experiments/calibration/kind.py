"""The kind of study that asks whether posteriors are calibrated, and what they are worth."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.experiments.calibration.cell import CalibrationCell, cells
from dpbayes_cli.experiments.calibration.study import CalibrationStudy, build_calibration, check_served, parameter_of
from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.claims import Claim
from dpbayes_cli.experiments.kind import Kind
from dpbayes_cli.experiments.tables import CASE, Results, Tables, columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Calibration(Kind[CalibrationStudy, CalibrationCell]):
    """Ranks of true parameters in posteriors, and distances of posteriors to the non-private one."""

    name: ClassVar[str] = "calibration"
    tables: ClassVar[Tables[CalibrationCell]] = Tables(
        {
            **CASE,
            "model": attrgetter("case.model"),
            "parameter": lambda cell: parameter_of(cell.case),
            "n": attrgetter("n_records"),
            **columns("epsilon", "method"),
        },
        ("ks", "ks_p_value", "coverage", "mean_sd", "mmd", "mmd_squared", "mmd_squared_error"),
        ("theta", "rank"),
        trials_file="ranks.csv",
    )
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

    def compute(self, cell: CalibrationCell) -> CellOutcome:
        """Simulate the releases; see ``Kind.compute``."""
        from dpbayes_cli.experiments.calibration.simulation import simulate_cell

        return simulate_cell(cell)

    def figures(self, study: CalibrationStudy, results: Results[CalibrationCell]) -> dict[str, Figure]:
        """Return the figures; see ``Kind.figures``."""
        from dpbayes_cli.experiments.calibration.charts import charts

        return charts(study, results)

    def claims(self, study: CalibrationStudy, results: Results[CalibrationCell]) -> list[Claim]:
        """Return what the paper says and what is measured; see ``Kind.claims``."""
        from dpbayes_cli.experiments.calibration.claims import claims

        return claims(study, results)

    def summary(self, study: CalibrationStudy, results: Results[CalibrationCell], figures: Sequence[str]) -> bytes:
        """Return the summary; see ``Kind.summary``."""
        from dpbayes_cli.experiments.calibration.summary import summary_markdown

        return summary_markdown(study, results, figures)
