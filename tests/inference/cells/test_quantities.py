"""Calibration of counts, rates, shares and sums of published tables. Each test fails without reason at 1e-9.

Truths are drawn from the flat prior on 0..M, with M far above the noise; only tables whose noisy counts are far below M
are judged, because there the flat prior on 0..M and the one on 0, 1, 2, ... give the same posterior.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpbayes_cli.inference.cells.count_lattices import NoisyCells, lattices
from dpbayes_cli.inference.cells.draw_cells import Links, draw_cells
from dpbayes_cli.inference.cells.quantities import (
    Quantity,
    Transform,
    difference,
    draw_quantity,
    probabilities,
    proportions,
    rate,
    summarize,
    unchanged,
)
from tests.conftest import often
from tests.inference.cells.cells import FREE, noisy_cells, with_total
from tests.statistical import assert_not_uniform, assert_uniform

LARGEST = 200


def add_noise(counts: np.ndarray, law: str, scale: float, rng: np.random.Generator) -> np.ndarray:
    if law == "discrete-laplace":
        success = -np.expm1(-1.0 / scale)
        return np.asarray(counts + rng.geometric(success, counts.shape) - rng.geometric(success, counts.shape))
    if law == "discrete-gaussian":
        z = np.arange(-12 * int(scale + 1), 12 * int(scale + 1) + 1)
        mass = np.exp(-((z / scale) ** 2) / 2)
        return np.asarray(counts + rng.choice(z, counts.shape, p=mass / mass.sum()))
    return np.asarray(counts + (rng.laplace if law == "laplace" else rng.normal)(0.0, scale, counts.shape))


def ranks(cells: NoisyCells, truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The probabilities of at most the true counts, each randomized over the probability of the true count."""
    each = lattices(cells, np.arange(len(truth)))
    assert (each.step == 1).all()
    column = np.clip(truth - each.first, 0, each.mass.shape[1] - 1)
    row = np.arange(len(truth))
    return np.asarray(each.cumulative[row, column] - rng.random(len(truth)) * each.mass[row, column])


@pytest.mark.parametrize("law", often(["discrete-laplace", "laplace", "discrete-gaussian", "gaussian"], 2))
def test_counts_are_calibrated_and_a_variance_taken_for_the_scale_is_noticed(law: str) -> None:
    rng = np.random.default_rng(11)
    truth = rng.integers(0, LARGEST, 20_000)
    observed = add_noise(truth, law, 3.0, rng)
    kept = observed < LARGEST - 70
    assert_uniform(ranks(noisy_cells(observed[kept], law, 3.0), truth[kept], rng))
    assert_not_uniform(ranks(noisy_cells(observed[kept], law, 9.0), truth[kept], rng))


def in_rows(n_rows: int, n_terms: int, transform: Transform, links: Links = FREE) -> Quantity:
    """A quantity of each row of a table whose columns are its terms."""
    cells = np.arange(n_rows * n_terms)
    row, column = cells % n_rows, cells // n_rows
    return Quantity(transform, n_rows, n_terms, cells, row * n_terms + column, links)


def tables(n_terms: int, law: str, rng: np.random.Generator, size: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    truth = rng.integers(0, LARGEST, (n_terms, size))
    observed = add_noise(truth, law, 3.0, rng)
    kept = (observed < LARGEST - 70).all(axis=0)
    return truth[:, kept], observed[:, kept]


def shares_of_draws_below(draws: np.ndarray, truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The ranks of true values among draws; ties count at random."""
    below, ties = (draws < truth).sum(axis=0), (draws == truth).sum(axis=0)
    return np.asarray((below + rng.random(truth.shape) * (ties + 1)) / (len(draws) + 1))


@pytest.mark.parametrize("law", often(["discrete-laplace", "gaussian"], 2))
@pytest.mark.parametrize("kind", often(["rate", "proportion", "share", "sum", "difference", "of"], 3))
def test_quantities_are_calibrated(law: str, kind: str) -> None:
    rng = np.random.default_rng(12)
    n_terms = 3 if kind == "share" else 2
    truth, observed = tables(n_terms, law, rng)
    if kind == "of":
        kept = truth[0] <= truth[1]
        truth, observed = truth[:, kept], observed[:, kept]
    n_rows = truth.shape[1]
    transform = {
        "rate": rate(probabilities, of_whole=False), "proportion": rate(proportions, of_whole=False),
        "share": probabilities, "sum": unchanged, "difference": difference, "of": rate(probabilities, of_whole=True),
    }[kind]  # fmt: skip
    links = Links((), np.arange(n_rows), n_rows + np.arange(n_rows)) if kind == "of" else FREE
    quantity = in_rows(n_rows, n_terms, transform, links)
    if kind == "sum":
        quantity = replace(quantity, n_terms=1, slots=quantity.cells % n_rows)
    cells = noisy_cells(observed.ravel(), law, 3.0)
    draws = np.concatenate([*draw_quantity(cells, quantity, 499, rng)], axis=1)
    exact = truth.T[None].astype(float)
    value = exact.sum(axis=2)[..., None] if kind == "sum" else transform(exact, rng)
    defined = ~np.isnan(value[0, :, 0])
    assert_uniform(shares_of_draws_below(draws, value[0], rng)[defined, 0])
    if kind == "rate":
        low, high = np.quantile(draws[..., 0], [0.05, 0.95], axis=0)
        coverage = ((low <= value[0, :, 0]) & (value[0, :, 0] <= high)).mean()
        assert 0.87 < coverage < 0.93


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize(
    ("size", "scale", "least"), [(20, 2.0, 0.875), (20, 4.0, 0.87), (5, 4.0, 0.83), (100, 4.0, 0.87)]
)
def test_intervals_of_rates_of_tables_that_the_prior_does_not_expect(size: float, scale: float, least: float) -> None:
    """Rates from Beta(4, 16), skewed sizes. Coverage was .910, .904, .875 and .905; the limits are 6 errors below."""
    rng = np.random.default_rng(17)
    truth = rng.beta(4.0, 16.0, 2500)
    records = rng.poisson(rng.gamma(1.5, size / 1.5, 2500))
    successes = rng.binomial(records, truth)
    observed = add_noise(np.stack([successes, records - successes]), "discrete-laplace", scale, rng)
    cells = noisy_cells(observed.ravel(), "discrete-laplace", scale)
    summary = summarize(cells, in_rows(2500, 2, rate(probabilities, of_whole=False)), 1000, 0.9, rng)
    assert least < ((summary.low[:, 0] <= truth) & (truth <= summary.high[:, 0])).mean() < 0.96


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize("law", ["discrete-laplace", "discrete-gaussian", "laplace", "gaussian"])
def test_counts_with_a_known_total_are_calibrated(law: str) -> None:
    """Four counts, uniformly drawn among those that add up to 30."""
    rng = np.random.default_rng(13)
    ranks = []
    for _ in range(600):
        bars = np.sort(rng.choice(33, 3, replace=False))
        truth = np.diff([-1, *bars, 33]) - 1
        cells = noisy_cells(add_noise(truth, law, 4.0, rng), law, 4.0)
        draws = draw_cells(cells, with_total(30, 0, 1, 2, 3), np.arange(4), 199, rng)
        ranks.append(shares_of_draws_below(draws, truth, rng)[0])
    assert_uniform(ranks)


def test_exact_counts_give_conjugate_posteriors() -> None:
    cells = noisy_cells([3.0, 7.0, 10.0, 0.0])
    cells = replace(cells, law=np.full(4, -1), scale=np.zeros(4))
    rng = np.random.default_rng(14)
    probability = summarize(cells, in_rows(2, 2, rate(probabilities, of_whole=False)), 40_000, 0.9, rng)
    np.testing.assert_allclose(probability.mean[:, 0], [4 / 15, 8 / 9], atol=0.004)
    proportion = summarize(cells, in_rows(2, 2, proportions), 100, 0.9, rng)
    np.testing.assert_allclose(proportion.mean, np.array([[3 / 13, 10 / 13], [1.0, 0.0]]), rtol=1e-12)
    assert (proportion.sd < 1e-12).all()
    empty = replace(cells, observed=np.zeros(4))
    assert np.isnan(summarize(empty, in_rows(2, 2, proportions), 100, 0.9, rng).mean).all()


def test_a_quantity_does_not_depend_on_how_its_groups_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = noisy_cells(np.arange(40.0), "gaussian", 3.0)
    quantity = replace(
        in_rows(40, 1, unchanged, with_total(900, *range(0, 40, 2))), slots=np.arange(40) // 2, n_groups=20
    )
    whole = summarize(cells, quantity, 4000, 0.9, np.random.default_rng(15))
    monkeypatch.setattr("dpbayes_cli.inference.cells.quantities._MAX_NUMBERS", 4000 * 7)
    parts = summarize(cells, quantity, 4000, 0.9, np.random.default_rng(15))
    np.testing.assert_allclose(parts.mean, whole.mean, atol=0.6)
    assert not whole.is_exact


def test_counts_that_nothing_links_are_exact() -> None:
    cells = noisy_cells([5.0, 90.0])
    summary = summarize(cells, in_rows(2, 1, unchanged), 100, 0.9, np.random.default_rng(16))
    assert summary.is_exact
    assert summary.mean[1, 0] == pytest.approx(90.0, abs=1e-9)
    assert (summary.low[1, 0], summary.high[1, 0]) == (85.0, 95.0)
