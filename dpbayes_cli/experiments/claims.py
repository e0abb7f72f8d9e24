"""Claims about figures: what a paper says, what a study measured, and whether the claim holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dpbayes_cli.experiments.results import Difference

OURS = "dpbayes"
"""The source of a claim that no paper makes: what this project adds."""


@dataclass(frozen=True)
class Claim:
    """One thing that a figure shows.

    Attributes:
        source: the paper, or ``OURS``.
        says: the claim in words.
        holds: whether the study finds the same.
        measured: the numbers that decide it.
        why: why the paper and the study differ, or another remark; may be empty.
    """

    source: str
    says: str
    holds: bool
    measured: str
    why: str = ""

    @property
    def verdict(self) -> str:
        """In words."""
        return "holds" if self.holds else "does not hold"

    @property
    def document(self) -> dict[str, Any]:
        """The claim as it is written to JSON."""
        return asdict(self)


def difference_claims(
    source: str,
    says: str,
    differences: Mapping[str, Difference],
    clear: float,
    *,
    never: int = 0,
    always: int = 0,
    some: int = 0,
    why: str = "",
) -> list[Claim]:
    """Return the claim about the differences of two methods, empty if no point has both.

    Args:
        source, says, why: see ``Claim``; ``why`` is kept only if the claim does not hold.
        differences: the differences, by point of the grid.
        clear: how many standard errors make a difference clear.
        never, always, some: the sign that no, every or at least one clear difference must have; 0 if any will do.
    """
    if not differences:
        return []
    signs = [each.sign(clear) for each in differences.values()]
    holds = not (never and never in signs) and (not always or set(signs) == {always}) and (not some or some in signs)
    numbers = "; ".join(f"{place}: {each}" for place, each in differences.items())
    measured = f"clearly lower at {signs.count(-1)}, higher at {signs.count(1)} of {len(signs)}: {numbers}"
    return [Claim(source, says, holds, measured, "" if holds else why)]


def listed(values: Sequence[object]) -> str:
    """Return values in a row; ``nowhere`` if there are none."""
    return ", ".join(map(str, values)) or "nowhere"
