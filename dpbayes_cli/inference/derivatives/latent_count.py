"""The number of records in noisy derivatives as a function of one real number with a smooth prior."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit, logit

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.noisy_observation import RecordCount


def n_unknowns(total: RecordCount) -> int:
    """Return 0 if the number of records is known, else 1."""
    return 0 if total.kind == "known" else 1


def count_and_prior(total: RecordCount, u: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the number of records as a function of u, its derivative, the log prior density of u, and its derivative.

    An unbounded number is exp(u). A number of at most n is n * expit(u) under the uniform prior. Under the prior
    ``mostly-valid`` the log of the number of invalid records is uniform between -log(1 + n) and log(n), where numbers
    below 1 stand for 0.
    """
    if total.kind == "unbounded":
        u = np.clip(u, -5.0, 40.0)
        return np.exp(u), np.exp(u), u, np.ones_like(u)
    share = expit(u)
    slope = share * (1.0 - share)
    log_prior, prior_slope = log_expit(u) + log_expit(-u), 1.0 - 2.0 * share
    if not total.is_mostly_n:
        return np.maximum(total.n * share, 1e-3), total.n * slope, log_prior, prior_slope
    low, high = -np.log1p(total.n), np.log(total.n)
    invalid = np.exp(high - (high - low) * share)
    return np.maximum(total.n - invalid, 1e-3), invalid * (high - low) * slope, log_prior, prior_slope


def start_of(total: RecordCount, guess: float) -> float:
    """Return a value of u at which to start, given a rough guess of the number of records."""
    if total.kind == "unbounded":
        return float(np.log(max(guess, 10.0)))
    share = guess / total.n
    if total.is_mostly_n:
        low, high = -np.log1p(total.n), np.log(total.n)
        share = (high - np.log(max(total.n - guess, 1.0))) / (high - low)
    return float(np.clip(logit(np.clip(share, 0.1, 0.9)), -2.0, 2.0))
