"""A bounded record of the states of chains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


class Trace:
    """Evenly thinned states of chains: whenever there are more than ``most``, every second one is dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._states: list[Floats] = []
        self._thinning = 1
        self._seen = 0

    def add(self, state: Floats) -> None:
        """Record the next state, shape (chains, k)."""
        self._seen += 1
        if self._seen % self._thinning:
            return
        self._states.append(state.copy())
        if len(self._states) > self._most:
            self._states = self._states[1::2]
            self._thinning *= 2
            self._seen = 0 if self._seen % self._thinning == 0 else self._thinning // 2

    def clear(self) -> None:
        """Remove all states."""
        self._states.clear()
        self._thinning, self._seen = 1, 0

    def values(self) -> Floats:
        """Return the recorded states, shape (chains, n, k)."""
        return np.stack(self._states, axis=1)
