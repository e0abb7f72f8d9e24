"""Releases that an earlier version charged at the cost of randomized response keep this cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from dpbayes_cli.api.released import load_bundle
from dpbayes_cli.bundle.read import read_bundle
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.workflow import release as workflow
from dpbayes_cli.workflow.reporting import build_report_context
from tests.conftest import Cli

COIN = ["coin.csv", "--model", "beta-bernoulli", "--eps", "1"]


@pytest.fixture
def earlier(place: Path) -> Iterator[pytest.MonkeyPatch]:
    """Charge the pure epsilon alone, as earlier versions did, until the patch is undone."""
    (place / "coin.csv").write_text("x\n" + "1\n0\n" * 50)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PureDP, "at_most", lambda _self, epsilon: PureDP(epsilon))
        yield patched


def test_a_release_at_the_former_cost_is_shown_again_and_verified(dpbayes: Cli, earlier: pytest.MonkeyPatch) -> None:
    before, charged = dpbayes("release", *COIN, "--out", "before", "--json").json, PureDP(Decimal(1))
    earlier.undo()
    again = dpbayes("release", *COIN, "--out", "again", "--json").json
    assert (again["release_id"], again["replayed"]) == (before["release_id"], True)
    assert dpbayes("verify", "before").code == dpbayes("verify", "again").code == 0
    assert load_bundle("before").guarantee == build_report_context(read_bundle(Path("before"))).guarantee == charged
    fresh = dpbayes("release", *COIN, "--fresh", "--out", "fresh", "--json").json
    assert (before["guarantee"].get("rho"), fresh["guarantee"]["rho"]) == (None, 0.25)
    assert dpbayes("verify", "fresh").code == 0


@pytest.mark.parametrize("fresh", [[], ["--fresh"]])
def test_what_was_charged_at_the_former_cost_is_finished_at_it(
    dpbayes: Cli, earlier: pytest.MonkeyPatch, fresh: list[str]
) -> None:
    with earlier.context() as killed:
        killed.setattr(workflow, "sealed_draw", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        assert dpbayes("release", *COIN, *fresh, "--out", "out").code != 0
    earlier.undo()
    earlier.setattr("dpbayes_cli.ledger.charging.is_running", lambda _owner: False)
    done = dpbayes("release", *COIN, *fresh, "--out", "out", "--json").json
    assert done["remaining"] == {"epsilon": "2"}
    assert "rho" not in json.loads(Path("out/release.json").read_text())["guarantee"]
    assert dpbayes("verify", "out").code == 0


def test_a_bundle_that_states_another_cost_than_the_ledger_does_not_verify(
    dpbayes: Cli, earlier: pytest.MonkeyPatch
) -> None:
    earlier.undo()
    assert dpbayes("release", *COIN, "--out", "out").code == 0
    path = Path("out/release.json")
    document = json.loads(path.read_text())
    del document["guarantee"]["rho"]
    path.write_text(json.dumps(document))
    assert dpbayes("verify", "out").code == 7
