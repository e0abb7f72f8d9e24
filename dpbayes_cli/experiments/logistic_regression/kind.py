"""The kind of study that asks how well one private draw of a logistic regression tells classes apart."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.claims import Claim
from dpbayes_cli.experiments.kind import Kind
from dpbayes_cli.experiments.logistic_regression.cell import LogisticCell, cells
from dpbayes_cli.experiments.logistic_regression.study import LogisticStudy, build_logistic
from dpbayes_cli.experiments.tables import CASE, Results, Tables, columns, with_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _family(cell: LogisticCell) -> str | None:
    return None if cell.price is None else cell.price.family


def _epsilon(cell: LogisticCell) -> str | None:
    return None if cell.price is None else cell.price.epsilon


class LogisticRegressions(Kind[LogisticStudy, LogisticCell]):
    """Test error and log loss of one draw, against epsilon.

    Source: Geumlek, Song and Chaudhuri 2017, sec. 5.2 and Fig. 3; Minami et al. 2016, Theorem 7.
    """

    name: ClassVar[str] = "logistic-regression"
    tables: ClassVar[Tables[LogisticCell]] = Tables(
        {**CASE, "price": _family, "epsilon": _epsilon, **columns("method")},
        (*with_errors("error", "nll", "commonest"), "acceptance", "r_hat"),
        ("error", "nll", "commonest"),
        {name: attrgetter(f"law.{name}") for name in ("rho", "tau", "radius", "step", "steps")},
    )
    shown: ClassVar[tuple[str, ...]] = (
        "case", "price", "epsilon", "method", "rho", "tau", "error", "error_se", "nll", "nll_se",
    )  # fmt: skip

    def build(self, document: dict[str, Any], base: Path) -> LogisticStudy:
        """Check a document; see ``Kind.build``."""
        return build_logistic(document, base)

    def cells(self, study: LogisticStudy) -> list[LogisticCell]:
        """Find every temperature and return the cells; see ``Kind.cells``."""
        return cells(study)

    def compute(self, cell: LogisticCell) -> CellOutcome:
        """Draw and predict in every trial; see ``Kind.compute``."""
        from dpbayes_cli.experiments.logistic_regression.trials import run_trials

        return run_trials(cell)

    def figures(self, study: LogisticStudy, results: Results[LogisticCell]) -> dict[str, Figure]:
        """Return the figures; see ``Kind.figures``."""
        from dpbayes_cli.experiments.logistic_regression.charts import charts

        return charts(study, results)

    def claims(self, study: LogisticStudy, results: Results[LogisticCell]) -> list[Claim]:
        """Return what the paper says and what is measured; see ``Kind.claims``."""
        from dpbayes_cli.experiments.logistic_regression.claims import claims

        return claims(study, results)

    def summary(self, study: LogisticStudy, results: Results[LogisticCell], figures: Sequence[str]) -> bytes:
        """Return the summary; see ``Kind.summary``."""
        from dpbayes_cli.experiments.logistic_regression.summary import summary_markdown

        return summary_markdown(study, results, figures)
