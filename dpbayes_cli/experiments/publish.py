"""Write what a study found: tables, figures and a summary, each a function of its finished cells."""

from __future__ import annotations

from pathlib import Path

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.charts import charts
from dpbayes_cli.experiments.results import Results, ranks_csv, results_csv, summary_markdown
from dpbayes_cli.experiments.store import write_whole
from dpbayes_cli.experiments.study import Study


def publish(directory: Path, study: Study, results: Results) -> list[str]:
    """Write the files of a study that has run; return their names.

    Raises:
        OutputError: they cannot be written.
    """
    drawn = {name: f"<!-- {NOT_PRIVATE} -->\n{text}".encode() for name, text in charts(study, results).items()}
    files = {
        "results.csv": results_csv(results),
        "ranks.csv": ranks_csv(results),
        "summary.md": summary_markdown(study, results, list(drawn)),
        **drawn,
    }
    for name, content in files.items():
        write_whole(directory / name, content)
    return list(files)
