"""The interface of the law of a plan's step, which adds noise, draws parameters, runs a chain or chooses bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self


class StepLaw:
    """The calibrated law of one step of a plan; its users ask what it can do, never which class it is."""

    adds_noise: ClassVar[bool] = False
    """Whether the law adds integer noise to a statistic; otherwise it draws parameters or bounds."""
    has_moments: ClassVar[bool] = False
    """Whether a plan can state the moments of draws from the law."""
    slow_moments: ClassVar[bool] = False
    """Whether the computation of moments takes seconds, so that plans compute only few."""
    draws_exactly: ClassVar[bool] = True
    """Whether draws follow the stated law exactly, rather than as the limit of a chain."""
    draws_at_once: ClassVar[bool] = False
    """Whether one call can return many independent draws at a lower cost in time than many calls."""
    can_be_dictated: ClassVar[bool] = True
    """Whether an audit can dictate the outcomes of all random choices and all noise of the law."""

    @property
    def can_be_simulated(self) -> bool:
        """Whether a plan can simulate releases by the law without data."""
        return self.adds_noise or self.has_moments

    @property
    def has_normal_approximation(self) -> bool:
        """Whether a normal law is known that approximates the draws, so that a plan runs no chain."""
        return False

    @property
    def n_states(self) -> int:
        """The number of hidden states released with each draw."""
        return 0

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions that this law's guarantee needs in addition to those of every guarantee, one text each."""
        return ()

    def is_possible(self, draw: Sequence[float]) -> bool | None:
        """Return whether some data set makes this law release a given finite draw; None if this is not known."""
        return None

    def coarsened(self) -> Self:
        """Return a law of the same cost for audits; if this law's grid is very large, its grid has fewer points."""
        return self
