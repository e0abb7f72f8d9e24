"""Chains run until they have converged, and records of their states."""

from __future__ import annotations

import numpy as np
import pytest

from dpbayes_cli.core.noisy_observation import NoisyCounts, RecordCount
from dpbayes_cli.inference.chains import Trace
from dpbayes_cli.inference.counts.infer_counts import infer_counts
from dpbayes_cli.inference.posterior import Effort
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace

CASE = NoisyCounts((1.0,) * 3, (4, 5, 2), DiscreteLaplace(2.0), RecordCount("known", 12))


def test_a_run_goes_on_until_it_has_the_effective_sample_size() -> None:
    posterior = infer_counts(CASE, "chain", 10, np.random.default_rng(1), Effort(ess=1500))
    assert posterior.warnings == ()
    assert min(posterior.diagnostics[name] for name in ("ess_bulk", "ess_tail")) >= 1500
    assert posterior.diagnostics["r_hat"] <= 1.01


def test_a_run_that_ends_too_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbayes_cli.inference.chains._MAX_LENGTHS", 1)
    posterior = infer_counts(CASE, "chain", 100, np.random.default_rng(1), Effort(ess=9000))
    assert "9,000 are required" in posterior.warnings[0]


def test_a_trace_is_evenly_thinned() -> None:
    trace = Trace(8)
    for i in range(1, 101):
        trace.add(np.full((2, 3), float(i)))
    kept = trace.values()[0, :, 0]
    assert 4 <= len(kept) <= 8
    assert len(set(np.diff(kept))) == 1
    trace.clear()
    trace.add(np.zeros((2, 3)))
    assert trace.values().shape == (2, 1, 3)
