"""What a kind of study is: how its file is read, which cells it has, and what is written of their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from dpbayes_cli.experiments.cell import Cell
from dpbayes_cli.experiments.store import FinishedCell
from dpbayes_cli.experiments.study import Study

StudyType = TypeVar("StudyType", bound=Study)
CellType = TypeVar("CellType", bound=Cell)


class Kind(ABC, Generic[StudyType, CellType]):
    """A kind of study.

    Attributes:
        name: what the key ``study`` of its file says.
        shown: the columns of ``rows`` that are printed.
    """

    name: ClassVar[str]
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
    def rows(self, results: Sequence[tuple[CellType, FinishedCell]]) -> list[dict[str, Any]]:
        """Return one object a cell: its place in the grid, and its measures."""

    @abstractmethod
    def files(self, study: StudyType, results: Sequence[tuple[CellType, FinishedCell]]) -> Mapping[str, bytes]:
        """Return what is written of a study, by file name, each stamped."""
