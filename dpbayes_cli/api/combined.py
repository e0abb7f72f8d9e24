"""Combine the analyses of synthetic tables in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.inference.estimands.combined_tables import Combined, Rule, combine_tables

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike


@dataclass(frozen=True, repr=False)
class CombinedEstimates(Combined):
    """Estimates from several synthetic tables; see ``Combined`` for the attributes."""

    def to_pandas(self) -> pd.DataFrame:
        """Return one row for each quantity."""
        import numpy as np
        import pandas as pd

        names = ("estimate", "low", "high", "within", "between")
        return pd.DataFrame({name: np.atleast_1d(getattr(self, name)) for name in names})

    def __repr__(self) -> str:
        """Return the estimates as text."""
        return str(self.to_pandas())

    def _repr_html_(self) -> str:
        return str(self.to_pandas().to_html(float_format="%.4g"))


def combine(
    estimates: ArrayLike, variances: ArrayLike, *, interval: float = 0.95, rule: Rule = "rubin"
) -> CombinedEstimates:
    """Combine the analyses of m synthetic tables, which were drawn from m posterior draws.

    >>> dpb.combine([0.30, 0.34, 0.29, 0.35], [0.0004, 0.0004, 0.0005, 0.0004])
       estimate       low      high    within   between
    0      0.32  0.216605  0.423395  0.000425  0.000867

    The rule ``rubin`` is for tables about as large as the original. The posterior of the quantity Q given the variance
    B of the tables' estimates is normal around their mean, with variance T = (1 + 1/m) B - v, where v is the mean of
    the tables' own variances. The sign of v differs from that in the rule for multiple imputation, because whole tables
    are synthetic. Given the observed variance b of the estimates, B has a scaled inverse chi-squared law with m - 1
    degrees of freedom. It is restricted to B > v, because the posterior draws differ. The interval integrates over B.
    The rule ``rubin-t`` is the usual approximation: T at B = b, and a t distribution with (m - 1) (1 - v / ((1 + 1/m)
    b))^2 degrees of freedom, at least 1; if T is not positive, v replaces it, with m - 1 degrees of freedom. With few
    tables, its intervals are far too wide unless b is much larger than v.

    The rule ``mixture`` is for many tables (at least 100, say) that are much larger than the original: the posterior is
    the mixture of the tables' normal posteriors, and the ends of the interval are its quantiles.

    Args:
        estimates: the estimate from each table, shape (m,) or (m, n_quantities), m at least 2.
        variances: the squared standard error that the analysis of each table states, in the same shape.
        interval: the probability of the interval.
        rule: ``rubin``, ``rubin-t`` or ``mixture``.

    Raises:
        ValueError: there are fewer than two tables, the shapes differ, a number is not finite, or there is no such
            rule.

    Privacy: post-processing of synthetic tables; nothing is spent.
    Source: Raghunathan, Reiter and Rubin 2003, J. Official Statistics 19(1), sec. 2.1; Reiter 2002, sec. 3.2 (variance
        that is not positive); Raisa, Jalko and Honkela 2025, JMLR 26 (mixtures for large tables).
    """
    return CombinedEstimates(**vars(combine_tables(estimates, variances, interval, rule)))
