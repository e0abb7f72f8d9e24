"""Parse the noise law that a document states."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from dpbayes_cli.core.registry import noise_law_type
from dpbayes_cli.privacy.laws.part_noise import PartNoise
from dpbayes_cli.privacy.noise import NoiseLaw


def parse_noise(stored: Mapping[str, Any], scales: Sequence[float]) -> NoiseLaw:
    """Return the noise law whose stored form ``NoiseLaw.serialize`` wrote.

    Args:
        scales: the noise scale of each component, which the document states separately from the law.

    Raises:
        ValueError: the kind of the law is unknown, or its scale or another parameter is invalid.
    """
    law, parameters = noise_law_type(str(stored.get("law"))), stored.get("parameters", {})
    try:
        if stored.get("scale") is not None:
            return law.parse(float(stored["scale"]), parameters)
        if not parameters:  # parts differ only in scale; adjacent components of one scale form one part
            parts = [(scale, len(list(same))) for scale, same in itertools.groupby(scales)]
            return PartNoise(tuple(law.parse(scale, {}) for scale, _ in parts), tuple(size for _, size in parts))
        sizes = tuple(map(int, parameters["sizes"]))
        firsts = itertools.accumulate(sizes[:-1], initial=0)
        laws = [law.parse(scales[i], part) for i, part in zip(firsts, parameters["parts"], strict=True)]
        return PartNoise(tuple(laws), sizes)
    except (IndexError, KeyError, TypeError) as error:
        raise ValueError("malformed noise law") from error
