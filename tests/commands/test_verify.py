"""Untouched bundles verify, and changed ones do not."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import Cli, cpu_limit

COIN = ("--model", "beta-bernoulli")
REQUESTS = {
    "laplace": (*COIN, "--eps", "1"),
    "gaussian": (*COIN, "--mechanism", "gaussian", "--rho", "0.1"),
    "mu": (*COIN, "--mechanism", "gaussian", "--mu", "0.6"),
    "add-remove": (*COIN, "--eps", "1", "--neighbors", "add-remove"),
    "imputed": (*COIN, "--eps", "1", "--on-invalid", "impute:0", "--samples", "7"),
    "draws": (*COIN, "--mechanism", "ops", "--eps", "1", "--draws", "3", "--on-invalid", "impute:0"),
    "estimate": (*COIN, "--mechanism", "map", "--eps", "1", "--on-invalid", "impute:0"),
    "curve": (*COIN, "--mechanism", "rdp-diffuse", "--eps", "1", "--order", "2", "--on-invalid", "impute:0"),
    "private bounds": (
        "--model", "normal", "--column", "x", "--eps", "1", "--bounds-epsilon", "1", "--bounds-low", "0",
        "--bounds-high", "4", "--samples-format", "csv",
    ),
    "categories": ("--model", "dirichlet-categorical", "--categories", "0,1,2", "--eps", "0.5", "--unit", "x"),
}  # fmt: skip


def budget(name: str) -> tuple[str, ...]:
    return {
        "gaussian": ("--rho", "1"), "mu": ("--mu", "1"), "curve": ("--rdp", "3", "--order", "2"),
        "categories": ("--epsilon", "3", "--unit", "x"),
        "add-remove": ("--epsilon", "3", "--neighbors", "add-remove"),
    }.get(name, ("--epsilon", "3"))  # fmt: skip


def released(dpbayes: Cli, coin: Path, name: str = "laplace") -> Path:
    assert dpbayes("budget", "open", "coin", *budget(name)).code == 0
    dpbayes("release", coin, *REQUESTS[name], "--out", "out").exits(0)
    return Path("out")


SLOW = {"private bounds"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in REQUESTS])
def test_an_untouched_bundle_verifies_and_a_changed_draw_does_not(name: str, dpbayes: Cli, coin: Path) -> None:
    released(dpbayes, coin, name)
    coin.unlink()
    done = dpbayes("verify", "out", "--json").exits(0)
    assert done.json["ok"]
    assert done.json["unchecked"] == []
    dpbayes("verify", "out", "--no-ledger", "--ledger", "elsewhere.db").exits(2)
    dpbayes("verify", "out", "--no-ledger").exits(0, "not checked: whether a ledger charged this release")
    text = dpbayes("verify", "out").out
    assert "- the ledger is consistent; its entry 2 charged this release" in text
    for change, finding in TAMPERED_DRAWS.get(name, []):
        check_tampered(dpbayes, change, finding)


def document(change: Callable[[dict[str, Any]], None]) -> None:
    path = Path("out/release.json")
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def put(*keys: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


TAMPERED = {
    "guarantee": (put("guarantee", "epsilon", value=0.5), "guarantee: it does not follow"),
    "cost of the request": (put("spec", "privacy", "epsilon", value="0.5"), "noise: it is not the noise law that"),
    "noise": (put("noise", "scale", value=1.0), "noise: it is not the noise law that"),
    "noise of one": (put("statistics", 0, "noise_scale", value=1.0), "noise: it is not the noise law that"),
    "no noise": (put("statistics", 0, "noise_scale", value=0.0), "noise: it is not the noise law that"),
    "sensitivity": (put("sensitivity_l1", value=1), "sensitivity_l1: it does not follow"),
    "a statistic": (put("statistics", 0, "value", value=100), "posterior: it does not follow"),
    "an impossible statistic": (put("statistics", 0, "value", value=600), "is impossible: no data and noise"),
    "a negative one": (put("statistics", 1, "value", value=-400), "is impossible: no data and noise"),
    "neighbors": (put("guarantee", "neighbors", value="add-remove"), "guarantee: it does not follow"),
    "records": (put("n_records", value=100), "release.json: it is not the file"),
    "private records": (put("n_records", value=None), "does not hold the statistics that its spec asks for"),
    "assumption": (put("assumptions", value=[]), "assumptions: it does not follow"),
    "posterior": (put("posterior", "theta", "sd", value=0.001), "posterior: it does not follow"),
    "width": (put("width", "theta", "sd_noise", value=0.0), "width: it does not follow"),
    "unknown field": (put("exact", value=60), "not a valid release document"),
    "hidden field": (put("parameters", "exact_count", value=60), "parameters: it does not follow"),
    "hidden software": (put("software", "exact", value="60"), "software: the list of packages differs"),
    "record": (put("record_unit", value="household"), "record_unit: it is not one of physical line, row"),
    "moment": (put("created", value="patient 17"), "created: it is not a time"),
    "entry": (put("ledger", "sequence", value=1), "another entry charged this release"),
    "account": (put("account", value="other"), "does not know release"),
    "id": (put("release_id", value="0" * 16), "does not know release"),
    "prior": (put("spec", "prior", "alpha", value=2.0), "the ledger charged another release request"),
    "unpriceable": (put("spec", "privacy", "epsilon", value="0"), "holds no valid spec"),
}  # fmt: skip


def check_tampered(dpbayes: Cli, change: Callable[[dict[str, Any]], None], finding: str) -> None:
    """Check that ``verify`` finds a change of the document, then undo the change."""
    path = Path("out/release.json")
    whole = path.read_bytes()
    document(change)
    done = dpbayes("verify", "out")
    assert (done.code, done.out) == (7, "")
    assert finding in done.err
    path.write_bytes(whole)


def taking_out(name: str) -> Callable[[dict[str, Any]], None]:
    def change(stated: dict[str, Any]) -> None:
        del stated[name]

    return change


def test_changed_document_does_not_verify(dpbayes: Cli, coin: Path) -> None:
    released(dpbayes, coin)
    whole = Path("out/release.json").read_bytes()
    for name in ("valid_records", "results"):
        document(taking_out(name))
        dpbayes("verify", "out", "--no-ledger").exits(7, f"{name}: it is missing")
    document(put("software", "dpbayes", value="0.3.0"))
    messages = dpbayes("verify", "out", "--no-ledger").err
    assert "valid_records" not in messages, "version 0.3 had no such key"
    assert "results: " not in messages, "version 0.3 had no such key"
    Path("out/release.json").write_bytes(whole)
    for change, finding in TAMPERED.values():
        check_tampered(dpbayes, change, finding)


TAMPERED_DRAWS = {
    "draws": [
        (put("draws", 0, 0, value=0.05), "draws: some are impossible under their law"),
        (put("draws", value=[[0.5]]), "draws: release.json must hold 3, as many as were paid for"),
        (put("draws", value=[[0.5]] * 50), "draws: release.json must hold 3, as many as were paid for"),
    ],
    "estimate": [(put("draws", 0, 0, value=0.5123456789), "draws: some are impossible under their law")],
    "curve": [(put("draws", 0, 0, value=-0.5), "draws: some are impossible under their law")],
    "private bounds": [(put("bounds", "lower", value=-1.0), "release.json")],
    "add-remove": [(put("n_records", value=200), "does not hold the statistics that its spec asks for")],
}


def test_changed_missing_and_extra_files_do_not_verify(dpbayes: Cli, coin: Path) -> None:
    bundle = released(dpbayes, coin)
    for name in ("report.md", "samples.parquet", "statistics.csv"):
        content = (bundle / name).read_bytes()
        for other in (content + b" ", content[:-1], None):
            (bundle / name).unlink()
            if other is not None:
                (bundle / name).write_bytes(other)
            for more in ((), ("--no-ledger",)):
                done = dpbayes("verify", "out", *more, "--json").exits(7)
                assert any(text.startswith(name) for text in json.loads(done.out)["findings"])
            (bundle / name).write_bytes(content)
        (bundle / name).rename("elsewhere")
        (bundle / name).symlink_to(Path("elsewhere").absolute())
        assert f"{name} is missing, or is not a regular file" in dpbayes("verify", "out").err
        Path("elsewhere").replace(bundle / name)
    assert dpbayes("verify", "out").code == 0
    (bundle / "exact.csv").write_text("60")
    assert "'exact.csv' does not belong to the bundle" in dpbayes("verify", "out").err


def test_a_file_far_larger_than_its_description_permits_is_not_read(dpbayes: Cli, coin: Path) -> None:
    """The bytes of another version are not known, but their largest number is; 100 GB would take minutes to read."""
    bundle = released(dpbayes, coin)
    size = 100 << 30
    for name in ("samples.parquet", "report.md"):
        os.truncate(bundle / name, size)
    with cpu_limit(30.0):
        assert dpbayes("release", coin, *REQUESTS["laplace"], "--out", "out").code == 8
    for version in (None, "0.0.1"):
        if version is not None:
            document(put("software", "dpbayes", value=version))
        with cpu_limit(30.0):
            done = dpbayes("verify", "out", "--no-ledger").exits(7)
        for name in ("samples.parquet", "report.md"):
            assert f"{name} has {size} bytes; the largest possible size is" in done.err
    os.truncate(bundle / "release.json", size)
    with cpu_limit(30.0):
        dpbayes("verify", "out", "--no-ledger").exits(7, "'release.json' is larger")


def test_bundle_that_the_ledger_did_not_charge_or_publish_does_not_verify(
    dpbayes: Cli, coin: Path, monkeypatch: pytest.MonkeyPatch, ledger_path: Path
) -> None:
    released(dpbayes, coin)
    dpbayes("verify", "out", "--ledger", "nowhere.db").exits(6, "--no-ledger")
    assert not Path("nowhere.db").exists()
    dpbayes("release", coin, *COIN, "--eps", "2", "--out", "other", "--ledger", "second.db")
    assert "does not know release" in dpbayes("verify", "out", "--ledger", "second.db").err
    with monkeypatch.context() as stopped:
        stopped.setattr("dpbayes_cli.ledger.ledger.Ledger.publish", lambda *_: 1 / 0)
        assert dpbayes("release", coin, *COIN, "--eps", "0.25", "--out", "open").code == 1
    assert "has not published this release" in dpbayes("verify", "open").err
    assert dpbayes("release", coin, *COIN, "--eps", "0.25", "--out", "open").code == 0
    assert dpbayes("verify", "open").code == 0
    assert dpbayes("verify", "nothing").code == 8
    ledger_path.chmod(0o600)
    content = ledger_path.read_bytes()
    ledger_path.write_bytes(content.replace(b'"time":"2', b'"time":"3', 1))
    assert "the ledger: entry" in dpbayes("verify", "open").err


def test_bundles_of_other_library_versions_verify_with_a_note(dpbayes: Cli, coin: Path) -> None:
    bundle = released(dpbayes, coin)
    document(put("software", "numpy", value="1.0.0"))
    document(put("posterior", "theta", "sd", value=0.0354321))
    report = dpbayes("report", "out").out
    (bundle / "report.md").write_text(report, "utf-8")
    samples = pq.read_table(bundle / "samples.parquet")
    pq.write_table(pa.table({"theta": pa.array([0.25] * samples.num_rows)}), bundle / "samples.parquet")
    dpbayes("verify", "out", "--no-ledger").exits(
        0, "not checked: the digits of posterior, width, states, inference and samples"
    )
    for other in ({"x": [1.0] * samples.num_rows}, {"theta": [1.0]}, {"theta": [math.nan] * samples.num_rows}):
        pq.write_table(pa.table(other), bundle / "samples.parquet")
        assert "its parameters or its number of samples are wrong" in dpbayes("verify", "out", "--no-ledger").err
    (bundle / "samples.parquet").write_bytes(coin.read_bytes())
    assert "its parameters or its number of samples are wrong" in dpbayes("verify", "out", "--no-ledger").err
    pq.write_table(samples, bundle / "samples.parquet")
    document(put("inference", "method", value="naive"))
    assert "inference.method" in dpbayes("verify", "out", "--no-ledger").err
    document(put("inference", "method", value="noise-aware"))
    (bundle / "report.md").write_text(dpbayes("report", "out").out, "utf-8")
    document(put("software", "dpbayes", value="0.0.1"))
    document(put("assumptions", value=["as it was put then"]))
    older = dpbayes("verify", "out", "--no-ledger").exits(0, "the words of assumptions, corrections and report")
    assert "assumptions" not in older.out
    document(put("guarantee", "epsilon", value=0.5))
    assert dpbayes("verify", "out", "--no-ledger").code == 7
