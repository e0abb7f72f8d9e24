"""``dpbayes explain``: every registered name is explained."""

from __future__ import annotations

from dpbayes_cli.core.registry import mechanism_names, model_names
from tests.conftest import Cli


def test_every_model_and_mechanism_is_explained(dpbayes: Cli) -> None:
    for name in (*model_names(), *mechanism_names()):
        info = dpbayes("explain", name, "--json").json
        assert {"name", "kind", "releases", "guarantee", "assumptions", "source", "corrections"} <= set(info)
        explained = " ".join(dpbayes("explain", name).out.split())
        assert explained.index("Prefer when:") < explained.index("Releases:")
        assert info["guarantee"].split(".")[0][:20] in explained
