"""Every model of one parameter whose posterior can be drawn from, on the first of its examples."""

from __future__ import annotations

import itertools

import pytest

from dpbayes_cli.models.families.capabilities import OneParameterFamily
from tests.test_conformance import ALL

ONE_PARAMETER = [
    pytest.param(instance.build(), instance.example.support, id=instance.kind.name)
    for instance in ALL
    if issubclass(instance.kind, OneParameterFamily) and instance.example is instance.kind.examples[0]
]
"""Models, each with the support of its example; None: its own."""


def sums(model: OneParameterFamily, n: int) -> list[int]:
    """The integer statistics of all data sets of n records, at the ends of the grid and one step from them."""
    _, _, steps = model.grid
    codes = sorted({0, 1, steps - 1, steps} & set(range(steps + 1)))
    return sorted({sum(records) for records in itertools.combinations_with_replacement(codes, n)})
