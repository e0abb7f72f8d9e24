"""The kind of study that asks how well one private draw of a logistic regression tells classes apart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from dpbayes_cli.experiments.kind import Kind
from dpbayes_cli.experiments.logistic_regression.cell import LogisticCell, cells
from dpbayes_cli.experiments.logistic_regression.comparison import Results
from dpbayes_cli.experiments.logistic_regression.study import LogisticStudy, build_logistic


class LogisticRegressions(Kind[LogisticStudy, LogisticCell]):
    """Test error and log loss of one draw, against epsilon.

    Source: Geumlek, Song and Chaudhuri 2017, sec. 5.2 and Fig. 3; Minami et al. 2016, Theorem 7.
    """

    name: ClassVar[str] = "logistic-regression"
    shown: ClassVar[tuple[str, ...]] = (
        "case", "price", "epsilon", "method", "rho", "tau", "error", "error_se", "nll", "nll_se",
    )  # fmt: skip

    def build(self, document: dict[str, Any], base: Path) -> LogisticStudy:
        """Check a document; see ``Kind.build``."""
        return build_logistic(document, base)

    def cells(self, study: LogisticStudy) -> list[LogisticCell]:
        """Find every temperature and return the cells; see ``Kind.cells``."""
        return cells(study)

    def rows(self, results: Results) -> list[dict[str, Any]]:
        """Return one object a cell; see ``Kind.rows``."""
        from dpbayes_cli.experiments.logistic_regression.results import rows

        return rows(results)

    def files(self, study: LogisticStudy, results: Results) -> Mapping[str, bytes]:
        """Return tables, figures and the summary; see ``Kind.files``."""
        from dpbayes_cli.experiments.logistic_regression.charts import charts
        from dpbayes_cli.experiments.logistic_regression.results import results_csv, trials_csv
        from dpbayes_cli.experiments.logistic_regression.summary import summary_markdown

        drawn = charts(study, results)
        return {
            "results.csv": results_csv(results),
            "trials.csv": trials_csv(results),
            "summary.md": summary_markdown(study, results, list(drawn)),
            **drawn,
        }
