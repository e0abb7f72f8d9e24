"""The data of a release: find them, open them at most once, and check them against public facts."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.model import Model
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import Location, locate, locate_for_spark
from dpbayes_cli.sources.reader import UnitBound
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source import Source
from dpbayes_cli.sources.source_for import source_for
from dpbayes_cli.spec.option_sections import UnitSection
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.spec.source_section import SourceSection

_MOST_COUNTED = 100_000


def locate_data(layout: SourceSection, *texts: str) -> Location:
    """Return the location of one data set for the engine that reads it.

    Args:
        texts: the paths of the files, or the address of the table.

    Raises:
        SourceError: there is no such data set, or it cannot be read.
    """
    return locate_for_spark(*texts) if layout.engine == "spark" else locate(*texts)


def source_of(layout: SourceSection, location: Location, unit: UnitSection | None = None) -> Source:
    """Return the source that reads a location; it is not opened yet.

    Args:
        layout: the format of the files, and the engine that reads them.
        location: the files or the table.
        unit: the privacy unit and its contribution bound; None if each record is a privacy unit.
    """
    dialect = Dialect(layout.delimiter, layout.quote, layout.header, layout.columns, layout.quoted_newlines)
    bound = None if unit is None else UnitBound(unit.column, unit.max_contributions)
    master = layout.master if layout.engine == "spark" else None
    return source_for(location, dialect, layout.format, bound, master, layout.marks)


class ReleaseData:
    """The data of one release, opened at most once, when they are first needed; the creator must close it."""

    def __init__(self, spec: ReleaseSpec, location: Location, model: Model) -> None:
        self._spec, self._location, self._model = spec, location, model
        self._source: Source | None = None
        self._is_checked = False

    @property
    def hands_over_records(self) -> bool:
        """Whether the source can hand over single records, not only statistics. The source is not opened."""
        return self._unopened().hands_over_records

    @property
    def is_delimited(self) -> bool:
        """Whether the data are text files, whose layout matters."""
        return (self._spec.source.format or self._location.format) == "csv"

    def open_source(self) -> Source:
        """Return the open source, after checking existence, permissions, header and the stated number of records.

        Raises:
            SourceError: the source cannot be used.
        """
        source = self._unopened()
        if not self._is_checked:
            self._check(source)
            self._is_checked = True
        return source

    def public_count(self) -> int | None:
        """Return the number of records if it is public and less than 100,000; otherwise None.

        Raises:
            SourceError: the source cannot be used.
        """
        privacy, source = self._spec.privacy, self.open_source()
        if privacy.neighbors is not Neighbors.REPLACE_ONE or privacy.unit is not None:
            return None
        count = source.count_up_to(_MOST_COUNTED)
        return None if count is None or count >= _MOST_COUNTED else count

    @property
    def can_be_checked(self) -> bool:
        """Whether ``dpbayes check`` can look at the data; it reads files only."""
        return bool(self._location.paths) and not self._location.is_stream

    def changed_since(self, moment: str) -> bool:
        """Return whether a file was modified after a time such as 2024-05-31T12:00:00Z; no file is opened.

        Changes within the stated second are not noticed. For tables and pipes, the result is False.
        """
        after = datetime.fromisoformat(moment).timestamp() + 1.0
        with suppress(OSError):  # a file was removed
            return self.can_be_checked and any(path.stat().st_mtime >= after for path in self._location.paths)
        return True

    def close(self) -> None:
        """Close the source, if there is one."""
        if self._source is not None:
            self._source.close()

    def _unopened(self) -> Source:
        if self._source is None:
            self._source = source_of(self._spec.source, self._location, self._spec.privacy.unit)
        return self._source

    def _check(self, source: Source) -> None:
        spec, model = self._spec, self._model
        source.check(model.columns, [name or None for name in model.column_names] or [spec.column])
        if spec.privacy.neighbors is Neighbors.REPLACE_ONE and spec.privacy.unit is None and source.count_up_to(1) == 0:
            raise SourceError("the data have no records; nothing is charged", hint="dpbayes check FILE shows the file")
        if spec.records is not None:
            counted = source.count()
            if counted is None and spec.policy.contributions > 1:
                raise SourceError(
                    "the number of privacy units in a stream cannot be checked; nothing is released",
                    hint="leave out --records, or name a file",
                )
            check_count(spec.records, counted)


def check_count(stated: int, counted: int | None, charged: str = "") -> None:
    """Check that the data have the stated number of records; ``charged`` is appended to the error message.

    Raises:
        SourceError: the numbers differ.
    """
    if counted is not None and counted != stated:
        raise SourceError(
            f"the data have {counted} records, but {stated} were stated; nothing is released{charged}",
            hint="state the public number with --records N, or leave it out",
        )
