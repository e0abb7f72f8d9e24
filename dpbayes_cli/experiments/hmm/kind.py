"""The kind of study that asks how likely records of hidden Markov models are under what was released of others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from dpbayes_cli.experiments.hmm.cell import HmmCell, cells
from dpbayes_cli.experiments.hmm.results import Results
from dpbayes_cli.experiments.hmm.study import HmmStudy, build_hmm, check_study
from dpbayes_cli.experiments.kind import Kind


class HiddenMarkovModels(Kind[HmmStudy, HmmCell]):
    """Log-likelihood of held-out records, against epsilon.

    Source: Foulds et al. 2016, sec. 5 and Fig. 6.
    """

    name: ClassVar[str] = "hmm"
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

    def rows(self, results: Results) -> list[dict[str, Any]]:
        """Return one object a cell; see ``Kind.rows``."""
        from dpbayes_cli.experiments.hmm.results import rows

        return rows(results)

    def files(self, study: HmmStudy, results: Results) -> Mapping[str, bytes]:
        """Return tables, figures and the summary; see ``Kind.files``."""
        from dpbayes_cli.experiments.hmm.charts import charts
        from dpbayes_cli.experiments.hmm.results import results_csv, trials_csv
        from dpbayes_cli.experiments.hmm.summary import summary_markdown

        drawn = charts(study, results)
        return {
            "results.csv": results_csv(results),
            "trials.csv": trials_csv(results),
            "summary.md": summary_markdown(study, results, list(drawn)),
            **drawn,
        }
