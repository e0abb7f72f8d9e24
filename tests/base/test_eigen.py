"""Eigenvalues of symmetric matrices, also where the usual method fails to converge."""

from __future__ import annotations

import numpy as np
import pytest

from dpbayes_cli.base.eigen import eigh


def fail(_: object) -> None:
    raise np.linalg.LinAlgError("Eigenvalues did not converge")


@pytest.mark.parametrize("shape", [(5, 5), (2, 3, 4, 4)])
def test_a_second_method_takes_over(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    matrices = np.random.default_rng(1).normal(size=shape)
    matrices = matrices + matrices.swapaxes(-1, -2)
    expected = np.linalg.eigh(matrices)[0]
    monkeypatch.setattr(np.linalg, "eigh", fail)
    values, vectors = eigh(matrices)
    assert values == pytest.approx(expected)
    assert (vectors * values[..., None, :]) @ vectors.swapaxes(-1, -2) == pytest.approx(matrices)


def test_a_matrix_that_is_not_finite_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np.linalg, "eigh", fail)
    with pytest.raises(np.linalg.LinAlgError):
        eigh(np.full((2, 2), np.nan))
