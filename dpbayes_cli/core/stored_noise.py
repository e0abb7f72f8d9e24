"""The law of noise that a document states, read back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from dpbayes_cli.core.registry import noise_law_type
from dpbayes_cli.privacy.laws.part_noise import PartNoise
from dpbayes_cli.privacy.noise import NoiseLaw


def parse_noise(stored: Mapping[str, Any], scales: Sequence[float]) -> NoiseLaw:
    """Read back what ``NoiseLaw.serialize`` wrote.

    Args:
        stored: the stored form.
        scales: the scale of the noise on each component, as the document states them beside it.

    Raises:
        ValueError: an unknown kind, or a scale or other parameters that none of that kind has.
    """
    law, parameters = noise_law_type(str(stored.get("law"))), stored.get("parameters", {})
    try:
        if stored.get("scale") is not None:
            return law.parse(float(stored["scale"]), parameters)
        if not parameters:  # the scales tell the parts, but for where parts of one scale meet
            parts = [(scale, len(list(same))) for scale, same in itertools.groupby(scales)]
            return PartNoise(tuple(law.parse(scale, {}) for scale, _ in parts), tuple(size for _, size in parts))
        sizes = tuple(map(int, parameters["sizes"]))
        firsts = itertools.accumulate(sizes[:-1], initial=0)
        each = [law.parse(scales[i], part) for i, part in zip(firsts, parameters["parts"], strict=True)]
        return PartNoise(tuple(each), sizes)
    except (IndexError, KeyError, TypeError) as error:
        raise ValueError("malformed noise law") from error
