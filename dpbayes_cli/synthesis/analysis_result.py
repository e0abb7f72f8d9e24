"""What an analysis computes, and its result: posterior draws of the estimated numbers, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.inference.estimands.cell_regression import Family
from dpbayes_cli.synthesis.cut_numbers import Bounds

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Analyzed:
    """The posterior of an analysis.

    Attributes:
        title: what was computed.
        names: the names of the estimated numbers.
        draws: each number on each posterior draw, shape (n_draws, n_numbers).
        interval: the probability of the intervals.
        notes: how columns entered the analysis, and what the estimates mean.
        warnings: what a reader must know before using the result, such as missing edges of the network; each text
            begins with ``WARNING: `` or ``note: ``.
        release_id: the release.
    """

    title: str
    names: tuple[str, ...]
    draws: Floats
    interval: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    release_id: str

    def summary(self) -> dict[str, Floats]:
        """Return the posterior mean, standard deviation, median and interval of each number, by name of the column."""
        half = self.interval / 2.0
        low, median, high = np.quantile(self.draws, [0.5 - half, 0.5, 0.5 + half], axis=0)
        return {
            "mean": self.draws.mean(axis=0),
            "sd": self.draws.std(axis=0, ddof=1),
            "median": median,
            "low": low,
            "high": high,
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return one row for each estimated number."""
        import pandas as pd

        return pd.DataFrame(self.summary(), index=pd.Index(self.names, name="estimate"))

    def document(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        columns = {key: values.tolist() for key, values in self.summary().items()}
        return {
            "release_id": self.release_id,
            "analysis": self.title,
            "interval": self.interval,
            "draws": len(self.draws),
            "estimates": [
                {"name": name, **{key: values[k] for key, values in columns.items()}}
                for k, name in enumerate(self.names)
            ],
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }

    def __repr__(self) -> str:
        """Return the estimates and the warnings as text."""
        return "\n".join((self.title, str(self.to_pandas()), *self.warnings))

    def _repr_html_(self) -> str:
        texts = "".join(f"<p>{escape(text)}</p>" for text in self.warnings)
        return f"<p>{escape(self.title)}</p>{self.to_pandas().to_html(float_format='%.4g')}{texts}"


@dataclass(frozen=True)
class AnalysisRequest:
    """What to compute: exactly one of ``formula``, ``mean``, ``table`` and ``correlation``.

    Attributes:
        formula: a regression, such as ``income ~ age + sex``.
        family: ``logistic``, ``linear`` or ``poisson``; None chooses by the outcome.
        success: the level of the outcome whose probability a logistic regression models; None: the second of two.
        mean: the column whose mean, or whose shares of levels, are estimated.
        by: the columns given whose values the mean is estimated.
        table: the columns whose joint shares are estimated.
        correlation: two columns.
        bounds: the bounds of columns with cuts that enter as numbers; see ``cut_numbers``.
        interval: the probability of the intervals.
    """

    formula: str | None = None
    family: Family | None = None
    success: str | None = None
    mean: str | None = None
    by: tuple[str, ...] = ()
    table: tuple[str, ...] = ()
    correlation: tuple[str, ...] = ()
    bounds: Bounds | None = None
    interval: float = 0.9
