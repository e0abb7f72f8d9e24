"""A posterior in Python: a summary of each parameter, samples, and conversions for pandas and ArviZ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.report.intervals import STORED_LEVEL
from dpbayes_cli.inference.posterior import QUANTILES, interval_ends

if TYPE_CHECKING:
    import arviz
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Inferred:
    """The posterior of the parameters of a release.

    Attributes:
        analysis: the samples, the summaries and the diagnostics from which everything else here is made.
    """

    analysis: Analysis

    @property
    def warnings(self) -> tuple[str, ...]:
        """Caveats that a reader must know before using the posterior; often empty."""
        return tuple(self.analysis.posterior.warnings)

    def summary(self, interval: float = 0.9) -> pd.DataFrame:
        """Return the posterior mean, standard deviation, median and interval that reports show, one row per parameter.

        An interval is central, but that of a variance begins at 0 if this makes the 90 % interval shorter.

        Args:
            interval: the probability of the interval; if it is not 0.9, the ends are quantiles of the samples.

        Raises:
            ValueError: the probability is not between 0 and 1.
        """
        import numpy as np
        import pandas as pd

        if not 0 < interval < 1:
            raise ValueError("an interval needs a probability between 0 and 1")
        marginals = self.analysis.marginals
        low, middle, high = np.array([[each.quantiles[name] for each in marginals] for name in QUANTILES])
        if interval != STORED_LEVEL:
            low, high = interval_ends(self.analysis.samples, interval, low == 0.0)
        return pd.DataFrame(
            {
                "mean": [marginal.mean for marginal in marginals],
                "sd": [marginal.sd for marginal in marginals],
                "low": low,
                "median": middle,
                "high": high,
            },
            index=pd.Index(self.analysis.parameters, name="parameter"),
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return the posterior samples, one column per parameter and one row per sample."""
        import pandas as pd

        return pd.DataFrame(self.analysis.samples, columns=list(self.analysis.parameters))

    def to_arviz(self) -> arviz.InferenceData:
        """Return the posterior samples for ArviZ; samples from Markov chains keep their chains apart.

        If the posterior was inferred with ``samples_per_group``, the group ``groups`` of the result holds the samples
        of each group. They are not joint with the samples in the group ``posterior``.

        Raises:
            ImportError: ArviZ is not installed: ``pip install 'dpbayes[arviz]'``.
        """
        import tempfile
        import warnings
        from pathlib import Path

        import arviz

        from dpbayes_cli.bundle.samples import netcdf_bytes

        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "posterior.nc"
            path.write_bytes(netcdf_bytes(self.analysis, {}))
            with warnings.catch_warnings():  # ArviZ loads groups that are not in its schema, but warns of them
                warnings.filterwarnings("ignore", message=".*not defined in the InferenceData scheme", module="arviz")
                return arviz.from_netcdf(str(path))

    def __repr__(self) -> str:
        """Return the summary as text."""
        return str(self.summary())

    def _repr_html_(self) -> str:
        notes = "".join(f"<p><b>Warning:</b> {warning}</p>" for warning in self.warnings)
        return f"{self.summary().to_html(float_format='%.4g')}{notes}"
