"""Made-up data sets of a few records, as the engine reads them, and which of them are neighbors.

A star is n - 1 records and one more, which is any of the kinds of record that there are: valid ones, numbers at, in and
far beyond their bounds, and cells that mean nothing. Any two data sets of a star are neighbors by replacement, and each
is a neighbor of the n - 1 records alone by removal. All stars of few enough records are all neighbors there are.
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

_OF_ONE_COLUMN = ("x", "value")
_MOST_KINDS = 64
_MOST_DATA_SETS = 240
_MOST_LEVELS = 6
_RARE = (2, 1, 4)
"""How many of the other records differ from the rest, in stars that are chosen among too many."""
_FAR = ("-1000000000000", "1000000000000")

Key = tuple[int, ...]
"""A data set: the kinds of its records, in ascending order."""


@dataclass(frozen=True)
class Pair:
    """Two neighboring data sets.

    Attributes:
        described: what they are, in words.
        one, other: what is read of each.
    """

    described: str
    one: ExactEvidence
    other: ExactEvidence


@dataclass(frozen=True)
class Star:
    """Data sets that differ in one record.

    Attributes:
        described: what they share, in words.
        sets: for each kind of record, in words, what is read of the data set with one more of it.
        removed: what is read without the record, where neighbors are by removal; else None.
    """

    described: str
    sets: tuple[tuple[str, ExactEvidence], ...]
    removed: ExactEvidence | None

    def pairs(self, last: int) -> Iterator[Pair]:
        """Yield the neighbors of a data set among those before it, or the one without the record."""
        record, one = self.sets[last]
        if self.removed is not None:
            yield Pair(f"{self.described} with and without {record}", one, self.removed)
            return
        for neighbor, other in self.sets[:last]:
            yield Pair(f"{self.described} with {record} or {neighbor}", one, other)


@dataclass
class DataSets:
    """The data sets that a planned release is attacked with.

    Attributes:
        planned: what is attacked; its spec names the layout.
        n_records: how many records each has; under add-remove the larger one.
        directory: where the files are written; they hold no person.
        most: how many data sets at most, where all would be more.
    """

    planned: PlannedRelease
    n_records: int
    directory: Path
    most: int = _MOST_DATA_SETS
    unreadable: list[str] = field(default_factory=list)
    """The records that stop the reading."""
    _read_before: dict[Key, ExactEvidence] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read every kind of record alone; those that count alike are one kind from here on."""
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
        """How many kinds of record there are that count differently."""
        return len(self.kinds)

    @property
    def all_bases(self) -> int:
        """How many stars there are."""
        return math.comb(self.n_kinds + self.n_records - 2, self.n_records - 1)

    def bases(self) -> list[Key]:
        """Return the records that the data sets of a star share, for all stars or for many."""
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
        """Read the data sets of a star, each once."""
        sets = [(_named(self.kinds[kind][0]), self._evidence((*base, kind))) for kind in range(self.n_kinds)]
        removal = self.planned.policy.neighbors is Neighbors.ADD_REMOVE
        shared = " + ".join(f"{count} x {_named(self.kinds[kind][0])}" for kind, count in sorted(Counter(base).items()))
        return Star(shared, tuple(sets), self._evidence(base) if removal else None)

    def _evidence(self, key: Key) -> ExactEvidence:
        if self.planned.plan.steps[0].rows is None:  # sums over records do not know their order
            key = tuple(sorted(key))
        if key not in self._read_before:  # records that count alike take turns
            self._read_before[key] = self._read(
                [self.kinds[kind][i % len(self.kinds[kind])] for i, kind in enumerate(key)]
            )
        return self._read_before[key]

    def _read(self, records: Sequence[Cells]) -> ExactEvidence:
        """Write records to a file, and read it as the release reads any other."""
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
            return read_evidence(self.planned, data.opened())


def _named(cells: Cells) -> str:
    return f"({', '.join(cell or 'empty' for cell in cells)})"


def identity(evidence: ExactEvidence) -> object:
    """Return what tells evidence from other evidence of the same release."""
    design = evidence.design
    if isinstance(design, DesignMatrix):
        blocks = ((x.toarray() if hasattr(x, "toarray") else x, y) for x, y in design.blocks)
        return tuple((x.tobytes(), y.tobytes()) for x, y in blocks)
    if isinstance(design, EncodedRecords):
        return tuple(codes.tobytes() for codes in design.columns())
    return evidence.values, tuple(sorted(evidence.histogram.items()))


def _kinds(planned: PlannedRelease) -> Iterator[Cells]:
    """Yield records of every kind, those that attain a sensitivity first; of many columns a part of all records."""
    statistic, columns = planned.plan.steps[0].statistic, planned.model.columns
    cells = [_cells(column) for column in columns]
    named = [w for w in (statistic.witness, statistic.witness_l2) if w is not None]
    witnesses = [found for w in named for found in (w.record, w.neighbor) if found is not None]
    ends = [tuple(own[place] for own in cells) for place in (0, 1, -1)]
    if math.prod(map(len, cells)) <= _MOST_KINDS:
        others = list(itertools.product(*cells))
    else:
        others = [(*end[:i], cell, *end[i + 1 :]) for end in ends for i, own in enumerate(cells) for cell in own]
    yield from itertools.islice(dict.fromkeys([*witnesses, *ends, *others]), _MOST_KINDS)


def _cells(column: AnyColumn) -> list[str]:
    """Return cells of every kind: both ends of the domain first, then what lies between, beyond, and what is none."""
    if isinstance(column, Column):
        levels = [*column.levels[-1:], *column.levels[:-1]][:_MOST_LEVELS]
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
    """Return the spec of a release that reads a comma-separated file with a header, by the embedded engine."""
    import msgspec

    spec, column = planned.spec, planned.spec.column
    if column is None and not planned.model.column_names:
        unit = spec.privacy.unit
        column = next(name for name in _OF_ONE_COLUMN if unit is None or name != unit.column)
    return msgspec.structs.replace(spec, source=type(spec.source)(), records=None, column=column)
