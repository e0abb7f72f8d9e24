"""The data of a release: found by their names, opened at most once, and checked by what is public about them."""

from __future__ import annotations

from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.model import Model
from dpbayes_cli.sources.location import Location, locate, locate_for_spark
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source import Source
from dpbayes_cli.sources.source_for import source_for
from dpbayes_cli.sources.unit_bound import UnitBound
from dpbayes_cli.spec.privacy_section import UnitSection
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.spec.source_section import SourceSection


def locate_data(layout: SourceSection, *texts: str) -> Location:
    """Find the data that texts name together, for the engine that reads them.

    Raises:
        SourceError: there are none, or they cannot be read.
    """
    return locate_for_spark(*texts) if layout.engine == "spark" else locate(*texts)


def source_of(layout: SourceSection, location: Location, unit: UnitSection | None = None) -> Source:
    """Return the source that reads a location in a stated layout; nothing is opened yet.

    Args:
        layout: how the files are laid out, and which engine reads them.
        location: where they are.
        unit: whose records are bounded; None: all records count.
    """
    dialect = Dialect(layout.delimiter, layout.quote, layout.header, layout.columns, layout.quoted_newlines)
    bound = None if unit is None else UnitBound(unit.column, unit.max_contributions)
    master = layout.master if layout.engine == "spark" else None
    return source_for(location, dialect, layout.format, bound, master)


class ReleaseData:
    """The data of one release, opened when they are first needed, and at most once; whoever makes it closes it."""

    def __init__(self, spec: ReleaseSpec, location: Location, model: Model) -> None:
        self._spec, self._location, self._model = spec, location, model
        self._source: Source | None = None
        self._is_checked = False

    @property
    def hands_over_records(self) -> bool:
        """Whether records can be read one by one, and not only their statistics; nothing is opened."""
        return self._found().hands_over_records

    def open_source(self) -> Source:
        """Return the source, checked by what is public: existence, permissions, header, stated number of records.

        Raises:
            SourceError: it cannot be used.
        """
        source = self._found()
        if not self._is_checked:
            self._check(source)
            self._is_checked = True
        return source

    def close(self) -> None:
        """Close what is open."""
        if self._source is not None:
            self._source.close()

    def _found(self) -> Source:
        if self._source is None:
            self._source = source_of(self._spec.source, self._location, self._spec.privacy.unit)
        return self._source

    def _check(self, source: Source) -> None:
        spec, model = self._spec, self._model
        source.check(model.columns, model.column_names or (spec.column,))
        if spec.records is not None:
            counted = source.count()
            if counted is None and spec.policy.contributions > 1:
                raise SourceError(
                    "the number of units in a stream cannot be checked; nothing is released",
                    hint="leave records out, or name a file",
                )
            check_count(spec.records, counted)


def check_count(stated: int, counted: int | None, charged: str = "") -> None:
    """Refuse a number of records other than the stated one.

    Raises:
        SourceError: they differ.
    """
    if counted is not None and counted != stated:
        raise SourceError(
            f"the data hold {counted} records, but {stated} were stated; nothing is released{charged}",
            hint="state the public number of records, or leave it out",
        )
