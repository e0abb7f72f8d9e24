"""The source section of a spec: how the file is laid out, and what reads it."""

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from dpbayes_cli.core.section import Section
from dpbayes_cli.spec.flags import said

_MASTER = re.compile(r"local(?:\[(?:\*|[0-9]{1,4})\])?|yarn|spark://[\w.:,-]+|k8s://https?://[\w.:-]+", re.ASCII)


class SourceSection(Section, frozen=True, kw_only=True):
    """How the file is laid out; never guessed from the data."""

    format: Annotated[Literal["csv", "parquet"] | None, Meta(description=said("source.format"))] = None
    delimiter: Annotated[str, Meta(description=said("source.delimiter"))] = ","
    quote: Annotated[str, Meta(description=said("source.quote"))] = '"'
    header: Annotated[bool, Meta(description="whether the first line names the columns")] = True
    columns: Annotated[tuple[str, ...], Meta(description=said("source.columns"))] = ()
    quoted_newlines: Annotated[
        bool, Meta(description="quoted texts may span lines; neighbors are then parsed records")
    ] = False

    engine: Annotated[Literal["duckdb", "spark"], Meta(description=said("source.engine"))] = "duckdb"
    master: Annotated[str, Meta(description=said("source.master"))] = "local[*]"

    def __post_init__(self) -> None:
        if not _MASTER.fullmatch(self.master):
            raise ValueError(
                "master is none that is known: local[N], spark://HOST:PORT, yarn or k8s://https://HOST:PORT"
            )
        for name in ("delimiter", "quote"):
            mark = getattr(self, name)
            if mark in {"\\t", "tab"}:
                msgspec.structs.force_setattr(self, name, "\t")
            elif mark != "\t" and not (len(mark) == 1 and "!" <= mark <= "~" and not mark.isalnum()):
                raise ValueError(f"{name} is {mark!r}: one printable ASCII character, no letter or digit, or tab")
        if self.delimiter == self.quote:
            raise ValueError("delimiter and quote are the same")
        if self.header and self.columns:
            raise ValueError("columns are named although the header names them: add header: false (--no-header)")
        if not self.header and not self.columns:
            raise ValueError("a file without header needs column names: columns: [a, b] (--columns a,b)")
