"""Every model of one parameter whose posterior can be drawn from, on the first of its examples."""

from __future__ import annotations

import pytest

from dpbayes_cli.models.families.capabilities import OneParameterFamily
from tests.test_conformance import ALL

ONE_PARAMETER = [
    pytest.param(instance.build(), instance.example.support, id=instance.kind.name)
    for instance in ALL
    if issubclass(instance.kind, OneParameterFamily) and instance.example is instance.kind.examples[0]
]
"""Models, each with the support of its example; None: its own."""
