"""Tabulated functions against SciPy's."""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx

from dpbayes_cli.inference.groups.tabulated import exp_minus, scaled_erfc


def test_tabulated_functions_are_those_of_scipy() -> None:
    x = np.concatenate([np.linspace(0.0, 700.0, 70_001), np.geomspace(1e-9, 1.0, 1000)])
    np.testing.assert_allclose(exp_minus(x), np.exp(-x), rtol=3e-9)
    np.testing.assert_allclose(exp_minus(np.array([800.0, 1e9])), 0.0, atol=1e-300)
    x = np.concatenate([x, np.geomspace(700.0, 1e12, 1000)])
    np.testing.assert_allclose(scaled_erfc(x), erfcx(x), rtol=1e-10)
