"""``dpbayes explain``, ``models`` and ``mechanisms``: every registered name is listed and explained."""

from __future__ import annotations

from dpbayes_cli.core.registry import mechanism_names, model_names
from tests.conftest import Cli


def test_every_model_and_mechanism_is_listed_and_explained(dpbayes: Cli) -> None:
    assert [item["name"] for item in dpbayes("models", "--json").json] == model_names()
    assert [item["name"] for item in dpbayes("mechanisms", "--json").json] == mechanism_names()
    tables = dpbayes("models").out + dpbayes("mechanisms").out
    for name in (*model_names(), *mechanism_names()):
        assert name in tables
        info = dpbayes("explain", name, "--json").json
        assert {"name", "kind", "releases", "guarantee", "assumptions", "source", "corrections"} <= set(info)
        explained = " ".join(dpbayes("explain", name).out.split())
        assert explained.index("Prefer when:") < explained.index("Releases:")
        assert info["guarantee"].split(".")[0][:20] in explained


def test_a_list_that_is_given_a_name_says_how_to_explain_it(dpbayes: Cli) -> None:
    for group, name in (("models", "normal"), ("mechanisms", "laplace")):
        dpbayes(group, name).exits(2, f"dpbayes explain {name}")
