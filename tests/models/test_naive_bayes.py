"""Naive Bayes: every feature depends on the class alone, wherever the class stands, and what a record may change."""

from __future__ import annotations

from typing import Any

import pytest

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.plans import model_of

CLASS, FEATURES = {"t": {"values": ["p", "q", "r"]}}, {"x": {"values": ["1", "0"]}, "y": {"cuts": [1.0, 2.0]}}


@pytest.mark.parametrize(
    ("variables", "families", "names"),
    [
        ({**CLASS, **FEATURES}, ((0,), (0, 1), (0, 2)), ["theta[t=p]", "theta[x=1|t=p]"]),
        ({**FEATURES, **CLASS}, ((2, 0), (2, 1), (2,)), ["theta[x=1|t=p]", "theta[t=p]"]),
    ],
)
def test_features_depend_on_the_class_alone(variables: dict[str, Any], families: Any, names: list[str]) -> None:
    model = model_of("naive-bayes", {"target": "t", "variables": variables})
    assert model.network.families == families
    assert [name for name in model.parameters if name in names] == names
    for neighbors, sensitivity in ((Neighbors.REPLACE_ONE, 2 * 3), (Neighbors.ADD_REMOVE, 3)):
        assert model.statistic(RecordPolicy(neighbors)).sensitivity_l1 == sensitivity, "one cell of each table"
