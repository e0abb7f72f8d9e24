"""What a paper says of a figure, and what a study measures of it: claims as data, with their verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

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


def with_claims(summary: bytes, claims: Sequence[Claim]) -> bytes:
    """Return a summary with the section of its claims, which stands before all other sections."""
    text = summary.decode("utf-8")
    at = text.find("\n## ")
    at = len(text) if at < 0 else at
    return f"{text[:at]}\n{claims_section(claims)}{text[at:]}".encode()


def claims_section(claims: Sequence[Claim]) -> str:
    """Return the section of a summary that tells what holds."""
    if not claims:
        return "## Claims\n\nThese cells tell nothing of what the papers show.\n"
    lines = [
        "## Claims",
        "",
        "| whose | what is shown | verdict | measured | why they differ |",
        "|---|---|---|---|---|",
        *(
            f"| {claim.source} | {claim.says} | {claim.verdict if claim.holds else f'**{claim.verdict}**'} "
            f"| {claim.measured} | {claim.why} |"
            for claim in claims
        ),
    ]
    return "\n".join(lines) + "\n"


def listed(values: Sequence[object]) -> str:
    """Return values in a row; ``nowhere`` if there are none."""
    return ", ".join(map(str, values)) or "nowhere"
