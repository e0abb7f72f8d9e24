"""Tabulated functions against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erfcx

from dpbayes_cli.inference.groups.tabulated import scaled_erfc


@pytest.mark.parametrize(("kind", "error"), [(np.float64, 1e-10), (np.float32, 4e-7)])
def test_tabulated_functions_are_those_of_scipy(kind: type, error: float) -> None:
    x = np.concatenate([np.linspace(0.0, 700.0, 70_001), np.geomspace(1e-9, 1e12, 2000)]).astype(kind)
    np.testing.assert_allclose(scaled_erfc(x), erfcx(x.astype(np.float64)), rtol=error)
