"""What a mechanism releases: privatized statistics, or draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpbayes_cli.core.private_choice import Chosen
from dpbayes_cli.privacy.noise import NoiseLaw


@dataclass(frozen=True)
class Draws:
    """Released posterior draws or point estimates; each is paid for.

    Attributes:
        values: the draws, each with one value for each parameter of the model.
        states: for a hidden Markov model the hidden states of each draw, sequence by sequence; empty for other models.
        log_weight: the noisy log importance weight of an annealed chain; None if the request did not pay for it.
    """

    values: tuple[tuple[float, ...], ...]
    states: tuple[tuple[int, ...], ...] = ()
    log_weight: float | None = None


@dataclass(frozen=True)
class Payload:
    """Released statistics, with the law of their noise.

    Attributes:
        values: the privatized integers, one for each of ``names``.
        noise: the law of the noise that was added.
        chosen: the bounds or the structure that were chosen privately; None if they were stated.
        points: the public points at which derivatives were released, one for each round; empty if there are no rounds.
        keys: the published keys of groups; None if the keys are listed, or there are no groups.
    """

    names: Sequence[str]
    values: tuple[int, ...]
    noise: NoiseLaw
    chosen: Chosen | None = None
    keys: tuple[str, ...] | None = None
    points: tuple[tuple[int, ...], ...] = ()

    def described(self) -> list[dict[str, Any]]:
        """Return name, value and noise scale of each component as a JSON object."""
        scales = self.noise.scales(len(self.values))
        return [
            {"name": name, "value": value, "noise_scale": scale}
            for name, value, scale in zip(self.names, self.values, scales, strict=True)
        ]
