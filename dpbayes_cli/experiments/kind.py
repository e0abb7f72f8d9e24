"""What a kind of study is: how its file is read, which cells it has, and what is written of their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.claims import Claim, with_claims
from dpbayes_cli.experiments.stamped import Format, figure_files
from dpbayes_cli.experiments.study import Study
from dpbayes_cli.experiments.tables import CellType, Results, Tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

StudyType = TypeVar("StudyType", bound=Study)


class Kind(ABC, Generic[StudyType, CellType]):
    """A kind of study.

    Attributes:
        name: what the key ``study`` of its file says.
        tables: what its tables hold.
        shown: the columns of ``rows`` that are printed.
    """

    name: ClassVar[str]
    tables: ClassVar[Tables[Any]]
    shown: ClassVar[tuple[str, ...]]

    @abstractmethod
    def build(self, document: dict[str, Any], base: Path) -> StudyType:
        """Check a document; what models need is brought to its full form, defaults written out.

        Args:
            document: nested mappings and lists of texts.
            base: the directory that paths in it are relative to.

        Raises:
            SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
        """

    @abstractmethod
    def cells(self, study: StudyType) -> list[CellType]:
        """Return the cells in the order of the file, after refusing what cannot be simulated.

        Raises:
            SpecError: a model, a method or a price cannot be studied; the place is that in the study.
            SourceError: a file cannot be read.
        """

    @abstractmethod
    def compute(self, cell: CellType) -> CellOutcome:
        """Run all trials of a cell; equal definitions give equal numbers, in any process.

        Raises:
            SpecError: the cell cannot be simulated; the message names it.
        """

    @abstractmethod
    def figures(self, study: StudyType, results: Results[CellType]) -> dict[str, Figure]:
        """Return the figures by name, each stamped."""

    @abstractmethod
    def claims(self, study: StudyType, results: Results[CellType]) -> list[Claim]:
        """Return what the paper says of the figure, and what is measured; nothing of what the cells do not tell."""

    @abstractmethod
    def summary(self, study: StudyType, results: Results[CellType], figures: Sequence[str]) -> bytes:
        """Return the bytes of ``summary.md`` without its claims, stamped, which links to figures."""

    def rows(self, results: Results[CellType]) -> list[dict[str, Any]]:
        """Return one object a cell: its place in the grid, and its measures."""
        return self.tables.rows(results)

    def files(
        self, study: StudyType, results: Results[CellType], formats: Sequence[Format] = ("svg",)
    ) -> Mapping[str, bytes]:
        """Return what is written of a study, by file name, each stamped."""
        figures = figure_files(self.figures(study, results), formats)
        summary = self.summary(study, results, list(figures))
        return {
            **self.tables.files(results),
            "summary.md": with_claims(summary, self.claims(study, results)),
            **figures,
        }
