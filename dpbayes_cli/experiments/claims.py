"""What a paper says of a figure, and what a study measures of it: claims as data, with their verdicts."""

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
        source: whose figure it is.
        says: what it shows.
        holds: whether the study finds the same.
        measured: the numbers by which that was decided.
        why: why they differ, or what else is to be known; may be empty.
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
    """Return the claim about the differences of two methods, none if no point has both.

    Args:
        source, says, why: see ``Claim``; why is said only if it does not hold.
        differences: by their place in the grid.
        clear: how many standard errors make a difference clear.
        never, always, some: the sign that no, every or some clear difference must have; 0: any.
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
