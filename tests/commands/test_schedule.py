"""``dpbayes schedule``: price many releases together, charge them once, and release what is due by name."""

from __future__ import annotations

import json
import re
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.request import url2pathname

import pytest

from dpbayes_cli.privacy.kinds import ApproximateDP
from dpbayes_cli.workflow import schedule as workflow_schedule
from tests.conftest import Cli

SCHEDULE = """
account: nights
epsilon: 3
delta: 1e-6
releases:
  - {name: rate, times: 3, spec: rate.yaml}
  - name: level
    dates: [2026-11-22, 2026-11-24]
    spec:
      model: dirichlet-categorical
      column: x
      domain: {categories: ["0", "1"]}
      privacy: {epsilon: 0.2}
    data: coin.csv
"""
RATE = """
model: beta-bernoulli
data: coin.csv
column: x
domain: {success: "1", failure: "0"}
privacy: {epsilon: 0.1}
"""
DAY = ["--date", "2026-11-23"]


@pytest.fixture
def schedule(place: Path, coin: Path) -> Path:
    """The file of a schedule of five releases, which is not open yet."""
    del coin
    (place / "rate.yaml").write_text(RATE)
    path = place / "nights.yaml"
    path.write_text(SCHEDULE)
    return path


@pytest.fixture
def opened(dpbayes: Cli, schedule: Path) -> Path:
    """The same schedule after it was opened."""
    assert dpbayes("schedule", "open", schedule).code == 0
    return schedule


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def run(dpbayes: Cli, schedule: Path, *more: str) -> dict[str, bool]:
    """Run the schedule; return for each label whether it was shown again."""
    result: dict[str, Any] = dpbayes("schedule", "run", schedule, *more, "--json").json
    return {each["label"]: each["replayed"] for each in result["releases"]}


def states(dpbayes: Cli, schedule: Path, *more: str) -> dict[str, str]:
    shown: dict[str, Any] = dpbayes("schedule", "show", schedule, *more, "--json").json
    return {each["label"]: each["state"] for each in shown["releases"]}


def charges(dpbayes: Cli) -> list[str]:
    history: list[dict[str, Any]] = dpbayes("budget", "history", "nights", "--json").json
    return [entry["label"] for entry in history if entry["kind"] == "reserved"]


def test_a_check_prices_all_releases_together(dpbayes: Cli, schedule: Path, ledger_path: Path) -> None:
    (schedule.parent / "coin.csv").unlink()
    done = dpbayes("schedule", "check", schedule).exits(0)
    assert "5 releases (3 of rate, 2 of level) cost epsilon 0.69" in done.out
    assert "Charged one by one to an (epsilon, delta) account, they would cost epsilon 0.7" in done.out
    assert "rounded up on a grid of 0.0001" in done.out
    assert "which is enough" in done.out
    priced = dpbayes("schedule", "check", schedule, "--json").json
    assert Decimal(priced["epsilon"]) <= Decimal(priced["epsilon_one_by_one"]) == Decimal("0.7")
    assert not ledger_path.exists()


def test_a_long_schedule_costs_less_than_its_releases(dpbayes: Cli, schedule: Path) -> None:
    change(schedule, "times: 3", "times: 365")
    checked = dpbayes("schedule", "check", schedule, "--json").exits(5)
    assert "is not enough" in dpbayes("schedule", "check", schedule).out
    priced = json.loads(checked.out)
    assert priced["releases"] == {"rate": 365, "level": 2}
    assert Decimal(priced["epsilon"]) < Decimal(priced["epsilon_one_by_one"]) * Decimal("0.95")
    assert priced["fits"] is False
    dpbayes("schedule", "open", schedule).exits(5, "cost epsilon")


@pytest.mark.parametrize(("delta", "message"), [("1e-7", "no finite epsilon at the same"), ("5e-7", "have no finite")])
def test_deltas_of_releases_are_part_of_the_cost(
    dpbayes: Cli, schedule: Path, monkeypatch: pytest.MonkeyPatch, delta: str, message: str
) -> None:
    """Five releases have these deltas; an account keeps a tenth of its delta for them, and a schedule all of it."""
    guarantee = ApproximateDP(Decimal("0.01"), Decimal(delta))
    planned = SimpleNamespace(plan=SimpleNamespace(guarantee=guarantee))
    monkeypatch.setattr(workflow_schedule, "price", lambda _: planned)
    done = dpbayes("schedule", "check", schedule).exits(0 if delta == "1e-7" else 5)
    assert message in done.out + done.err


def test_the_total_is_charged_once_when_the_account_is_opened(dpbayes: Cli, schedule: Path) -> None:
    first, again = (dpbayes("schedule", "open", schedule, "--json").json for _ in range(2))
    assert (first.pop("already_done"), again.pop("already_done")) == (False, True)
    assert first == again
    (account,) = dpbayes("budget", "show", "nights", "--json").json["accounts"]
    assert account["kind"] == "schedule"
    assert account["spent"] == account["budget"] == {"epsilon": "3", "delta": "0.000001"}
    assert account["remaining"] == {"epsilon": "0", "delta": "0"}
    assert run(dpbayes, schedule, *DAY)
    (after,) = dpbayes("budget", "show", "nights", "--json").json["accounts"]
    assert after["spent"] == account["spent"]
    opened = [e for e in dpbayes("budget", "history", "nights", "--json").json if e["kind"] == "open"]
    assert len(opened) == 1


def test_a_run_releases_what_is_due_and_shows_it_again(dpbayes: Cli, opened: Path, place: Path) -> None:
    assert run(dpbayes, opened, *DAY) == {"rate-1": False, "level-2026-11-22": False}
    (place / "coin.csv").write_text("x\n" + "1\n" * 90)
    assert run(dpbayes, opened, *DAY) == {"rate-1": True, "level-2026-11-22": True}
    assert run(dpbayes, opened, "--date", "2026-11-22") == {"rate-2": False, "level-2026-11-22": True}
    assert run(dpbayes, opened, "--date", "2026-11-24") == {"rate-3": False, "level-2026-11-24": False}
    assert run(dpbayes, opened, "--date", "2026-11-25") == {}
    assert len(charges(dpbayes)) == 5
    for label in charges(dpbayes):
        assert dpbayes("verify", place / "nights" / label).code == 0
    assert dpbayes("budget", "verify").code == 0
    assert set(states(dpbayes, opened).values()) == {"done"}


def test_names_may_be_released_in_any_order(dpbayes: Cli, opened: Path) -> None:
    assert run(dpbayes, opened, "--name", "rate-3", *DAY) == {"rate-3": False}
    assert run(dpbayes, opened, "--name", "level-2026-11-24", *DAY) == {"level-2026-11-24": False}
    assert run(dpbayes, opened, "--name", "rate", *DAY) == {"rate-3": True}
    assert run(dpbayes, opened, "--name", "rate", "--date", "2026-11-24") == {"rate-1": False}
    assert states(dpbayes, opened, *DAY) == {
        "rate-1": "done", "rate-2": "open", "rate-3": "done", "level-2026-11-22": "due", "level-2026-11-24": "done",
    }  # fmt: skip


def test_a_table_shows_what_is_done_due_and_open(dpbayes: Cli, opened: Path) -> None:
    assert run(dpbayes, opened, "--name", "rate", *DAY)
    shown = dpbayes("schedule", "show", opened, *DAY)
    assert "account nights: 1 done, 1 due, 3 open" in shown.out
    assert re.search(r"^rate-1 +done +2", shown.out, re.MULTILINE)
    assert re.search(r"^level-2026-11-22 +due *$", shown.out, re.MULTILINE)


def test_only_listed_releases_are_charged(dpbayes: Cli, opened: Path) -> None:
    for name in ("rate-4", "rate-0", "other", "level-2026-11-23", "rate-1 fresh 1"):
        dpbayes("schedule", "run", opened, "--name", name).exits(5, "lists no release")
    asked = ["release", "--spec", "rate.yaml", "--dataset", "nights"]
    for flags in ("", "--release-id rate-4", "--release-id rate-1 --eps 0.11", "--release-id rate-1 --eps 0.05"):
        dpbayes(*asked, *flags.split()).exits(5, "nothing was charged")
    dpbayes("budget", "amend", "nights", "--epsilon", "6", "--reason", "more").exits(5, "cannot be changed")
    assert charges(dpbayes) == []
    assert dpbayes(*asked, "--release-id", "rate-1", "--out", "one").code == 0
    assert run(dpbayes, opened, "--name", "rate-1", "--out", "again") == {"rate-1": True}
    assert charges(dpbayes) == ["rate-1"]


def test_a_changed_file_is_refused_with_the_difference(dpbayes: Cli, opened: Path) -> None:
    for file, old, new, shown in (
        ("nights.yaml", "times: 3", "times: 4", '+   "times": 4'),
        ("nights.yaml", "2026-11-24", "2026-11-25", '+    "2026-11-25"'),
        ("nights.yaml", "epsilon: 3", "epsilon: 4", '+ "epsilon": "4",'),
        ("rate.yaml", "epsilon: 0.1", "epsilon: 0.2", '+     "epsilon": "0.2"'),
        ("rate.yaml", 'success: "1"', 'success: "2"', '+     "success": "2"'),
    ):
        change(opened.parent / file, old, new)
        for command in ("open", "run", "show"):
            refused = dpbayes("schedule", command, opened).exits(5, "was changed after it was opened")
            assert shown in [line.removeprefix("  ") for line in refused.err.splitlines()]
        change(opened.parent / file, new, old)
    assert charges(dpbayes) == []


def test_comments_order_and_the_place_of_the_data_may_change(dpbayes: Cli, opened: Path, place: Path) -> None:
    (place / "coin.csv").rename(place / "moved.csv")
    change(opened, "epsilon: 3\ndelta: 1e-6", "delta: 0.000001  # as approved\nepsilon: 3.0")
    change(opened, "2026-11-22, 2026-11-24", "2026-11-24, 2026-11-22")
    assert run(dpbayes, opened, "moved.csv", *DAY) == {"rate-1": False, "level-2026-11-22": False}


def test_the_budget_of_a_schedule_is_not_said_to_pay_for_more(dpbayes: Cli, opened: Path) -> None:
    assert dpbayes("schedule", "run", opened, *DAY).code == 0
    messages = " ".join(dpbayes("budget", "show", "nights").err.split())
    assert "nights holds a schedule, whose whole total was charged when it was opened" in messages
    assert "more release" not in messages


def test_an_account_without_a_schedule_is_not_used(dpbayes: Cli, schedule: Path) -> None:
    assert dpbayes("schedule", "run", schedule).code == 5
    assert dpbayes("budget", "open", "nights", "--epsilon", "3").code == 0
    for command in ("open", "run"):
        refused = dpbayes("schedule", command, schedule)
        assert refused.code == 5
        assert "holds no schedule" in refused.err


def test_data_of_another_account_are_refused_unless_declared_separate(dpbayes: Cli, schedule: Path) -> None:
    assert dpbayes("release", "--spec", "rate.yaml", "--dataset", "clinic").code == 0
    flags = ["--separate-population", "--reason", "data of other people"]
    refused = dpbayes("schedule", "open", schedule)
    assert refused.code == 5
    assert "'clinic' has paid for these data" in refused.err
    assert "dpbayes schedule open FILE --separate-population" in refused.err
    assert dpbayes("budget", "history", "nights").code == 5, "no account was opened"
    assert dpbayes("schedule", "open", schedule, flags[0]).code == 2
    assert dpbayes("schedule", "open", schedule, *flags).code == 0
    assert dpbayes("schedule", "run", schedule, *DAY).code == 0


def test_data_of_the_account_that_a_spec_names_are_refused_under_another_path(
    dpbayes: Cli, schedule: Path, place: Path
) -> None:
    change(place / "rate.yaml", "data: coin.csv", "data: coin.csv\ndataset: clinic")
    assert dpbayes("budget", "open", "clinic", "--epsilon", "3").code == 0
    assert dpbayes("schedule", "open", schedule).code == 0, "clinic has paid for nothing yet"
    (place / "copy.csv").write_bytes((place / "coin.csv").read_bytes())
    assert dpbayes("release", "copy.csv", "--spec", "rate.yaml").code == 0
    change(schedule, "account: nights", "account: more")
    for name, old in ((schedule, "data: coin.csv"), (place / "rate.yaml", "data: coin.csv")):
        change(name, old, "data: third.csv")
    (place / "third.csv").write_bytes((place / "coin.csv").read_bytes())
    dpbayes("schedule", "open", schedule).exits(5, "'clinic', which has paid for releases already")
    flags = ["--separate-population", "--reason", "data of other people"]
    assert dpbayes("schedule", "open", schedule, *flags).code == 0


@pytest.mark.parametrize("anchored", [True, False])
def test_a_schedule_goes_on_after_the_ledger_was_lost_only_if_an_anchor_shows_that_nothing_followed(
    anchored: bool, dpbayes: Cli, opened: Path, place: Path, ledger_path: Path
) -> None:
    if anchored:
        assert dpbayes("budget", "anchor", place / "anchor").code == 0
    assert run(dpbayes, opened, *DAY, "--name", "rate") == {"rate-1": False}
    assert dpbayes("budget", "backup", place / "backup").code == 0
    ledger_path.unlink()
    restored = dpbayes("budget", "restore", place / "backup", "--reason", "the disk", "--json")
    assert restored.json["complete"] == anchored
    assert ("may be missing" in restored.err) != anchored
    if anchored:
        assert run(dpbayes, opened, "--date", "2026-11-24", "--name", "rate") == {"rate-2": False}
        return
    assert run(dpbayes, opened, *DAY, "--name", "rate") == {"rate-1": True}
    refused = dpbayes("schedule", "run", opened, "--date", "2026-11-24", "--name", "rate")
    refused.exits(5, "its schedule has ended")
    assert "another schedule" not in refused.err
    assert "its schedule has ended" in " ".join(dpbayes("budget", "show", "nights").err.split())


def test_the_account_of_a_schedule_cannot_be_declared_separate_afterwards(dpbayes: Cli, opened: Path) -> None:
    assert dpbayes("release", "--spec", "rate.yaml", "--dataset", "clinic").code == 0
    assert dpbayes("schedule", "run", opened, *DAY).code == 5
    refused = dpbayes("budget", "amend", "nights", "--separate-population", "--reason", "data of other people")
    assert refused.code == 5
    assert "cannot be changed" in refused.err
    assert "another schedule" in refused.err
    assert dpbayes("schedule", "run", opened, *DAY).code == 5


@pytest.mark.parametrize(
    "privacy",
    [
        "{rho: 0.01}\nmechanism: gaussian",
        "{epsilon: 0.1, delta: 1e-7}\nmechanism: gaussian",
        "{epsilon: 0.1, order: 2}\nmechanism: rdp-diffuse\nrecords: 200\non_invalid: impute:0",
    ],
)
def test_a_mechanism_without_a_pair_is_refused(dpbayes: Cli, schedule: Path, privacy: str) -> None:
    change(schedule.parent / "rate.yaml", "{epsilon: 0.1}", privacy)
    refused = dpbayes("schedule", "check", schedule)
    assert refused.code == 5, refused.err
    assert "cannot price this mechanism" in refused.err
    assert ("state privacy: {mu: 0.141421}" in refused.err) == ("rho" in privacy)


def test_noise_of_gaussian_dp_is_priced_with_other_noise(dpbayes: Cli, schedule: Path) -> None:
    """A mu of 0.3 with a count that is randomized response at 0.2."""
    change(schedule.parent / "rate.yaml", "{epsilon: 0.1}", "{mu: 0.3}\nmechanism: gaussian")
    assert dpbayes("schedule", "check", schedule).code == 0
    assert dpbayes("schedule", "open", schedule).code == 0
    assert run(dpbayes, schedule, *DAY) == {"rate-1": False, "level-2026-11-22": False}
    assert run(dpbayes, schedule, *DAY) == {"rate-1": True, "level-2026-11-22": True}
    (bundle,) = (schedule.parent / "nights").glob("rate-1/*.json")
    assert json.loads(bundle.read_text())["guarantee"]["kind"] == "gdp"
    assert dpbayes("budget", "verify").code == 0


def test_the_help_names_the_keys_of_each_json_document(dpbayes: Cli, schedule: Path) -> None:
    """Standard output holds one document and nothing else, which ``jq`` needs."""
    for command in ("check", "open", "run", "show"):
        days = DAY if command in {"run", "show"} else []
        done = dpbayes("schedule", command, schedule, *days, "--json")
        document = json.loads(done.out)
        _, _, described = dpbayes("schedule", command, "--help").out.partition("the keys are:")
        described = described.partition("Options:")[0]
        of_items = document["releases"][0] if isinstance(document["releases"], list) else {}
        stated = {key.strip() for line in described.splitlines() for key in line[2:24].split(",")} - {""}
        assert stated == {*document, *of_items}, command


def test_mistakes_in_the_file_are_named(dpbayes: Cli, schedule: Path) -> None:
    for old, new, message in (
        ("times: 3, ", "", "times: N or dates"),
        ("times: 3", "times: 0", "times"),
        ("times: 3", "times: 3, dates: [2026-11-22]", "and not both"),
        ("2026-11-24", "2026-11-32", "is not a date"),
        ("2026-11-24", "20261124", "is not a date"),
        ("2026-11-24", "2026-11-22", "twice"),
        ("name: level", "name: le/vel", "not a valid name"),
        ("delta: 1e-6", "delta: 2", "delta"),
        ("epsilon: 3", "epsilon: three", "epsilon"),
        ("account: nights\n", "", "account"),
        ("spec: rate.yaml", "spec: missing.yaml", "missing.yaml"),
        ("{epsilon: 0.2}", "{}", "epsilon"),
        ("{epsilon: 0.2}", "{epsilon: 0.2, neighbors: add-remove}", "same neighbors"),
        ("times: 3", "times: 3, color: red", "color"),
        ("{epsilon: 0.2}", "{epsilon: 0.2}\n      mechanism: ops\n      on_invalid: impute:0", "the spec of level"),
    ):
        change(schedule, old, new)
        dpbayes("schedule", "check", schedule).exits(3, message)
        schedule.write_text(SCHEDULE)
    change(schedule, "name: level", "name: rate")  # the same name once by number, and once by date, is allowed
    assert dpbayes("schedule", "check", schedule).code == 0


def test_data_that_are_not_named_are_asked_for(dpbayes: Cli, opened: Path) -> None:
    change(opened.parent / "rate.yaml", "data: coin.csv\n", "")
    dpbayes("schedule", "run", opened, "--name", "rate").exits(3, "dpbayes schedule run FILE DATA")
    assert run(dpbayes, opened, "coin.csv", "--name", "rate") == {"rate-1": False}


def test_an_unfinished_release_is_finished_on_the_next_day(
    dpbayes: Cli, opened: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpbayes_cli.base.errors import SourceError
    from dpbayes_cli.workflow import release

    with monkeypatch.context() as broken:

        def fail(*_: object) -> None:
            raise SourceError("the disk is gone")

        broken.setattr(release, "_draw", fail)
        assert dpbayes("schedule", "run", opened, "--name", "rate", *DAY).code == 4
    assert charges(dpbayes) == ["rate-1"]
    assert states(dpbayes, opened, *DAY)["rate-1"] == "due"
    assert run(dpbayes, opened, "--name", "rate", "--date", "2026-11-24") == {"rate-1": False, "rate-2": False}


def test_the_index_lists_every_bundle_and_loads_nothing(dpbayes: Cli, opened: Path, place: Path) -> None:
    for day in ("2026-11-22", "2026-11-23", "2026-11-24"):
        run(dpbayes, opened, "--date", day)
    page = place / "nights" / "rate-2.html"
    assert dpbayes("report", "nights/rate-2", "--out", page).code == 0
    assert dpbayes("report", "--index", "nights", "--out", "index.html").code == 0
    html = (place / "index.html").read_text()
    links = re.findall(r'<a href="([^"]*)">([^<]*)</a>', html)
    assert len(links) == 5
    assert ("nights/rate-2.html", "rate-2") in links
    assert ("nights/level-2026-11-22/report.md", "level-2026-11-22") in links
    assert all((place / link).is_file() for link, _ in links)
    assert "epsilon 3 of 3 is spent" in html
    assert html.count("<svg") == 1
    assert not re.search(r"<script|https?://(?!www\.w3\.org)|src=|@import", html)
    shown = dpbayes("report", "--index", "nights", "--json").json
    assert shown["bundles"][0]["link"] in {"nights/rate-1/report.md", "nights/level-2026-11-22/report.md"}
    assert "No ledger was given." in dpbayes("report", "--index", "nights", "--no-ledger").out


def test_links_of_the_index_resolve_from_its_place(dpbayes: Cli, opened: Path, place: Path) -> None:
    """The page is not beside the bundles, whose names need quotes in a link; a lost report is not linked."""
    bundles = place / "some results, 100% #1?"
    run(dpbayes, opened, "--date", "2026-11-24", "--out", str(bundles))
    (bundles / "rate-1").rename(bundles / 'a:b é & <b> "c"')
    (bundles / "level-2026-11-22" / "report.md").unlink()
    (bundles / "not a bundle").mkdir()
    page = place / "pages" / "index.html"
    page.parent.mkdir()
    assert dpbayes("report", "--index", bundles, "--out", page).code == 0
    links = re.findall(r'<a href="([^"]*)">', page.read_text())
    resolved = sorted(Path(url2pathname(urlsplit(urljoin(page.as_uri(), link)).path)) for link in links)
    assert [path.relative_to(bundles).as_posix() for path in resolved] == [
        'a:b é & <b> "c"/report.md',
        "level-2026-11-22/release.json",
        "level-2026-11-24/report.md",
    ]
    assert all(path.is_file() for path in resolved)


UNITS = """
model: gamma-poisson
data: clinic.csv
column: months
domain: {upper: 24}
by: {column: arm, values: [new, standard]}
privacy: {epsilon: 0.1, unit: {column: id, max_contributions: K}}
"""


def test_no_envelope_is_believed_for_changes_between_its_shifts(dpbayes: Cli, schedule: Path) -> None:
    """Of two records of a unit one may move a sum within a group, and the other two groups: no shift majorizes that."""
    (schedule.parent / "nights.yaml").write_text(
        "{account: n, epsilon: 30, delta: 1e-6, releases: [{name: a, times: 300, spec: rate.yaml}]}"
    )
    costs = []
    for spec in (UNITS.replace("K", "1"), UNITS.replace("K", "2")):
        (schedule.parent / "rate.yaml").write_text(spec)
        costs.append(float(dpbayes("schedule", "check", schedule, "--json").json["epsilon"]))
    assert costs[0] < 0.95 * costs[1]


def test_only_the_cost_needs_the_accountant(dpbayes: Cli, schedule: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as lacking:
        lacking.setitem(sys.modules, "dp_accounting.pld", None)
        for command in ("check", "open"):
            dpbayes("schedule", command, schedule).exits(3, "pip install 'dpbayes[schedules]'")
    assert dpbayes("schedule", "open", schedule).code == 0
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    assert dpbayes("schedule", "open", schedule).code == 0
    assert run(dpbayes, schedule, *DAY) == {"rate-1": False, "level-2026-11-22": False}
    assert states(dpbayes, schedule, *DAY)["rate-2"] == "open"


def test_an_unopened_schedule_writes_no_ledger(dpbayes: Cli, schedule: Path, ledger_path: Path) -> None:
    for command in ("run", "show"):
        dpbayes("schedule", command, schedule).exits(5, "to charge it once: dpbayes schedule open FILE")
    assert not ledger_path.exists()
    assert dpbayes("budget", "open", "nights", "--epsilon", "3").code == 0
    for command in ("open", "run"):
        dpbayes("schedule", command, schedule).exits(5, "holds no schedule")


def test_budget_over_time_of_an_ordinary_account(dpbayes: Cli, schedule: Path) -> None:
    for i in range(2):
        out = Path("nights") / str(i)
        assert dpbayes("release", "--spec", "rate.yaml", "--fresh", "--out", out).code == 0
    html = dpbayes("report", "--index", "nights").out
    assert "epsilon 0.2 of 3 is spent" in html
    assert json.loads((Path("nights") / "0" / "release.json").read_text())["account"] in html
