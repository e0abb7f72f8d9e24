"""The kind of study that asks how likely records of hidden Markov models are under what was released of others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.claims import Claim
from dpbayes_cli.experiments.hmm.cell import HmmCell, cells
from dpbayes_cli.experiments.hmm.study import HmmStudy, build_hmm, check_study
from dpbayes_cli.experiments.kind import Kind
from dpbayes_cli.experiments.tables import CASE, Results, Tables, columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class HiddenMarkovModels(Kind[HmmStudy, HmmCell]):
    """Log-likelihood of held-out records, against epsilon.

    Source: Foulds et al. 2016, sec. 5 and Fig. 6.
    """

    name: ClassVar[str] = "hmm"
    tables: ClassVar[Tables[HmmCell]] = Tables(
        {**CASE, **columns("states", "epsilon", "method")},
        ("power", "log_likelihood", "log_likelihood_se"),
        ("log_likelihood", "n_test"),
    )
    shown: ClassVar[tuple[str, ...]] = (
        "case", "states", "epsilon", "method", "power", "log_likelihood", "log_likelihood_se",
    )  # fmt: skip

    def build(self, document: dict[str, Any], base: Path) -> HmmStudy:
        """Check a document; see ``Kind.build``."""
        return build_hmm(document, base)

    def cells(self, study: HmmStudy) -> list[HmmCell]:
        """Plan every release once and return the cells; see ``Kind.cells``."""
        from dpbayes_cli.experiments.hmm.posteriors import check_plans

        check_study(study)
        grid = cells(study)
        check_plans(study, grid)
        return grid

    def compute(self, cell: HmmCell) -> CellOutcome:
        """Learn and predict in every trial; see ``Kind.compute``."""
        from dpbayes_cli.experiments.hmm.trials import run_trials

        return run_trials(cell)

    def figures(self, study: HmmStudy, results: Results[HmmCell]) -> dict[str, Figure]:
        """Return the figures; see ``Kind.figures``."""
        from dpbayes_cli.experiments.hmm.charts import charts

        return charts(study, results)

    def claims(self, study: HmmStudy, results: Results[HmmCell]) -> list[Claim]:
        """Return what the paper says and what is measured; see ``Kind.claims``."""
        from dpbayes_cli.experiments.hmm.claims import claims

        return claims(study, results)

    def summary(self, study: HmmStudy, results: Results[HmmCell], figures: Sequence[str]) -> bytes:
        """Return the summary; see ``Kind.summary``."""
        from dpbayes_cli.experiments.hmm.summary import summary_markdown

        return summary_markdown(study, results, figures)
