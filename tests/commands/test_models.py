"""``dpbayes models``: every registered model is listed; a name is for ``dpbayes explain``."""

from __future__ import annotations

from dpbayes_cli.core.registry import model_names
from tests.conftest import Cli


def test_every_model_is_listed_and_a_name_is_explained_elsewhere(dpbayes: Cli) -> None:
    assert [item["name"] for item in dpbayes("models", "--json").json] == model_names()
    table = dpbayes("models").out
    assert all(name in table for name in model_names())
    dpbayes("models", "normal").exits(2, "dpbayes explain normal")
