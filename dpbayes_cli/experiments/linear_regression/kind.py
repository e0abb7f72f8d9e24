"""The kind of study that asks how far off predictions of a number are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.claims import Claim
from dpbayes_cli.experiments.kind import Kind
from dpbayes_cli.experiments.linear_regression.cell import LinearCell, cells
from dpbayes_cli.experiments.linear_regression.study import LinearStudy, build_linear
from dpbayes_cli.experiments.tables import CASE, Results, Tables, columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class LinearRegressions(Kind[LinearStudy, LinearCell]):
    """Mean squared error of predictions, against the prior's variance and epsilon.

    Source: Zhang, Rubinstein and Dimitrakakis 2016, sec. 5.2 and Fig. 2.
    """

    name: ClassVar[str] = "linear-regression"
    tables: ClassVar[Tables[LinearCell]] = Tables(
        {**CASE, **columns("prior_variance", "epsilon", "method")},
        ("power", "mse", "mse_se", "mean_mse", "mean_mse_se"),
        ("mse", "mean_mse"),
    )
    shown: ClassVar[tuple[str, ...]] = (
        "case", "prior_variance", "epsilon", "method", "power", "mse", "mse_se", "mean_mse",
    )  # fmt: skip

    def build(self, document: dict[str, Any], base: Path) -> LinearStudy:
        """Check a document; see ``Kind.build``."""
        return build_linear(document, base)

    def cells(self, study: LinearStudy) -> list[LinearCell]:
        """Return the cells; see ``Kind.cells``."""
        return cells(study)

    def compute(self, cell: LinearCell) -> CellOutcome:
        """Learn and predict in every trial; see ``Kind.compute``."""
        from dpbayes_cli.experiments.linear_regression.trials import run_trials

        return run_trials(cell)

    def figures(self, study: LinearStudy, results: Results[LinearCell]) -> dict[str, Figure]:
        """Return the figures; see ``Kind.figures``."""
        from dpbayes_cli.experiments.linear_regression.charts import charts

        return charts(study, results)

    def claims(self, study: LinearStudy, results: Results[LinearCell]) -> list[Claim]:
        """Return what the paper says and what is measured; see ``Kind.claims``."""
        from dpbayes_cli.experiments.linear_regression.claims import claims

        return claims(study, results)

    def summary(self, study: LinearStudy, results: Results[LinearCell], figures: Sequence[str]) -> bytes:
        """Return the summary; see ``Kind.summary``."""
        from dpbayes_cli.experiments.linear_regression.summary import summary_markdown

        return summary_markdown(study, results, figures)
