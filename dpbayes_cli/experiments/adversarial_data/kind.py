"""The kind of study that asks what a posterior sample loses on the data of an adversary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.experiments.adversarial_data.cell import AdversaryCell, cells, follow_adversary
from dpbayes_cli.experiments.adversarial_data.study import AdversarialStudy, build_adversarial
from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.claims import Claim
from dpbayes_cli.experiments.kind import Kind
from dpbayes_cli.experiments.tables import CASE, Results, Tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class AdversarialData(Kind[AdversarialStudy, AdversaryCell]):
    """The local epsilon of one posterior sample, against the number of records.

    Source: Foulds et al. 2016, appendix A and Fig. 8.
    """

    name: ClassVar[str] = "adversarial-data"
    tables: ClassVar[Tables[AdversaryCell]] = Tables(
        CASE,
        ("worst_case", "reached", "share", "divergence", "largest_divergence", "divergence_by_range"),
        ("successes", "local_epsilon", "local_divergence"),
        trials_file="paths.csv",
        unit="record",
    )
    shown: ClassVar[tuple[str, ...]] = ("case", "worst_case", "reached", "share", "divergence", "largest_divergence")

    def build(self, document: dict[str, Any], base: Path) -> AdversarialStudy:
        """Check a document, which names no file; see ``Kind.build``."""
        return build_adversarial(document)

    def cells(self, study: AdversarialStudy) -> list[AdversaryCell]:
        """Return the cells; see ``Kind.cells``."""
        return cells(study)

    def compute(self, cell: AdversaryCell) -> CellOutcome:
        """Follow the adversary; see ``Kind.compute``."""
        return follow_adversary(cell)

    def figures(self, study: AdversarialStudy, results: Results[AdversaryCell]) -> dict[str, Figure]:
        """Return the figure; see ``Kind.figures``."""
        from dpbayes_cli.experiments.adversarial_data.charts import charts

        return charts(study, results)

    def claims(self, study: AdversarialStudy, results: Results[AdversaryCell]) -> list[Claim]:
        """Return what the paper says and what is computed; see ``Kind.claims``."""
        from dpbayes_cli.experiments.adversarial_data.summary import claims

        return claims(study, results)

    def summary(self, study: AdversarialStudy, results: Results[AdversaryCell], figures: Sequence[str]) -> bytes:
        """Return the summary; see ``Kind.summary``."""
        from dpbayes_cli.experiments.adversarial_data.summary import summary_markdown

        return summary_markdown(study, results, figures)
