"""The kind of study that asks how far off one number is that a release tells."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.claims import Claim
from dpbayes_cli.experiments.estimation.cell import EstimationCell, cells
from dpbayes_cli.experiments.estimation.study import EstimationStudy, build_estimation
from dpbayes_cli.experiments.kind import Kind
from dpbayes_cli.experiments.tables import CASE, Results, Tables, columns, with_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Estimation(Kind[EstimationStudy, EstimationCell]):
    """L1 error of one draw and of the posterior mean, against the number of records.

    Source: Foulds et al. 2016, sec. 3.2, Fig. 1 and 2.
    """

    name: ClassVar[str] = "estimation"
    tables: ClassVar[Tables[EstimationCell]] = Tables(
        {**CASE, "n": attrgetter("n_records"), **columns("epsilon", "method")},
        (*with_errors("l1", "l1_mean"), "sd", "charged", "rdp_2", "rdp_2_bound"),
        ("draw", "l1", "mean", "l1_mean", "released"),
    )
    shown: ClassVar[tuple[str, ...]] = ("case", "n", "epsilon", "method", "l1", "l1_se", "l1_mean", "sd", "rdp_2")

    def build(self, document: dict[str, Any], base: Path) -> EstimationStudy:
        """Check a document, which names no file; see ``Kind.build``."""
        return build_estimation(document)

    def cells(self, study: EstimationStudy) -> list[EstimationCell]:
        """Return the cells; see ``Kind.cells``."""
        return cells(study)

    def compute(self, cell: EstimationCell) -> CellOutcome:
        """Release and estimate in every trial; see ``Kind.compute``."""
        from dpbayes_cli.experiments.estimation.trials import run_trials

        return run_trials(cell)

    def figures(self, study: EstimationStudy, results: Results[EstimationCell]) -> dict[str, Figure]:
        """Return the figures; see ``Kind.figures``."""
        from dpbayes_cli.experiments.estimation.charts import charts

        return charts(study, results)

    def claims(self, study: EstimationStudy, results: Results[EstimationCell]) -> list[Claim]:
        """Return what the paper says and what is computed; see ``Kind.claims``."""
        from dpbayes_cli.experiments.estimation.claims import claims

        return claims(study, results)

    def summary(self, study: EstimationStudy, results: Results[EstimationCell], figures: Sequence[str]) -> bytes:
        """Return the summary; see ``Kind.summary``."""
        from dpbayes_cli.experiments.estimation.summary import summary_markdown

        return summary_markdown(study, results, figures)
