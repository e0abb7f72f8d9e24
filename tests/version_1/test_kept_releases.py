"""What was released as version 1 verifies, is shown, analyzed and finished as before."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dpbayes_cli import __version__
from dpbayes_cli.bundle.document import parse_document
from tests.conftest import Cli
from tests.version_1.kept import COIN, DATA, PUBLISHED, kept

__all__ = ["kept"]
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("hmm", "minami", "walk")]
FAST = [name for name in PUBLISHED if name not in {"hmm", "minami", "walk"}]


def test_a_document_of_version_1_is_read_with_todays_names_and_written_as_it_was() -> None:
    schema = jsonschema.Draft202012Validator(json.loads((DATA / "release.schema.json").read_text()))
    for name in PUBLISHED:
        content = (DATA / name / "release.json").read_bytes()
        document = parse_document(content)
        assert document.pretty() == content
        assert json.loads(document.payload()) == json.loads(content)
        schema.validate(json.loads(document.payload()))
        keys = {*document.parameters, *document.spec["sampling"], *document.spec["inference"]}
        assert bool(keys & {"likelihood_power", "mcmc_sweeps"}) == (name != "laplace")
        assert not keys & {"temperature", "temper", "rho", "step", "steps", "n_max"}


def test_a_variable_keeps_its_name_whatever_it_is() -> None:
    document = parse_document((DATA / "network" / "release.json").read_bytes())
    assert set(document.parameters["tables"]) == {"temperature", "cough"}
    assert all("likelihood_power" in table for table in document.parameters["tables"].values())


@pytest.mark.parametrize("name", [*FAST, *SLOW])
def test_a_bundle_of_version_1_verifies_and_is_reported(name: str, kept: Path, dpbayes: Cli) -> None:
    done = dpbayes("verify", name)
    assert done.code == 0, done.out + done.err
    assert "the ledger is consistent; its entry" in done.out
    assert "not checked: the words of assumptions" in done.err
    document = kept / name / "release.json"
    document.write_bytes(document.read_bytes().replace(b'"schema_version": 1', b'"schema_version": 2', 1))
    assert dpbayes("verify", name).code == 7


def test_words_are_those_of_another_version_whatever_version_a_bundle_names(kept: Path, dpbayes: Cli) -> None:
    """Documents of version 1 were written while the version of the software was today's, too."""
    document = kept / "laplace" / "release.json"
    stated = document.read_text().replace('"dpbayes": "0.1.0"', f'"dpbayes": "{__version__}"')
    document.write_text(stated.replace("Neighboring data sets", "Neighbouring data sets"))
    done = dpbayes("verify", "laplace", "--no-ledger")
    assert (done.code, "not checked: the words of assumptions" in done.err) == (0, True)


def test_bundles_of_version_1_are_reported_and_analyzed(kept: Path, dpbayes: Cli) -> None:
    for name in ("laplace", "ops", "chain", "network"):
        shown = dpbayes("report", name)
        assert (shown.code, "likelihood_power" in shown.out) == (0, name in {"ops", "chain", "network"})
    again = dpbayes("infer", "laplace", "--samples", "7", "--prior", "alpha=3", "--json")
    assert again.json["inference"]["samples"] == 7
    (kept / "new.csv").write_text("temperature\nlow\nhigh\n")
    assert dpbayes("predict", "network", "new.csv").code == 0


def test_a_ledger_of_version_1_shows_what_it_showed(kept: Path, dpbayes: Cli) -> None:
    accounts = {each["account"]: each for each in dpbayes("budget", "show", "--json").json["accounts"]}
    assert {name: each["remaining"] for name, each in accounts.items() if "epsilon" in each["remaining"]} == {
        "coin": {"epsilon": "4.5"}, "ward": {"epsilon": "6"}, "log": {"epsilon": "4"},
    }  # fmt: skip
    assert dpbayes("budget", "history").code == 0
    assert dpbayes("budget", "verify").code == 0


@pytest.mark.parametrize("name", [*FAST, *SLOW])
def test_a_published_release_is_shown_again_for_nothing(name: str, kept: Path, dpbayes: Cli) -> None:
    """Into its place, where the files stand as they were published, and into a new one."""
    before = dpbayes("budget", "show", "--json").json
    for out in (name, "again"):
        done = dpbayes("release", "-", "--spec", f"{name}.yaml", "--out", out)
        assert done.code == 0, done.err
        assert "shown again, and the data were not opened" in done.err
        assert (kept / out / "release.json").read_bytes() == (DATA / name / "release.json").read_bytes()
    checked = dpbayes("verify", "again")
    assert checked.code == 0, checked.err
    assert "not checked: the digests that the ledger recorded of report.md" in checked.err
    (kept / "again" / "report.md").write_text("changed")
    changed = dpbayes("verify", "again")
    assert (changed.code, "report.md: it is not the file that the ledger recorded" in changed.err) == (7, True)
    assert [each["remaining"] for each in dpbayes("budget", "show", "--json").json["accounts"]] == [
        each["remaining"] for each in before["accounts"]
    ]


@pytest.mark.parametrize(("name", "data"), [("reserved", COIN), ("sealed", b"")], ids=("reserved", "sealed"))
def test_a_release_that_had_begun_is_finished_for_what_it_was_charged(
    name: str, data: bytes, kept: Path, dpbayes: Cli
) -> None:
    before = dpbayes("budget", "show", "--json").json
    done = dpbayes("release", "-", "--spec", f"{name}.yaml", "--out", "out", stdin=data)
    assert done.code == 0, done.err
    document = json.loads((kept / "out" / "release.json").read_bytes())
    assert document["schema_version"] == 2
    assert {"likelihood_power"} <= document["parameters"].keys()
    assert dpbayes("verify", "out").code == 0
    assert [each["remaining"] for each in dpbayes("budget", "show", "--json").json["accounts"]] == [
        each["remaining"] for each in before["accounts"]
    ]
