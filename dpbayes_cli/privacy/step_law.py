"""The interface of the laws in a plan: each adds noise, draws parameters, runs a chain or makes a choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self


class StepLaw:
    """The calibrated law of one step in a plan; callers ask for its capabilities, never for its class."""

    adds_noise: ClassVar[bool] = False
    """Whether the law adds integer noise to a statistic; otherwise it draws parameters or makes a choice."""
    has_moments: ClassVar[bool] = False
    """Whether a plan can state the moments of draws from the law."""
    slow_moments: ClassVar[bool] = False
    """Whether computing the moments takes seconds, so that a plan computes few of them."""
    draws_exactly: ClassVar[bool] = True
    """Whether draws follow the stated law exactly; the draws of a chain only converge to it."""
    draws_at_once: ClassVar[bool] = False
    """Whether one call for many independent draws is faster than many calls."""
    can_be_dictated: ClassVar[bool] = True
    """Whether an audit can dictate the outcomes of all random choices and all noise of the law."""

    @property
    def can_be_simulated(self) -> bool:
        """Whether a plan can simulate releases by the law without data."""
        return self.adds_noise or self.has_moments

    @property
    def has_normal_approximation(self) -> bool:
        """Whether a plan can approximate the draws by a known normal law instead of running a chain."""
        return False

    @property
    def n_states(self) -> int:
        """The number of hidden states released with each draw."""
        return 0

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of this law's guarantee beyond those of every guarantee, one text each."""
        return ()

    def is_possible(self, draw: Sequence[float]) -> bool | None:
        """Return whether at least one data set lets this law release a finite draw; None if this is not known."""
        return None

    def coarsened(self) -> Self:
        """Return a law of the same cost for audits, which has a coarser grid if this law's grid is very large."""
        return self
