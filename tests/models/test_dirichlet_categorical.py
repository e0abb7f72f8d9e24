"""Dirichlet-categorical: concentrations by category."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.models.dirichlet_categorical import (
    DirichletCategorical,
    DirichletCategoricalDomain,
    DirichletCategoricalPrior,
)


def built(concentration: Any) -> DirichletCategorical:
    prior = msgspec.convert({"concentration": concentration}, DirichletCategoricalPrior)
    return DirichletCategorical.build(DirichletCategoricalDomain(categories=("yes", "no", "maybe")), prior)


def test_concentrations_are_those_of_categories_in_their_order() -> None:
    assert built({"maybe": 3, "yes": 1, "no": 2}).concentration == (1.0, 2.0, 3.0)
    assert built(0.5).concentration == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("concentration", "message"),
    [({"yes": 1, "no": 2, "mabye": 3}, "no category 'mabye'"), ({"yes": 1}, "no concentration for 'no', 'maybe'")],
)
def test_unknown_and_missing_categories_are_refused(concentration: dict[str, float], message: str) -> None:
    with pytest.raises(SpecError, match=message) as refused:
        built(concentration)
    assert refused.value.where == "prior.concentration"
