"""The summary of a posterior in Python has the intervals that reports show."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np

from dpbayes_cli.api.posterior import Inferred
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.report.intervals import Intervals
from dpbayes_cli.inference.posterior import Marginal


def test_intervals_of_hidden_variances_begin_at_0_at_every_level() -> None:
    marginals = [Marginal(1.0, 0.5, {"q05": low, "q50": 0.9, "q95": 2.0}, 0.3, 0.4) for low in (0.0, 0.1)]
    samples = np.stack([-np.log1p(-(np.arange(1000) + 0.5) / 1000)] * 2, axis=1)
    analysis = SimpleNamespace(parameters=("variance[a]", "mean[a]"), marginals=marginals, samples=samples)
    posterior = Inferred(cast("Analysis", analysis))
    shown = posterior.summary()
    assert shown[["low", "median", "high"]].to_numpy().tolist() == [[0.0, 0.9, 2.0], [0.1, 0.9, 2.0]]
    half = posterior.summary(0.5)
    np.testing.assert_allclose(half["low"], [0.0, np.quantile(samples[:, 1], 0.25)])
    np.testing.assert_allclose(half["high"], np.quantile(samples[:, 1], [0.5, 0.75]))


def test_columns_are_not_called_quantiles_if_an_interval_begins_at_0() -> None:
    assert Intervals(0.9, {"a": (0.5, 2.0)}).heads == ["5 %", "95 %"]
    assert Intervals(0.9, {"a": (0.5, 2.0), "b": (0.0, 2.0)}).heads == ["90 % from", "to"]
