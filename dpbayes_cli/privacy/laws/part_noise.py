"""Noise whose scale differs between parts of a statistic, because each part has its own share of the budget."""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.privacy.composition import Composition, compose
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import GaussianDP, NoisyShift, PureDP, ZeroConcentrated
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.noise import NoiseLaw

_ONE_ORDER = (ZeroConcentrated.kind, GaussianDP.kind)
"""Kinds of guarantee whose cost grows with rho in every notion of privacy: the shift of the largest rho costs most."""

_DOWN = Context(prec=30, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class PartNoise(NoiseLaw):
    """Independent noise of one kind on consecutive parts of a statistic, with one scale per part.

    Privacy: the parts have independent noise, so that the epsilons of discrete Laplace parts add up, and so do the rhos
        of discrete Gaussian parts and the squared mus of rounded Gaussian parts. The sum is the budget that was divided
        among the parts.
    Source: derived here, by basic composition.

    Attributes:
        laws: one law per part.
        sizes: the number of components of each part.
    """

    laws: tuple[NoiseLaw, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.laws) != len(self.sizes) or len({law.kind for law in self.laws}) != 1:
            raise ValueError("each part needs one law, all of the same kind")

    @property
    def kind(self) -> str:  # type: ignore[override]  # from its parts
        """The kind of the laws."""
        return self.laws[0].kind

    @property
    def scale(self) -> float:  # type: ignore[override]  # from its parts
        """The largest scale."""
        return max(law.scale for law in self.laws)

    @property
    def variance(self) -> float:
        """The largest variance."""
        return max(law.variance for law in self.laws)

    def scales(self, size: int) -> tuple[float, ...]:
        return tuple(law.scale for law, count in zip(self.laws, self.sizes, strict=True) for _ in range(count))

    def at(self, component: int) -> NoiseLaw:
        """Return the law of the noise on one component.

        The argument counts components and not parts, because stored laws join adjacent parts of equal scale.
        """
        return self.laws[bisect.bisect_right(self._ends, component)]

    @cached_property
    def _ends(self) -> list[int]:
        return list(itertools.accumulate(self.sizes))

    def release(self, values: Sequence[int]) -> list[int]:
        parts = zip(self.laws, self._split(values), strict=True)
        return [noisy for law, part in parts for noisy in law.release(list(part))]

    def release_often(self, values: Sequence[int], n_times: int) -> list[list[int]]:
        """Return several independent results of ``release``; each law is asked once."""
        parts = zip(self.laws, self._split(values), strict=True)
        drawn = (law.release_often(list(part), n_times) for law, part in parts)
        return [[noisy for part in row for noisy in part] for row in zip(*drawn, strict=True)]

    def log_pmf(self, z: Integers) -> Floats:
        """Return log P(noise = z), elementwise; the last axis of z runs over the components."""
        parts = np.split(np.asarray(z), self._ends[:-1], axis=-1)
        return np.concatenate([law.log_pmf(part) for law, part in zip(self.laws, parts, strict=True)], axis=-1)

    def characteristic(self, u: Floats) -> Floats:
        """Return E[cos(u noise)], elementwise; the last axis of u runs over the components."""
        parts = np.split(np.asarray(u), self._ends[:-1], axis=-1)
        return np.concatenate([law.characteristic(part) for law, part in zip(self.laws, parts, strict=True)], axis=-1)

    def radius(self, nats: float) -> int:
        return max(law.radius(nats) for law in self.laws)

    def simulate(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Integers:
        """Return noise for a simulation; the last axis runs over the components."""
        leading = size[:-1] if isinstance(size, tuple) else ()
        drawn = [law.simulate(rng, (*leading, count)) for law, count in zip(self.laws, self.sizes, strict=True)]
        return np.concatenate(drawn, axis=-1)

    def privacy(self, shifts: Sequence[Sequence[int]]) -> Guarantee:
        """Return the cost of the largest shift, which is the sum of the costs of the parts that it changes.

        Raises:
            ValueError: there are several shifts, and which of them costs most may depend on the notion of privacy.
        """
        costs = [self._cost(shift) for shift in shifts]
        pure = [[part for part in cost.parts if isinstance(part, PureDP) and part.shifts] for cost in costs]
        if [len(parts) for parts in pure] == [len(cost.parts) for cost in costs]:
            merged = tuple(_merged(each for part in parts for each in part.shifts[0]) for parts in pure)
            return PureDP(max(cost.epsilon for cost in costs), merged)
        if len(costs) > 1 and any(part.kind not in _ONE_ORDER for cost in costs for part in cost.parts):
            raise ValueError("it is not known which of several shifts costs most in every notion of privacy")
        return max(costs, key=lambda cost: cost.rho)

    def _cost(self, shift: Sequence[int]) -> Composition:
        parts = zip(self.laws, self._split(shift), strict=True)
        return compose([law.privacy([part]) for law, part in parts if any(part)])

    @classmethod
    def parse(cls, scale: float, parameters: Mapping[str, Any]) -> NoiseLaw:  # type: ignore[override]
        """Raise an error: one scale does not determine the parts; ``parse_noise`` restores them from all scales."""
        raise ValueError("noise by parts cannot be restored from one scale")

    def serialize(self) -> dict[str, Any]:
        """Return the stored form, without the scales, which documents store with the components."""
        stored = [law.serialize() for law in self.laws]
        parameters = [part["parameters"] for part in stored if "parameters" in part]
        fields: dict[str, Any] = {"law": self.kind, "scale": None}
        return {**fields, "parameters": {"sizes": list(self.sizes), "parts": parameters}} if parameters else fields

    def _split(self, values: Sequence[int]) -> list[Sequence[int]]:
        if len(values) != self._ends[-1]:
            raise ValueError("the statistic and its noise differ in their number of components")
        return [values[end - size : end] for size, end in zip(self.sizes, self._ends, strict=True)]


def _merged(shifts: Iterable[NoisyShift]) -> tuple[NoisyShift, ...]:
    """Return a shift in which components of equal scale and change are counted together."""
    components: Counter[tuple[Decimal, int]] = Counter()
    for each in shifts:
        components[each.scale, each.change] += each.components
    return tuple(NoisyShift(scale, change, count) for (scale, change), count in components.items())


def noise_by_parts(
    total: Decimal, sizes: Sequence[int], weights: Sequence[Fraction], calibrate: Callable[[int, Decimal], NoiseLaw]
) -> PartNoise:
    """Divide a budget among parts in proportion to their weights, and calibrate the law of each part to its share.

    Privacy: the shares add up to at most the total.
    Source: derived here.
    """
    total_weight = sum(weights, Fraction(0))
    laws = []
    for i, weight in enumerate(weights):
        share = Fraction(total) * weight / total_weight
        laws.append(calibrate(i, _DOWN.divide(Decimal(share.numerator), Decimal(share.denominator))))
    return PartNoise(tuple(laws), tuple(sizes))
