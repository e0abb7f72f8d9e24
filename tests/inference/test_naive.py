from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbayes_cli.core.noisy_observation import NoisyCounts, RecordCount
from dpbayes_cli.inference.naive import naive_shape, project_on_simplex
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace


@given(st.lists(st.integers(-200, 200), min_size=1, max_size=6), st.integers(0, 300))
def test_the_projection_is_feasible_and_no_swap_comes_nearer(values: list[int], total: int) -> None:
    point = np.array(values, dtype=float)
    projected = project_on_simplex(point, total)
    assert projected.min() >= 0
    assert projected.sum() == pytest.approx(total, abs=1e-9)
    distance = ((projected - point) ** 2).sum()
    for i, j in itertools.permutations(range(len(values)), 2):
        moved = projected.copy()
        step = min(1e-3, moved[i])
        moved[i] -= step
        moved[j] += step
        assert ((moved - point) ** 2).sum() >= distance - 1e-9


@pytest.mark.parametrize(
    ("kind", "n", "observed", "expected"),
    [
        ("known", 10, (14, None), [11.0, 1.0]), ("known", 10, (-3, None), [1.0, 11.0]),
        ("at-most", 10, (-3, 4), [1.0, 5.0]), ("at-most", 10, (9, 5), [8.0, 4.0]),
        ("unbounded", 0, (-3, 500), [1.0, 501.0]), ("known", 10, (9, 5), [8.0, 4.0]),
    ],
)  # fmt: skip
def test_released_counts_are_projected_on_the_feasible_set(
    kind: str, n: int, observed: tuple[int | None, ...], expected: list[float]
) -> None:
    observation = NoisyCounts((1.0, 1.0), observed, DiscreteLaplace(1.0), RecordCount(kind, n))  # type: ignore[arg-type]
    np.testing.assert_allclose(naive_shape(observation), expected)


def test_the_naive_posterior_warns() -> None:
    observation = NoisyCounts((1.0, 1.0), (4, 5), DiscreteLaplace(1.0), RecordCount("at-most", 10))
    posterior = infer(observation, "naive", 100, np.random.default_rng(0))
    assert "too narrow" in posterior.warnings[0]
    assert posterior.marginals[0].sd_noise == 0.0
    assert posterior.marginals[0].mean == pytest.approx(5 / 11)
