"""What any law of a plan's step can be asked, whether it adds noise, draws parameters, runs a chain or finds bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self


class StepLaw:
    """A calibrated law, as a step of a plan holds it; whoever uses it asks what it can do, never what it is."""

    adds_noise: ClassVar[bool] = False
    """Whether it adds integer noise to a statistic; else it draws."""
    has_moments: ClassVar[bool] = False
    """Whether the law of its draws has moments that a plan can state."""
    slow_moments: ClassVar[bool] = False
    """Whether these take seconds each, so that few are asked for."""
    draws_exactly: ClassVar[bool] = True
    """Whether draws follow the law that is stated, and not one that a chain only comes near to."""
    draws_at_once: ClassVar[bool] = False
    """Whether many draws of one call are independent of each other, and cheaper than as many calls."""
    can_be_dictated: ClassVar[bool] = True
    """Whether all of its randomness is choices and noise, whose outcomes an audit can dictate."""

    @property
    def can_be_simulated(self) -> bool:
        """Whether it is known, without data, what its releases will look like."""
        return self.adds_noise or self.has_moments

    @property
    def n_states(self) -> int:
        """How many hidden states are released with each draw."""
        return 0

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What its guarantee takes for granted beside what every guarantee does, one text each."""
        return ()

    def is_possible(self, draw: Sequence[float]) -> bool | None:
        """Return whether a finite draw, as it is released, can be this law's, whatever the data; None: not known."""
        return None

    def coarsened(self) -> Self:
        """Return the same law on a cover of fewer points where there are very many, for audits; at the same price."""
        return self
