"""The source section of a spec: the layout of the file, and the engine that reads it."""

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from dpbayes_cli.base.cell_grammar import NumberMarks
from dpbayes_cli.core.section import Section
from dpbayes_cli.spec.request_flags import description_of

_MASTER = re.compile(r"local(?:\[(?:\*|[0-9]{1,4})\])?|yarn|spark://[\w.:,-]+|k8s://https?://[\w.:-]+", re.ASCII)


class SourceSection(Section, frozen=True, kw_only=True):
    """The layout of the file, which is never guessed from the data, and the engine."""

    format: Annotated[Literal["csv", "parquet"] | None, Meta(description=description_of("source.format"))] = None
    delimiter: Annotated[str, Meta(description=description_of("source.delimiter"))] = ","
    quote: Annotated[str, Meta(description=description_of("source.quote"))] = '"'
    header: Annotated[bool, Meta(description="whether the first line names the columns")] = True
    columns: Annotated[tuple[str, ...], Meta(description=description_of("source.columns"))] = ()
    decimal: Annotated[Literal[".", ","] | None, Meta(description=description_of("source.decimal"))] = None
    thousands: Annotated[
        Literal[",", ".", "'", "_", " ", "space"] | None, Meta(description=description_of("source.thousands"))
    ] = None
    quoted_newlines: Annotated[
        bool, Meta(description="quoted texts may span lines, so a record may be several lines")
    ] = False

    engine: Annotated[Literal["duckdb", "spark"], Meta(description=description_of("source.engine"))] = "duckdb"
    master: Annotated[str, Meta(description=description_of("source.master"))] = "local[*]"

    def __post_init__(self) -> None:
        if not _MASTER.fullmatch(self.master):
            raise ValueError(
                "unknown Spark master; expected local[N], spark://HOST:PORT, yarn or k8s://https://HOST:PORT"
            )
        for name in ("delimiter", "quote"):
            mark = getattr(self, name)
            if mark in {"\\t", "tab"}:
                msgspec.structs.force_setattr(self, name, "\t")
            elif mark != "\t" and not (len(mark) == 1 and "!" <= mark <= "~" and not mark.isalnum()):
                raise ValueError(
                    f"{name} is {mark!r}; expected tab, or one printable ASCII character other than letters and digits"
                )
        if self.delimiter == self.quote:
            raise ValueError("delimiter and quote are the same")
        if self.decimal == ".":
            msgspec.structs.force_setattr(self, "decimal", None)  # "." and None are the same request
        if self.thousands == "space":
            msgspec.structs.force_setattr(self, "thousands", " ")
        marks = self.marks
        if marks.thousands == marks.decimal:
            raise ValueError(f"the marks of decimals and of thousands are the same: {marks.decimal!r}")
        if self.quote in {marks.decimal, marks.thousands}:
            raise ValueError(f"{self.quote!r} is stated both as the quote and as a mark in numbers")
        if self.header and self.columns:
            raise ValueError(
                "the header names the columns already; for a file without header add header: false (--no-header)"
            )
        if not self.header and not self.columns:
            raise ValueError("a file without header needs column names; state columns: [a, b] (--columns a,b)")

    @property
    def marks(self) -> NumberMarks:
        """The marks in numbers that are written as texts."""
        return NumberMarks(self.decimal or ".", self.thousands or "")
