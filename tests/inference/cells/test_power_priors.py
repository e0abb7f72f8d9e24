"""Columns of which small noisy counts are not published: naive posteriors are biased upward, learned priors are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpbayes_cli.inference.cells.count_lattices import NoisyCells, lattices
from dpbayes_cli.inference.cells.quantities import Quantity, summarize, unchanged
from tests.conftest import often
from tests.inference.cells.cells import FREE, noisy_cells
from tests.inference.cells.test_quantities import add_noise, ranks
from tests.statistical import assert_not_uniform, assert_uniform


def published(law: str, scale: float, below: float, *, listed: bool, size: int) -> tuple[NoisyCells, np.ndarray]:
    """Counts c of a law proportional to (c + 1)^-2, and the cells of which noise is not below a threshold."""
    rng = np.random.default_rng(21)
    truth = rng.zipf(2.0, size) - 1
    truth = truth[truth < 10**6]
    observed = add_noise(truth, law, scale, rng).astype(float)
    if listed:
        observed[observed < below] = np.nan
    else:
        truth, observed = truth[observed >= below], observed[observed >= below]
    return noisy_cells(observed, law, scale, below, lists_suppressed=listed), truth


@pytest.mark.slow
@pytest.mark.parametrize("listed", [False, True], ids=["missing", "listed"])
@pytest.mark.parametrize("law", ["discrete-gaussian", *often(["gaussian", "discrete-laplace", "laplace"], 3)])
def test_published_counts_are_calibrated_and_naive_ones_are_not(law: str, listed: bool) -> None:
    """Fails without reason with probability 1e-9."""
    cells, truth = published(law, 6.0, 12.0, listed=listed, size=6000 if listed else 40_000)
    rng = np.random.default_rng(22)
    seen = ~np.isnan(cells.observed)
    assert_uniform(ranks(cells, truth, rng))
    naive = replace(cells, prior=np.full(len(truth), -1))
    assert_not_uniform(ranks(naive, truth, rng)[seen])
    learned, flat = (lattices(each, np.flatnonzero(seen)) for each in (cells, naive))
    bias = [float((each.moments()[0] - truth[seen]).mean()) for each in (learned, flat)]
    assert abs(bias[0]) < 0.6
    assert bias[1] > 4.0
    covered = [
        ((each.quantile(0.05) <= truth[seen]) & (truth[seen] <= each.quantile(0.95))).mean() for each in (learned, flat)
    ]
    assert covered[0] > 0.88
    assert covered[1] < 0.8


@pytest.mark.slow
def test_a_sum_of_many_small_counts_needs_the_learned_prior() -> None:
    """A flat prior on 0, 1, 2, ... adds the bias of every cell. Fails without reason with probability 1e-9."""
    rng = np.random.default_rng(23)
    truth = np.minimum(rng.zipf(2.0, 2000) - 1, 10**5)
    observed = add_noise(truth, "discrete-laplace", 4.0, rng)
    errors = []
    for power_law in (True, False):
        cells = noisy_cells(observed, "discrete-laplace", 4.0, power_law=power_law)
        quantity = Quantity(unchanged, 1, 1, np.arange(2000), np.zeros(2000, dtype=np.int64), FREE)
        summary = summarize(cells, quantity, 1000, 0.9, rng)
        errors.append(abs(float(summary.mean[0, 0] - truth.sum()) / float(summary.sd[0, 0])))
        if power_law:
            assert_uniform(ranks(cells, truth, rng))
    assert errors[0] < 6.1
    assert errors[1] > 20.0


def test_the_exponent_is_found() -> None:
    cells, _ = published("discrete-gaussian", 3.0, 20.0, listed=False, size=40_000)
    (prior,) = cells.priors
    assert abs(prior.mean - 2.0) < 6.1 * prior.sd  # 1e-9
    assert prior.sd < 0.15


def test_a_suppressed_cell_is_somewhere_below_the_threshold() -> None:
    cells, truth = published("discrete-laplace", 2.0, 30.0, listed=True, size=3000)
    (hidden,) = np.nonzero(np.isnan(cells.observed))
    each = lattices(cells, hidden[:1])
    assert each.quantile(0.99)[0] < 30
    assert each.moments()[0][0] == pytest.approx(truth[hidden].mean(), abs=1.0)


def test_noise_far_below_the_threshold_hardly_matters() -> None:
    """A count of 1,000 with noise of scale 2 is what it is, whatever is not published."""
    cells = noisy_cells([1000.0, 95.0, 400.0], "discrete-gaussian", 2.0, 90.0)
    means = lattices(cells, np.arange(3)).moments()[0]
    np.testing.assert_allclose(means, [1000.0, 95.0, 400.0], atol=0.4)
