"""Made-up neighboring data sets of a few records, read by the engine that reads real data.

A star is a group of data sets that share n - 1 records and differ in the last one, whose cells may be valid, far out of
bounds or invalid. Any two data sets of a star are neighbors under replace-one. Under add-remove, each data set of a
star is also a neighbor of the n - 1 shared records alone. All pairs of neighbors with n records occur in some star.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.columns import AnyColumn, Column, CutColumn
from dpbayes_cli.core.design import DesignMatrix
from dpbayes_cli.core.encoded_records import EncodedRecords
from dpbayes_cli.core.statistic import Cells, ExactEvidence
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import locate
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.workflow.pricing import PlannedRelease
from dpbayes_cli.workflow.release import read_evidence
from dpbayes_cli.workflow.release_data import ReleaseData

_DEFAULT_COLUMNS = ("x", "value")
_MAX_KINDS = 64
_MAX_DATA_SETS = 240
_MAX_LEVELS = 6
_RARE = (2, 1, 4)
"""If there are too many stars, only those are attacked whose shared records are of one kind, or of two kinds with these
numbers of records of the second kind."""
_FAR = ("-1000000000000", "1000000000000")

Key = tuple[int, ...]  # a data set, given by the kinds of its records in ascending order


@dataclass(frozen=True)
class Pair:
    """Two neighboring data sets."""

    described: str  # a description of the two data sets
    one: ExactEvidence  # the statistics of the first data set
    other: ExactEvidence  # the statistics of the second data set


@dataclass(frozen=True)
class Star:
    """Data sets that differ in one record."""

    described: str  # a description of the shared records
    sets: tuple[tuple[str, ExactEvidence], ...]  # for each data set, its last record in words, and its statistics
    removed: ExactEvidence | None  # under add-remove neighbors, the statistics of the shared records alone; else None

    def pairs(self, last: int) -> Iterator[Pair]:
        """Yield pairs of a data set and each earlier one; under add-remove, its pair with the shared records."""
        record, one = self.sets[last]
        if self.removed is not None:
            yield Pair(f"{self.described}, with or without one {record}", one, self.removed)
            return
        for neighbor, other in self.sets[:last]:
            yield Pair(f"{self.described}, and one {record} or {neighbor}", one, other)


@dataclass
class DataSets:
    """The data sets with which a planned release is attacked."""

    planned: PlannedRelease  # the release to attack
    n_records: int  # the number of records in a data set; under add-remove neighbors, in the larger one of a pair
    directory: Path  # where the files with made-up records are written
    most: int = _MAX_DATA_SETS  # the maximal number of data sets
    unreadable: list[str] = field(default_factory=list)
    """The made-up records that cause an error when they are read."""
    _read_before: dict[Key, ExactEvidence] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read each kind of record as a data set of its own, and join the kinds that give the same statistics."""
        alike: dict[object, list[Cells]] = {}
        single: dict[object, ExactEvidence] = {}
        for cells in _kinds(self.planned):
            try:
                evidence = self._read([cells])
            except SourceError:
                self.unreadable.append(_named(cells))
                continue
            alike.setdefault(identity(evidence), []).append(cells)
            single.setdefault(identity(evidence), evidence)
        self.kinds = list(alike.values())
        named = zip((_named(kind[0]) for kind in self.kinds), single.values(), strict=True)
        removal = self.planned.policy.neighbors is Neighbors.ADD_REMOVE
        self.alone = Star("no others", tuple(named), self._read([]) if removal else None)

    @property
    def n_kinds(self) -> int:
        """The number of kinds of record; records of one kind have the same statistics."""
        return len(self.kinds)

    @property
    def all_bases(self) -> int:
        """The number of all stars."""
        return math.comb(self.n_kinds + self.n_records - 2, self.n_records - 1)

    def bases(self) -> list[Key]:
        """Return the shared records of all stars, or of a selection of stars with about ``most`` data sets."""
        size, kinds = self.n_records - 1, range(self.n_kinds)
        most = max(2, self.most // self.n_kinds)
        if self.all_bases <= most or math.comb(self.n_kinds + self.n_records - 1, self.n_records) <= self.most:
            return list(itertools.combinations_with_replacement(kinds, size))
        alike = [(kind,) * size for kind in kinds]
        mixed = [
            tuple(sorted((a,) * (size - j) + (b,) * j))
            for j in dict.fromkeys((*_RARE, size // 2))
            if 0 < j < size
            for a, b in itertools.permutations(reversed(kinds), 2)
        ]
        turns = itertools.chain.from_iterable(itertools.zip_longest(alike, mixed))
        return list(itertools.islice(dict.fromkeys(base for base in turns if base is not None), most))

    def star(self, base: Key) -> Star:
        """Return the star with given shared records; read each of its data sets only once."""
        sets = [(_named(self.kinds[kind][0]), self._evidence((*base, kind))) for kind in range(self.n_kinds)]
        removal = self.planned.policy.neighbors is Neighbors.ADD_REMOVE
        shared = " + ".join(
            f"{count} record{'s' * (count > 1)} {_named(self.kinds[kind][0])}"
            for kind, count in sorted(Counter(base).items())
        )
        return Star(shared, tuple(sets), self._evidence(base) if removal else None)

    def _evidence(self, key: Key) -> ExactEvidence:
        if self.planned.plan.steps[0].rows is None:  # then the statistics do not depend on the order of records
            key = tuple(sorted(key))
        if key not in self._read_before:  # use every record of a kind
            self._read_before[key] = self._read(
                [self.kinds[kind][i % len(self.kinds[kind])] for i, kind in enumerate(key)]
            )
        return self._read_before[key]

    def _read(self, records: Sequence[Cells]) -> ExactEvidence:
        model, spec = self.planned.model, _plain(self.planned)
        names = [str(name) for name in model.column_names or (spec.column,)]
        unit = spec.privacy.unit
        owned = unit is not None and unit.column not in names
        path = self.directory / "records.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
            writer.writerow([*names, *([unit.column] if unit is not None and owned else [])])
            for i, cells in enumerate(records):
                writer.writerows(
                    [[*cells, *([str(i)] if owned else [])]] * (1 if unit is None else unit.max_contributions)
                )
        with closing(ReleaseData(spec, locate(str(path)), model)) as data:
            return read_evidence(self.planned, data.open_source())


def _named(cells: Cells) -> str:
    return f"({', '.join(cell or 'empty' for cell in cells)})"


def identity(evidence: ExactEvidence) -> object:
    """Return a hashable key of evidence; equal evidence has equal keys."""
    design = evidence.design
    if isinstance(design, DesignMatrix):
        blocks = ((x.toarray() if hasattr(x, "toarray") else x, y) for x, y in design.blocks)
        return tuple((x.tobytes(), y.tobytes()) for x, y in blocks)
    if isinstance(design, EncodedRecords):
        return tuple(codes.tobytes() for codes in design.columns())
    return evidence.values, tuple(sorted(evidence.histogram.items()))


def _kinds(planned: PlannedRelease) -> Iterator[Cells]:
    """Yield records of every kind, first the witnesses of the sensitivity; with many columns, only a selection."""
    statistic, columns = planned.plan.steps[0].statistic, planned.model.columns
    cells = [_cells(column) for column in columns]
    named = [w for w in (statistic.witness, statistic.witness_l2) if w is not None]
    witnesses = [record for w in named for record in (w.record, w.neighbor) if record is not None]
    ends = [tuple(own[place] for own in cells) for place in (0, 1, -1)]
    if math.prod(map(len, cells)) <= _MAX_KINDS:
        others = list(itertools.product(*cells))
    else:
        others = [(*end[:i], cell, *end[i + 1 :]) for end in ends for i, own in enumerate(cells) for cell in own]
    yield from itertools.islice(dict.fromkeys([*witnesses, *ends, *others]), _MAX_KINDS)


def _cells(column: AnyColumn) -> list[str]:
    """Return cells of every kind: both ends of the domain, cells between, cells out of bounds, and invalid cells."""
    if isinstance(column, Column):
        levels = [*column.levels[-1:], *column.levels[:-1]][:_MAX_LEVELS]
        nothing = "no level"
        while nothing in column.levels:
            nothing += "?"
        return [*levels, "", nothing]
    if isinstance(column, CutColumn):
        return [repr(column.cuts[-1]), repr(min(column.cuts) - 1.0), *map(repr, column.cuts[:-1]), "no number"]
    width = column.upper - column.lower
    beyond = [column.upper + width, column.lower - width]
    near = [str(math.ceil(x)) if column.integers else repr(x) for x in beyond]
    inside = dict.fromkeys(column.cell(share) for share in (1.0, 0.0, 0.5, 0.3))
    return [*inside, *near, *_FAR, "", "no number"]


def _plain(planned: PlannedRelease) -> ReleaseSpec:
    """Return the spec with the default layout: a comma-separated file with a header, read by the embedded engine."""
    import msgspec

    spec, column = planned.spec, planned.spec.column
    if column is None and not planned.model.column_names:
        unit = spec.privacy.unit
        column = next(name for name in _DEFAULT_COLUMNS if unit is None or name != unit.column)
    return msgspec.structs.replace(spec, source=type(spec.source)(), records=None, column=column)
