"""Numbers of columns that a model reads as intervals between cuts.

The outermost intervals of such a column have no public ends. If a user states bounds, the intervals become numbers:
records get numbers uniformly within them, and analyses use their middles. Otherwise the intervals stay texts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.base.numeric import Floats, Integers, float_text
from dpbayes_cli.core.columns import Column, CutColumn
from dpbayes_cli.core.joint_law import JointLaw
from dpbayes_cli.privacy.lazy_numpy import np

_WIDTH_PARTS = 10_000  # a number with decimals is one of this many equally spaced numbers within its interval


@dataclass(frozen=True)
class CutNumbers:
    """The numbers of a column with cuts and stated bounds.

    Attributes:
        ends: the lower bound, the cuts, and the upper bound; for whole numbers, the upper bound plus one.
        whole: whether the numbers are whole: the stated bounds and all cuts are.
    """

    ends: tuple[float, ...]
    whole: bool

    @property
    def middles(self) -> Floats:
        """The mean number in each interval."""
        low, high = np.array(self.ends[:-1]), np.array(self.ends[1:])
        return np.asarray((low + high - self.whole) / 2.0)

    def draw(self, codes: Integers, rng: np.random.Generator) -> Integers | Floats:
        """Return a number for each code, uniform within its interval."""
        ends = np.array(self.ends)
        low, high = ends[codes], ends[codes + 1]
        if self.whole:
            return rng.integers(low.astype(np.int64), high.astype(np.int64))
        digits = 5 - math.floor(math.log10(min(b - a for a, b in itertools.pairwise(self.ends))))
        numbers = low + (high - low) * (rng.integers(_WIDTH_PARTS, size=len(codes)) / _WIDTH_PARTS)
        return np.asarray(np.clip(np.round(numbers, min(digits, 15)), low, np.nextafter(high, -np.inf)))

    def __str__(self) -> str:
        """Return the bounds as a sentence shows them."""
        return f"from {float_text(self.ends[0])} to {float_text(self.ends[-1] - self.whole)}"


Bounds = Mapping[str, tuple[Any, Any]]
"""The stated lower and upper bound of columns, by name; two whole numbers ask for whole numbers."""


def cut_numbers(law: JointLaw, bounds: Bounds) -> dict[int, CutNumbers]:
    """Return the numbers of the columns with stated bounds, by index.

    Raises:
        SpecError: a name is not that of a column with cuts, or the bounds do not enclose its cuts.
    """
    numbers = {}
    for name, (low, high) in bounds.items():
        if name not in law.names:
            raise SpecError(f"there is no column {name!r}", where="bounds", hint=nearest(name, law.names))
        index = law.names.index(name)
        column = law.columns[index]
        if not isinstance(column, CutColumn):
            raise SpecError(f"column {name!r} has values, not cuts, and needs no bounds", where="bounds")
        whole = isinstance(low, int) and isinstance(high, int) and all(cut == int(cut) for cut in column.cuts)
        ends = (float(low), *column.cuts, float(high) + whole)
        if not all(math.isfinite(end) and abs(end) <= 1e15 for end in ends) or not _ascend(ends):
            raise SpecError(
                f"the bounds of {name!r} must enclose its cuts, {float_text(column.cuts[0])} to "
                f"{float_text(column.cuts[-1])}",
                where="bounds",
                hint=f"--bounds {name}=LOW:HIGH",
            )
        numbers[index] = CutNumbers(ends, whole)
    return numbers


def level_values(column: Column | CutColumn, numbers: CutNumbers | None) -> Floats | None:
    """Return the number of each level; None if the levels are not numbers."""
    if numbers is not None:
        return numbers.middles
    try:
        values = np.array([float(level) for level in column.levels])
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def parse_bounds(stated: Sequence[str]) -> dict[str, tuple[int | float, int | float]]:
    """Parse bounds as the command line states them, such as ``age=17:90``.

    Raises:
        SpecError: a text has another form.
    """
    parsed = {}
    for text in stated:
        name, _, ends = text.rpartition("=")
        try:
            low, high = (int(end) if end.strip().lstrip("+-").isdigit() else float(end) for end in ends.split(":"))
        except ValueError:
            raise SpecError(f"{text!r} states no bounds", where="bounds", hint="--bounds age=17:90") from None
        parsed[name] = low, high
    return parsed


def _ascend(ends: Sequence[float]) -> bool:
    return all(low < high for low, high in itertools.pairwise(ends))
