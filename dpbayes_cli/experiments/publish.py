"""Write what a study found: tables, figures and a summary, each a function of its finished cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpbayes_cli.experiments.cell import Cell
from dpbayes_cli.experiments.kinds import kind_of
from dpbayes_cli.experiments.stamped import Format
from dpbayes_cli.experiments.store import FinishedCell, write_whole
from dpbayes_cli.experiments.study import Study


def publish(
    directory: Path,
    study: Study,
    results: Sequence[tuple[Cell, FinishedCell]],
    formats: Sequence[Format] = ("svg",),
) -> list[str]:
    """Write the files of a study that has run; return their names.

    Raises:
        OutputError: they cannot be written.
    """
    files = kind_of(study).files(study, results, formats)
    for name, content in files.items():
        write_whole(directory / name, content)
    return list(files)
