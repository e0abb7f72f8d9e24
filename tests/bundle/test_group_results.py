"""Which groups a result lists."""

from __future__ import annotations

import numpy as np
import pytest

from dpbayes_cli.bundle.report.group_results import extreme_groups
from dpbayes_cli.inference.groups.grouped_posterior import LargerSummary


@pytest.mark.parametrize(("n", "listed"), [(3, ["a", "b", "c"]), (11, ["a", "c"])])
def test_few_groups_are_all_listed_and_of_many_those_that_differ(n: int, listed: list[str]) -> None:
    means = np.array([0.9, 0.5, 0.1] + [0.5] * 8)[:n, None]
    quantiles = means[:, :, None] + np.array([-0.1, 0.0, 0.1])
    groups = LargerSummary(means, np.full((n, 1), 0.05), quantiles, means)
    (extreme,) = extreme_groups("abcdefghijk"[:n], ["theta"], groups, np.full(n, 20.0))
    assert [group.key for group in (*extreme.highest, *extreme.lowest[::-1])] == listed
    assert (extreme.n_above, extreme.n_below) == (1, 1)
