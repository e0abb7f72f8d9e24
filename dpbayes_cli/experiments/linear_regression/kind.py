"""The kind of study that asks how far off predictions of a number are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from dpbayes_cli.experiments.kind import Kind
from dpbayes_cli.experiments.linear_regression.cell import LinearCell, cells
from dpbayes_cli.experiments.linear_regression.results import Results
from dpbayes_cli.experiments.linear_regression.study import LinearStudy, build_linear


class LinearRegressions(Kind[LinearStudy, LinearCell]):
    """Mean squared error of predictions, against the prior's variance and epsilon.

    Source: Zhang, Rubinstein and Dimitrakakis 2016, sec. 5.2 and Fig. 2.
    """

    name: ClassVar[str] = "linear-regression"
    shown: ClassVar[tuple[str, ...]] = (
        "case", "prior_variance", "epsilon", "method", "power", "mse", "mse_se", "mean_mse",
    )  # fmt: skip

    def build(self, document: dict[str, Any], base: Path) -> LinearStudy:
        """Check a document; see ``Kind.build``."""
        return build_linear(document, base)

    def cells(self, study: LinearStudy) -> list[LinearCell]:
        """Return the cells; see ``Kind.cells``."""
        return cells(study)

    def rows(self, results: Results) -> list[dict[str, Any]]:
        """Return one object a cell; see ``Kind.rows``."""
        from dpbayes_cli.experiments.linear_regression.results import rows

        return rows(results)

    def files(self, study: LinearStudy, results: Results) -> Mapping[str, bytes]:
        """Return tables, figures and the summary; see ``Kind.files``."""
        from dpbayes_cli.experiments.linear_regression.charts import charts
        from dpbayes_cli.experiments.linear_regression.results import results_csv, trials_csv
        from dpbayes_cli.experiments.linear_regression.summary import summary_markdown

        drawn = charts(study, results)
        return {
            "results.csv": results_csv(results),
            "trials.csv": trials_csv(results),
            "summary.md": summary_markdown(study, results, list(drawn)),
            **drawn,
        }
