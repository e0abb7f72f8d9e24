"""Private chains from the shell: the plan is charged, and its draws are sealed, written and shown again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes_cli.base.errors import VerificationError
from dpbayes_cli.bundle.document import parse_document
from dpbayes_cli.bundle.read import analysis_of, bundle_of, read_bundle
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.privacy.composition import parse_guarantee
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.spec.yaml_reader import read_spec_file
from dpbayes_cli.workflow.pricing import price
from tests.commands.networks import VARIABLES, people, release, spec_file
from tests.conftest import Cli, files_of
from tests.schemas import check_document

SEQUENCES, STEPS, N = 3, 4, 200
HMM: dict[str, Any] = {
    "model": "hmm",
    "mechanism": "gibbs",
    "domain": {
        "sequence": {"column": "place", "values": ["a", "b", "c"], "impute": "a"},
        "time": {"column": "month", "values": ["1", "2", "3", "4"], "impute": "1"},
        "features": {"kind": {"values": ["u", "v"], "impute": "u"}, "hurt": {"cuts": [1, 3], "impute": 0}},
        "states": 2,
    },
    "privacy": {"epsilon": 2},
    "sampling": {"sweeps": 20, "draws": 4},
}
MIXTURE: dict[str, Any] = {
    "model": "naive-bayes-mixture",
    "mechanism": "gibbs",
    "domain": {"variables": {name: VARIABLES[name] for name in ("kind", "flag", "age")}, "classes": 2},
    "privacy": {"epsilon": 2},
    "sampling": {"sweeps": 20, "draws": 4},
}


def events(path: Path) -> Path:
    """Records of places and months, some of their cells invalid."""
    rng = np.random.default_rng(4)
    lines = [
        f"{'abcx'[rng.integers(4)]},{rng.integers(1, 6)},{'uvw'[rng.integers(3)]},{rng.integers(0, 5)}"
        for _ in range(N)
    ]
    path.write_text("place,month,kind,hurt\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def data(place: Path, dpbayes: Cli) -> dict[str, Path]:
    for name in ("events", "people"):
        assert dpbayes("budget", "open", name, "--epsilon", "60", "--delta", "1e-4").code == 0
    return {"hmm": events(place / "events.csv"), "naive-bayes-mixture": people(place / "people.csv", N)}


@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize(
    ("spec", "kernel"),
    [
        pytest.param(HMM, "gibbs", id="hmm, gibbs"),
        pytest.param(MIXTURE, "annealed", id="mixture, annealed", marks=pytest.mark.slow),
    ],
)
def test_the_ledger_holds_what_was_planned(
    dpbayes: Cli, data: dict[str, Path], ledger_path: Path, spec: dict[str, Any], kernel: str
) -> None:
    """Plan, dry run, ledger and bundle state one guarantee; a repeated release shows the same draws, free."""
    spec = {**spec, "sampling": {"sweeps": 20, "draws": 2, "kernel": kernel}}
    file, out = data[spec["model"]], "out"
    planned = dpbayes("plan", "--spec", spec_file(spec), "--records", str(N), "--json").json
    dry = dpbayes("release", file, "--spec", spec_file(spec), "--dry-run", "--json").json
    assert dry["parameters"] == planned["parameters"]
    assert {"sweeps", "updates", "likelihood_power", "epsilon_per_update", "cost_of_chain"} <= planned[
        "parameters"
    ].keys()
    assert ("laplace_scale" in planned["parameters"]) == (spec["model"] == "hmm")
    assert release(dpbayes, file, spec).code == 0
    document = json.loads(Path(out, "release.json").read_text())
    check_document(document)
    assert document["parameters"] == planned["parameters"]
    assert document["guarantee"]["epsilon"] == planned["guarantee"]["epsilon"] == 2
    assert not document["inference"]["exact"]
    account = file.stem
    spent = dpbayes("budget", "show", account, "--json").json["accounts"][0]["spent"]
    assert float(spent["epsilon"]) <= 2
    (reserved,) = [entry for entry in Ledger(SqliteStorage(ledger_path)).entries() if "guarantee" in entry.fields]
    charged = parse_guarantee(reserved.fields["guarantee"])
    assert charged == price(build_spec(read_spec_file(Path("spec.yaml"))), N).plan.guarantee
    assert float(charged.rho) == planned["guarantee"]["rho"]
    before = files_of(out)
    again = release(dpbayes, file, spec, out="again")
    assert again.json["replayed"]
    assert files_of("again") == before
    assert dpbayes("budget", "show", account, "--json").json["accounts"][0]["spent"] == spent
    assert dpbayes("report", out, "--format", "html").code == 0


def test_states_are_sealed_released_and_described(dpbayes: Cli, data: dict[str, Path]) -> None:
    assert release(dpbayes, data["hmm"], HMM).code == 0
    bundle = read_bundle(Path("out"))
    document = bundle.document
    states = np.array(document.drawn_states)
    assert states.shape == (4, SEQUENCES * STEPS)
    probabilities = analysis_of(bundle).states
    assert probabilities is not None
    assert probabilities.shape == (SEQUENCES, STEPS, 2)
    np.testing.assert_allclose(probabilities[..., 1].ravel(), (states == 1).mean(axis=0))
    assert "with the states of all sequences at every step, and nothing else" in Path("out", "report.md").read_text()
    content = json.loads(Path("out", "release.json").read_text())
    for wrong in (states[:, 1:].tolist(), states[1:].tolist(), (states + 2).tolist()):
        with pytest.raises(VerificationError, match="states"):
            bundle_of(parse_document(json.dumps({**content, "drawn_states": wrong}).encode()))


def test_a_mixture_releases_no_class_of_a_record(dpbayes: Cli, data: dict[str, Path]) -> None:
    assert release(dpbayes, data["naive-bayes-mixture"], MIXTURE).code == 0
    content = json.loads(Path("out", "release.json").read_text())
    assert not {"states", "drawn_states"} & set(content)
    assert len(content["draws"]) == 4
    assert {len(draw) for draw in content["draws"]} == {2 * (3 + 2 + 4) + 2}
    assert content["parameters"]["memory"] >= 3 * N


def test_a_log_weight_is_paid_for_and_released(dpbayes: Cli, data: dict[str, Path]) -> None:
    sampling = {"sweeps": 20, "kernel": "annealed", "log_weight_epsilon": "0.5"}
    printed = release(dpbayes, data["hmm"], {**HMM, "sampling": sampling}).json
    content = json.loads(Path("out", "release.json").read_text())
    check_document(content)
    assert printed["guarantee"]["epsilon"] == 2
    assert content["guarantee"]["parts"][-1]["kind"] == "pure"
    assert content["guarantee"]["parts"][-1]["epsilon"] == 0.5
    assert isinstance(content["log_weight"], float)
    assert f"{content['log_weight']:.6g}" in Path("out", "report.md").read_text()
    assert content["parameters"]["log_weight_scale"] > 0
