"""Noise whose scale differs from one part of a statistic to the next, where parts are given shares of a budget."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpbayes_cli.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats, Integers

_DOWN = Context(prec=30, rounding=ROUND_FLOOR)

Law = DiscreteLaplace | DiscreteGaussian


@dataclass(frozen=True)
class PartNoise:
    """Independent noise of one kind on consecutive parts of a statistic, each with a scale of its own.

    Privacy: what a record changes in the parts is noised independently: epsilons of discrete Laplace parts add up, and
        so do the rhos of discrete Gaussian ones, to what was divided among them.
    Source: mechanisms, budget per node; basic composition.

    Attributes:
        laws: one law a part.
        sizes: the number of components of each part.

    Raises:
        ValueError: the laws are not of one kind, or not as many as parts.
    """

    laws: tuple[Law, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.laws) != len(self.sizes) or len({law.kind for law in self.laws}) != 1:
            raise ValueError("parts need one law each, all of one kind")

    @property
    def kind(self) -> str:
        """The kind of the laws."""
        return self.laws[0].kind

    @property
    def scale(self) -> float:
        """The largest scale."""
        return max(law.scale for law in self.laws)

    @property
    def variance(self) -> float:
        """The largest variance."""
        return max(law.variance for law in self.laws)

    @property
    def scales(self) -> tuple[float, ...]:
        """The scale of each component."""
        return tuple(law.scale for law, size in zip(self.laws, self.sizes, strict=True) for _ in range(size))

    def release(self, values: Sequence[int]) -> list[int]:
        """Add independent exact noise to an integer statistic, part by part."""
        return [
            noisy for law, part in zip(self.laws, self._split(values), strict=True) for noisy in law.release(list(part))
        ]

    def log_pmf(self, z: Integers) -> Floats:
        """Return log P(noise = z), components along the last axis."""
        import numpy as np

        edges = np.cumsum(self.sizes)[:-1]
        parts = np.split(np.asarray(z), edges, axis=-1)
        return np.concatenate([law.log_pmf(part) for law, part in zip(self.laws, parts, strict=True)], axis=-1)

    def characteristic(self, u: Floats) -> Floats:
        """Return E[cos(u noise)], components along the last axis."""
        import numpy as np

        parts = np.split(np.asarray(u), np.cumsum(self.sizes)[:-1], axis=-1)
        return np.concatenate([law.characteristic(part) for law, part in zip(self.laws, parts, strict=True)], axis=-1)

    def radius(self, nats: float) -> int:
        """Return the largest radius of a part."""
        return max(law.radius(nats) for law in self.laws)

    def simulate(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Integers:
        """Draw noise for a simulation, components along the last axis."""
        import numpy as np

        leading = size[:-1] if isinstance(size, tuple) else ()
        drawn = [law.simulate(rng, (*leading, count)) for law, count in zip(self.laws, self.sizes, strict=True)]
        return np.concatenate(drawn, axis=-1)

    def serialize(self) -> dict[str, Any]:
        """Return the stored form; the scales are kept with the components."""
        return {"law": self.kind, "scale": None}

    def _split(self, values: Sequence[int]) -> Iterator[Sequence[int]]:
        first = 0
        for size in self.sizes:
            yield values[first : first + size]
            first += size
        if first != len(values):
            raise ValueError("the statistic has another number of components than its noise")


def noise_by_parts(
    total: Decimal, sizes: Sequence[int], weights: Sequence[Fraction], calibrate: Callable[[int, Decimal], Law]
) -> PartNoise:
    """Divide a budget among parts by their weights and calibrate each.

    Args:
        total: what may be spent; shares are rounded down.
        sizes: the number of components of each part.
        weights: positive, relative to each other.
        calibrate: returns the law of a part, by its index and its share.

    Privacy: the shares add up to the total at most.
    Source: mechanisms, budget per node.
    """
    whole = sum(weights, Fraction(0))
    laws = []
    for i, weight in enumerate(weights):
        share = Fraction(total) * weight / whole
        laws.append(calibrate(i, _DOWN.divide(Decimal(share.numerator), Decimal(share.denominator))))
    return PartNoise(tuple(laws), tuple(sizes))


def laws_at(noise: NoiseLaw, components: Sequence[int]) -> list[NoiseLaw]:
    """Return the law of the noise on each of some components.

    By component and not by part: a law that was stored and read again knows its scales, and not where parts of equal
    scale meet.
    """
    if not isinstance(noise, PartNoise):
        return [noise] * len(components)
    ends = list(itertools.accumulate(noise.sizes))
    return [noise.laws[bisect.bisect_right(ends, component)] for component in components]


def scales_of(noise: NoiseLaw, size: int) -> tuple[float, ...]:
    """Return the scale of the noise on each component."""
    return noise.scales if isinstance(noise, PartNoise) else (noise.scale,) * size


def noise_of_scales(noise: NoiseLaw | None, kind: str, scales: Sequence[float]) -> NoiseLaw:
    """Return the law of noise whose scales are known for each component.

    Args:
        noise: the law where all scales are one, else None.
        kind: the kind of the law, where they differ.
        scales: one scale a component.

    Raises:
        ValueError: an unknown kind, or a scale that is none.
    """
    if noise is not None:
        return noise
    parts = [(scale, len(list(same))) for scale, same in itertools.groupby(scales)]
    laws: dict[str, type[Law]] = {law.kind: law for law in (DiscreteLaplace, DiscreteGaussian)}
    if kind not in laws:
        raise ValueError("unknown noise law")
    return PartNoise(tuple(laws[kind](scale) for scale, _ in parts), tuple(size for _, size in parts))
