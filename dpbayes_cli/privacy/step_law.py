"""The interface of every law of a plan's step: it adds noise, draws parameters, runs a chain or finds bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self


class StepLaw:
    """The calibrated law of one step of a plan; its users ask what it can do, never which class it is."""

    adds_noise: ClassVar[bool] = False
    """Whether it adds integer noise to a statistic; otherwise it draws."""
    has_moments: ClassVar[bool] = False
    """Whether a plan can state moments of its draws."""
    slow_moments: ClassVar[bool] = False
    """Whether these take seconds each, so that only few are computed."""
    draws_exactly: ClassVar[bool] = True
    """Whether draws follow the stated law exactly, rather than as the limit of a chain."""
    draws_at_once: ClassVar[bool] = False
    """Whether many draws of one call are independent, and cheaper than as many calls."""
    can_be_dictated: ClassVar[bool] = True
    """Whether all of its randomness is choices and noise, whose outcomes an audit can dictate."""

    @property
    def can_be_simulated(self) -> bool:
        """Whether its releases can be predicted without data."""
        return self.adds_noise or self.has_moments

    @property
    def n_states(self) -> int:
        """The number of hidden states released with each draw."""
        return 0

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of this law's guarantee that not every guarantee has, one text each."""
        return ()

    def is_possible(self, draw: Sequence[float]) -> bool | None:
        """Return whether this law can release a finite draw, for some data set; None: not known."""
        return None

    def coarsened(self) -> Self:
        """Return the same law on a cover with fewer points, at the same cost, if it has very many: for audits."""
        return self
