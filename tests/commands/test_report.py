"""``dpbayes report``: what is printed, written and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, files_of

COIN = ["--model", "beta-bernoulli", "--eps", "1"]
FIGURES = ["density-0.svg", "privacy-curve.svg", "renyi-curve.svg"]


@pytest.fixture
def bundle(dpbayes: Cli, coin: Path) -> Path:
    """A bundle whose data file is deleted."""
    assert dpbayes("release", coin, *COIN, "--out", "out").code == 0
    coin.unlink()
    return Path("out")


def test_markdown_is_the_report_of_the_bundle(dpbayes: Cli, bundle: Path, ledger_path: Path) -> None:
    before = ledger_path.read_bytes(), files_of(bundle)
    shown = dpbayes("report", bundle)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == (bundle / "report.md").read_text()
    assert dpbayes("report", bundle, "--format", "markdown").out == shown.out
    assert dpbayes("report", bundle, "--format", "html").out.startswith("<!DOCTYPE html>")
    assert (ledger_path.read_bytes(), files_of(bundle)) == before


@pytest.mark.usefixtures("without_figures")
def test_a_file_is_written_whole_and_for_its_owner(dpbayes: Cli, bundle: Path, place: Path) -> None:
    done = dpbayes("report", bundle, "--out", "page.html")
    assert (done.code, done.out, done.err) == (0, "", "wrote page.html\n")
    assert Path("page.html").read_text() == dpbayes("report", bundle, "--format", "html").out
    assert Path("page.html").stat().st_mode & 0o777 == 0o600
    assert dpbayes("report", bundle, "--out", "page.txt").code == 0
    assert Path("page.txt").read_text() == (bundle / "report.md").read_text()
    shown = dpbayes("report", bundle, "--json").json
    assert (shown["report"], shown["format"], shown["out"]) == (Path("page.txt").read_text(), "markdown", None)
    written = dpbayes("report", bundle, "--out", "again.html", "--json").json
    assert (written["format"], written["out"], written["report"]) == ("html", "again.html", None)
    assert written["release_id"] == json.loads((bundle / "release.json").read_text())["release_id"]
    assert sorted(path.name for path in place.iterdir()) == ["again.html", "out", "page.html", "page.txt"]


@pytest.mark.usefixtures("without_figures")
def test_nothing_is_replaced_and_no_bundle_is_changed(dpbayes: Cli, bundle: Path) -> None:
    Path("taken.html").write_text("precious")
    names = sorted(bundle.iterdir())
    for out in ("taken.html", "out", "out/report.html", "taken.html/page.html"):
        done = dpbayes("report", bundle, "--format", "html", "--out", out)
        assert (done.code, done.out) == (8, "")
    assert Path("taken.html").read_text() == "precious"
    assert sorted(bundle.iterdir()) == names


def test_plots_are_written_as_svg_files(dpbayes: Cli, bundle: Path) -> None:
    done = dpbayes("report", bundle, "--format", "svg", "--out", "figures")
    assert (done.code, done.out, done.err) == (0, "", "wrote 3 figures to figures\n")
    assert sorted(path.name for path in Path("figures").iterdir()) == FIGURES
    path = Path("figures/density-0.svg")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes().startswith(
        b'<?xml version="1.0" encoding="utf-8"?>\n<svg xmlns="http://www.w3.org/2000/svg"'
    )
    written = dpbayes("report", bundle, "--format", "svg", "--out", "again", "--json").json
    assert (written["figures"], written["report"], written["out"]) == (
        ["density-0.svg", "privacy-curve.svg", "renyi-curve.svg"],
        None,
        "again",
    )
    assert Path("again/density-0.svg").read_bytes() == path.read_bytes()
    dpbayes("report", bundle, "--format", "svg", "--interval", "0.5", "--out", "half")
    assert "50 % between" in Path("half/density-0.svg").read_text()
    for out in ("figures", "out", "out/figures", "out/release.json/figures"):
        assert dpbayes("report", bundle, "--format", "svg", "--out", out).code == 8
    assert sorted(path.name for path in Path("figures").iterdir()) == FIGURES


def test_release_of_one_estimate_has_only_plots_of_its_guarantee(dpbayes: Cli, coin: Path) -> None:
    assert dpbayes("release", coin, *COIN, "--mechanism", "map", "--on-invalid", "impute:0", "--out", "out").code == 0
    assert dpbayes("report", "out", "--format", "svg", "--out", "figures").code == 0
    assert sorted(path.name for path in Path("figures").iterdir()) == ["privacy-curve.svg", "renyi-curve.svg"]


DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no parameter": lambda document: document["posterior"].clear(),
    "another parameter": lambda document: document["posterior"].update(other=document["posterior"]["theta"]),
    "another width": lambda document: document["width"].update(other=document["width"]["theta"]),
    "no statistics": lambda document: document.update(statistics=[]),
    "a missing statistic": lambda document: document["statistics"].pop(),
    "another statistic": lambda document: document["statistics"][0].update(name="other"),
    "a statistic beyond 64 bits": lambda document: document["statistics"][0].update(value=2**70),
    "another model": lambda document: document["spec"].update(model="x"),
    "no prior": lambda document: document["spec"].pop("prior"),
    "an impossible prior": lambda document: document["spec"]["prior"].update(alpha=5e-324),
    "no number of records": lambda document: document.update(n_records=None),
    "a negative number of records": lambda document: document.update(n_records=-1),
    "a scale beyond all counts": lambda document: document["noise"].update(scale=1e308),
    "draws beside statistics": lambda document: document.update(draws=[[0.5, 0.5]]),
    "empty draws": lambda document: document.update(draws=[[]], noise=None, statistics=[]),
    "half a curve": lambda document: document["guarantee"].update(rdp=[[2.0]]),
    "an unknown key": lambda document: document.update(more=1),
}


@pytest.mark.usefixtures("without_figures")
def test_page_shows_the_budget_before_and_after(dpbayes: Cli, coin: Path, ledger_path: Path) -> None:
    for name in ("first", "second", "third"):
        assert dpbayes("release", coin, *COIN[:3], "0.75", "--release-id", name, "--out", name).code == 0
    assert dpbayes("budget", "amend", "coin", "--epsilon", "5", "--reason", "more").code == 0
    page = dpbayes("report", "second", "--format", "html").out
    row = '<tr><th scope="row">epsilon</th>' + "".join(
        f'<td class="number">{amount}</td>' for amount in ("3", "0.75", "1.5", "1.5")
    )
    assert row in page
    assert "This is release number 2" in page
    assert "it was charged epsilon 0.75" in page
    assert page == dpbayes("report", "second", "--format", "html", "--ledger", ledger_path).out
    hidden = dpbayes("report", "second", "--format", "html", "--no-ledger").out
    assert "The budget before and after this release is not known. No ledger was given." in hidden
    assert "spent before" not in hidden
    for path in Path("second").iterdir():
        assert b"spent before" not in path.read_bytes()


@pytest.mark.usefixtures("without_figures")
def test_page_says_why_the_budget_is_not_known(
    dpbayes: Cli, coin: Path, bundle: Path, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = json.loads((bundle / "release.json").read_text())
    other = str(ledger_path.with_name("other.sqlite"))
    monkeypatch.setenv("DPBAYES_LEDGER", other)
    assert "No ledger was found." in dpbayes("report", bundle, "--format", "html").out
    assert dpbayes("report", bundle, "--format", "html", "--ledger", other).code == 6
    assert not Path(other).exists()
    assert dpbayes("budget", "open", "x", "--epsilon", "1").code == 0
    assert "does not know this release" in dpbayes("report", bundle, "--format", "html").out
    monkeypatch.setenv("DPBAYES_LEDGER", str(ledger_path))
    entry["ledger"]["sequence"] += 1
    (bundle / "release.json").write_text(json.dumps(entry))
    assert "in another entry than the bundle states" in dpbayes("report", bundle, "--format", "html").out
    ledger_path.write_bytes(b"no ledger" * 1000)
    assert "could not be read or trusted" in dpbayes("report", bundle, "--format", "html").out
    assert dpbayes("report", bundle, "--format", "html", "--ledger", ledger_path).code == 6


def test_a_damaged_bundle_is_exit_7(dpbayes: Cli, bundle: Path) -> None:
    path = bundle / "release.json"
    content = path.read_text()
    for damage, change in DAMAGES.items():
        document = json.loads(content)
        change(document)
        path.write_text(json.dumps(document))
        for command in (["report", "--format", "html", "--out", "page"], ["infer"]):
            done = dpbayes(command[0], bundle, *command[1:])
            assert (done.code, done.out) == (7, ""), (damage, command)
    assert not Path("page").exists()
