"""``dpbayes mechanisms``: every registered mechanism is listed; a name is for ``dpbayes explain``."""

from __future__ import annotations

from dpbayes_cli.core.registry import mechanism_names
from tests.conftest import Cli


def test_every_mechanism_is_listed_and_a_name_is_explained_elsewhere(dpbayes: Cli) -> None:
    assert [item["name"] for item in dpbayes("mechanisms", "--json").json] == mechanism_names()
    table = dpbayes("mechanisms").out
    assert all(name in table for name in mechanism_names())
    dpbayes("mechanisms", "laplace").exits(2, "dpbayes explain laplace")
