"""The spec of a published table of noisy counts: what its columns hold, the law of the noise, and what to infer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from dpbayes_cli.base.errors import SpecError, join_mistakes, nearest
from dpbayes_cli.core.section import Section
from dpbayes_cli.spec.convert_section import convert_section
from dpbayes_cli.spec.mistakes import control_characters
from dpbayes_cli.spec.yaml_reader import read_spec_file

Size = Annotated[float, Meta(ge=1e-3, le=1e12)]
"""A scale, a variance or another positive size of the noise."""
Names = Annotated[tuple[str, ...], Meta(min_length=1)]
Where = dict[str, str | Names]
"""The rows in which keys have these values."""
Target = Literal["probability", "proportion"]
Pooling = Literal["none", "partial"]

_BUDGET = MappingProxyType(
    {
        "discrete-laplace": "epsilon",
        "laplace": "epsilon",
        "discrete-gaussian": "rho",
        "gaussian": "rho",
        "none": "",
    }
)
"""The privacy cost that can state the scale of the noise, by law."""
_SIZES = ("scale", "scale_column", "variance", "variance_column", "epsilon", "rho")


class TableNoise(Section, frozen=True, kw_only=True):
    """The noise of columns: its law, its size, and the noisy count below which nothing is published."""

    law: Literal["discrete-laplace", "discrete-gaussian", "laplace", "gaussian", "none"]
    scale: Size | None = None
    scale_column: str | None = None
    variance: Size | None = None
    variance_column: str | None = None
    epsilon: Size | None = None
    rho: Size | None = None
    sensitivity: Size | None = None
    suppressed_below: float | None = None

    def __post_init__(self) -> None:
        stated = [key for key in _SIZES if getattr(self, key) is not None]
        budget = _BUDGET[self.law]
        allowed = [key for key in _SIZES if key not in {"epsilon", "rho"} - {budget}] if budget else []
        if wrong := [key for key in stated if key not in allowed]:
            instead = f"; state one of {', '.join(allowed)}" if allowed else ""
            raise ValueError(f"noise of the law {self.law} does not take {wrong[0]}{instead}")
        if budget and len(stated) != 1:
            raise ValueError(f"state one of {', '.join(allowed)} of the noise; stated: {', '.join(stated) or 'none'}")
        if not budget and self.suppressed_below is not None:
            raise ValueError("suppressed_below needs a law of noise")
        if self.sensitivity is not None and budget not in stated:
            raise ValueError(f"sensitivity needs {budget}" if budget else "sensitivity needs a law of noise")

    def scale_of(self, variance: float) -> float:
        """Return the scale of the noise with this variance; for Gaussian laws, the square root."""
        if self.law == "laplace":
            return math.sqrt(variance / 2.0)
        if self.law == "discrete-laplace":
            return 0.5 / math.asinh(math.sqrt(0.5 / variance))
        return math.sqrt(variance)

    @property
    def stated_scale(self) -> float | None:
        """The scale of the noise; None if a column holds it."""
        sensitivity = 1.0 if self.sensitivity is None else self.sensitivity
        if self.epsilon is not None:
            return sensitivity / self.epsilon
        if self.rho is not None:
            return sensitivity / math.sqrt(2.0 * self.rho)
        return self.scale if self.variance is None else self.scale_of(self.variance)


def _check_pooling(name: str, pooling: Pooling, target: Target) -> None:
    if pooling == "partial" and target != "probability":
        raise ValueError(f"{name!r}: partial pooling is for probabilities; leave out target")


class CellsSection(Section, frozen=True, kw_only=True):
    """Some counts: the columns that hold them, and the rows."""

    columns: Names
    where: Where = field(default_factory=dict)


Cells = str | CellsSection


class TotalSection(Section, frozen=True, kw_only=True):
    """An exact total of each group of rows, as a number or in a column."""

    by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    where: Where = field(default_factory=dict)
    total: Annotated[int, Meta(ge=-(10**15), le=10**15)] | None = None
    column: str | None = None

    def __post_init__(self) -> None:
        if (self.total is None) == (self.column is None):
            raise ValueError("state either total: N, or column: the column that holds the total of each group")


class RateSection(Section, frozen=True, kw_only=True):
    """A probability of success, from successes and failures, or from successes and the number that includes them."""

    name: str
    successes: Cells
    failures: Cells | None = None
    of: Cells | None = None
    by: tuple[str, ...] | None = None
    target: Target = "probability"
    pooling: Pooling = "none"

    def __post_init__(self) -> None:
        if (self.failures is None) == (self.of is None):
            raise ValueError(f"the rate {self.name!r} must state either failures, or of: the column that counts all")
        if self.of is not None and not (isinstance(self.of, str) and isinstance(self.successes, str)):
            raise ValueError(f"the rate {self.name!r} states of, so successes and of must be columns")
        _check_pooling(self.name, self.pooling, self.target)
        if self.pooling == "partial" and self.of is not None:
            raise ValueError(f"the rate {self.name!r} can be pooled only if it states failures and not of")


class ShareSection(Section, frozen=True, kw_only=True):
    """The shares of categories, which are columns, or the values of a key."""

    name: str
    columns: Names
    over: str | None = None
    where: Where = field(default_factory=dict)
    by: tuple[str, ...] | None = None
    target: Target = "probability"
    pooling: Pooling = "none"

    def __post_init__(self) -> None:
        if (self.over is None) == (len(self.columns) == 1):
            raise ValueError(
                f"the share {self.name!r} must state either several columns, or one column and over: the key whose "
                "values are the categories"
            )
        _check_pooling(self.name, self.pooling, self.target)


class SumSection(Section, frozen=True, kw_only=True):
    """A sum of counts."""

    name: str
    columns: Names
    where: Where = field(default_factory=dict)
    by: tuple[str, ...] = ()


class DifferenceSection(Section, frozen=True, kw_only=True):
    """A difference of two sums of counts."""

    name: str
    plus: Cells
    minus: Cells
    by: tuple[str, ...] | None = None


class InferSection(Section, frozen=True, kw_only=True):
    """The quantities to infer."""

    counts: tuple[str, ...] = ()
    rates: tuple[RateSection, ...] = ()
    shares: tuple[ShareSection, ...] = ()
    sums: tuple[SumSection, ...] = ()
    differences: tuple[DifferenceSection, ...] = ()

    def __post_init__(self) -> None:
        quantities: tuple[Any, ...] = (*self.rates, *self.shares, *self.sums, *self.differences)
        names = [each.name for each in quantities]
        if not names and not self.counts:
            raise ValueError("state at least one of counts, rates, shares, sums and differences")
        if twice := sorted({name for name in names if names.count(name) > 1 or name in self.counts}):
            raise ValueError(f"two quantities have the name {twice[0]!r}")


class TableSpec(Section, frozen=True, kw_only=True):
    """The spec of a table of noisy counts that another tool published."""

    keys: tuple[str, ...] = ()
    counts: Names
    noise: TableNoise
    noise_of: dict[str, TableNoise] = field(default_factory=dict)
    non_negative: bool = True
    prior: Literal["flat", "power-law"] = "flat"
    suppressed_cells: Literal["missing", "empty"] = "missing"
    totals: tuple[TotalSection, ...] = ()
    infer: InferSection
    delimiter: str = ","

    def __post_init__(self) -> None:
        if mistakes := [*self._mistakes()]:
            raise join_mistakes(mistakes)

    @property
    def separator(self) -> str:
        """The character between the cells of a CSV file."""
        return "\t" if self.delimiter == "tab" else self.delimiter

    def noise_at(self, column: str) -> TableNoise:
        """Return the noise of a column."""
        return self.noise_of.get(column, self.noise)

    def _mistakes(self) -> Iterator[SpecError]:
        if len(self.separator) != 1 or self.separator in '\r\n"':
            yield SpecError(f"is {self.delimiter!r}; expected one character, or tab", where="delimiter")
        listed = (*self.keys, *self.counts)
        for name in {name for name in listed if listed.count(name) > 1}:
            yield SpecError(f"the column {name!r} is listed twice", where="keys, counts")
        thresholds = [self.noise_at(column).suppressed_below is not None for column in self.counts]
        if (any(thresholds) or self.prior == "power-law") and not self.non_negative:
            reason = "suppressed_below and the prior power-law need counts that are not negative"
            yield SpecError(reason, where="non_negative")
        if any(thresholds) and self.totals and self.suppressed_cells == "missing":
            yield SpecError(
                "a known total needs all its rows, but the rows below suppressed_below are missing", where="totals"
            )
        for place, names, allowed in self._names():
            for name in names:
                if name not in allowed:
                    kind = "count" if allowed is self.counts else "key"
                    yield SpecError(f"{name!r} is not listed under {kind}s", where=place, hint=nearest(name, allowed))
        if not self.non_negative and (self.infer.rates or self.infer.shares):
            yield SpecError("rates and shares need counts that are not negative", where="non_negative")

    def _names(self) -> Iterator[tuple[str, Iterable[str], Iterable[str]]]:
        """Yield the names that each place uses, with those that it may use."""
        yield "noise_of", self.noise_of, self.counts
        yield "infer.counts", self.infer.counts, self.counts
        for kind in ("rates", "shares", "sums", "differences"):
            for k, each in enumerate(getattr(self.infer, kind)):
                place = f"infer.{kind}[{k}]"
                for key in ("successes", "failures", "of", "plus", "minus"):
                    if (cells := getattr(each, key, None)) is not None:
                        yield f"{place}.{key}", [cells] if isinstance(cells, str) else cells.columns, self.counts
                        yield f"{place}.{key}.where", [] if isinstance(cells, str) else cells.where, self.keys
                yield f"{place}.columns", getattr(each, "columns", ()), self.counts
                yield f"{place}.by", each.by or (), self.keys
                yield f"{place}.where", getattr(each, "where", {}), self.keys
                yield f"{place}.over", [over] if (over := getattr(each, "over", None)) else [], self.keys
        for k, total in enumerate(self.totals):
            yield f"totals[{k}].columns", total.columns, self.counts
            yield f"totals[{k}].by", total.by, self.keys
            yield f"totals[{k}].where", total.where, self.keys


def is_table_spec(document: Mapping[str, Any]) -> bool:
    """Return whether a document is meant as the spec of a table, and not as a release request."""
    return "counts" in document and "model" not in document


def build_table_spec(document: dict[str, Any]) -> TableSpec:
    """Check a document against the spec of a table.

    Raises:
        SpecError: keys are unknown or missing, or have wrong values; the error names every such key.
    """
    for mistake in control_characters(document):
        raise mistake
    if "model" in document:
        raise SpecError("this is the spec of a release, not of a table", hint="to start: dpbayes spec init table")
    return convert_section(document, TableSpec)


def read_table_spec(path: Path) -> TableSpec:
    """Read the spec of a table from a file; see ``build_table_spec``."""
    return build_table_spec(read_spec_file(path))
