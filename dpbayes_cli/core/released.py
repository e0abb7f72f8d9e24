"""What a mechanism lets out of the data: privatized statistics, or draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpbayes_cli.privacy.noise import NoiseLaw


@dataclass(frozen=True)
class Draws:
    """What a mechanism lets out of the data: posterior draws or point estimates, each of them paid for.

    Attributes:
        values: the draws, one value a parameter of the model each.
        states: of hidden Markov models, the states of each draw, sequence by sequence; none of other models.
        log_weight: of an annealed chain, its log importance weight with noise, where that was paid for.
    """

    values: tuple[tuple[float, ...], ...]
    states: tuple[tuple[int, ...], ...] = ()
    log_weight: float | None = None


@dataclass(frozen=True)
class Payload:
    """What a mechanism lets out of the data: one privatized integer a component, with the law of its noise.

    Attributes:
        names: the components' names.
        values: the privatized integers.
        noise: the law of the noise that was added.
        bounds: the bounds that were chosen privately for it, or None.
    """

    names: tuple[str, ...]
    values: tuple[int, ...]
    noise: NoiseLaw
    bounds: tuple[float, float] | None = None

    def described(self) -> list[dict[str, Any]]:
        """Return the components as (name, value, noise_scale) objects."""
        scales = self.noise.scales(len(self.values))
        return [
            {"name": name, "value": value, "noise_scale": scale}
            for name, value, scale in zip(self.names, self.values, scales, strict=True)
        ]
