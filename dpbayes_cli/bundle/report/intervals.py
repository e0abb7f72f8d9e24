"""The intervals that a report shows: those in the release document, or intervals at another level from the samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import UnsetType

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.document_parts import Width
from dpbayes_cli.inference.posterior import interval_ends
from dpbayes_cli.privacy.lazy_numpy import np

STORED_LEVEL = 0.9  # the probability of the intervals that a release document holds


@dataclass(frozen=True)
class Intervals:
    """The interval of each parameter: central, or from 0."""

    level: float  # the probability of an interval
    ends: Mapping[str, tuple[float, float]]  # by parameter; a parameter without an interval is missing
    samples: Floats | None = None  # from which the ends follow; None if the ends are those in the document

    @property
    def percent(self) -> str:
        """The level in percent."""
        return f"{100.0 * self.level:.10g} %"

    @property
    def tails(self) -> tuple[float, float]:
        """The probabilities below the lower and below the upper end."""
        return (1.0 - self.level) / 2.0, (1.0 + self.level) / 2.0

    @property
    def heads(self) -> list[str]:
        """The titles of the two table columns that hold the ends: quantiles, unless an interval begins at 0."""
        if any(low == 0.0 for low, _ in self.ends.values()):
            return [f"{self.percent} from", "to"]
        return [f"{100.0 * tail:.10g} %" for tail in self.tails]


def stored_intervals(document: ReleaseDocument) -> Intervals:
    """Return the 90 % intervals that a document holds."""
    return Intervals(
        STORED_LEVEL,
        {name: (p.q05, p.q95) for name, p in document.posterior.items() if p.q05 is not None and p.q95 is not None},
    )


def share_without_noise(document: ReleaseDocument, parameter: str) -> float | None:
    """Return the share of an interval's width that would remain without the noise for privacy; None if unknown."""
    return _share(document, document.width.get(parameter))


def share_of_log_without_noise(document: ReleaseDocument, effect: str) -> float | None:
    """Return the share of the width of the interval of a ratio's logarithm that would remain; None if unknown."""
    known = not isinstance(document.effects, UnsetType) and document.effects.get(effect)
    return _share(document, known.log_width) if known and not isinstance(known.log_width, UnsetType) else None


def _share(document: ReleaseDocument, parts: Width | None) -> float | None:
    whole = 0.0 if parts is None else math.hypot(parts.sd_data, parts.sd_noise)
    return None if parts is None or not whole or document.inference.method == "naive" else parts.sd_data / whole


def sampled_intervals(document: ReleaseDocument, samples: Floats, level: float) -> Intervals:
    """Return the intervals at a level: those in the document if it holds this level, else quantiles of the samples."""
    stored = stored_intervals(document)
    if level == stored.level:
        return stored
    from_zero = [stored.ends.get(name, (None,))[0] == 0.0 for name in document.posterior]
    low, high = interval_ends(samples, level, np.array(from_zero))
    ends = dict(zip(document.posterior, zip(low.tolist(), high.tolist(), strict=True), strict=True))
    return Intervals(level, {name: ends[name] for name in stored.ends}, samples)
