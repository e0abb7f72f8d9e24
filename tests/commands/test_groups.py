"""Groups on the command line: one release of all groups, its files, and what is refused before the charge."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpbayes_cli as dpb
from dpbayes_cli.base.duck import cursor
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.spec.groups_section import read_keys
from tests.conftest import Cli, often

N_GROUPS = 40
UNLISTED = "hospital of one famous patient"
ASKED = ("--model", "beta-bernoulli", "--by", "hospital", "--groups", "keys.txt", "--eps", "2")


@pytest.fixture
def visits(place: Path) -> dict[str, float]:
    """Write a table of visits; return the true probability of each group."""
    rng = np.random.default_rng(5)
    rates = dict(zip([f"h{i}" for i in range(N_GROUPS)], rng.beta(8, 12, N_GROUPS).tolist(), strict=True))
    rows = [f"{key},{'yes' if rng.random() < rate else 'no'}" for key, rate in rates.items() for _ in range(60)]
    (place / "visits.csv").write_text("\n".join(["hospital,back", *rows, f"{UNLISTED},yes", ",no", "h1,?"]) + "\n")
    (place / "keys.txt").write_text("\n".join([*rates, "empty hospital"]) + "\n")
    return rates


def table(path: Path) -> dict[str, np.ndarray]:
    with cursor(RuntimeError("failed")) as engine:  # type: ignore[arg-type]
        return dict(engine.execute(f"SELECT * FROM '{path}'").fetchnumpy())


def test_all_groups_cost_as_much_as_one_and_each_gets_a_posterior(
    dpbayes: Cli, visits: dict[str, float], place: Path
) -> None:
    """The shares of intervals that hold the truth have a false-fail rate below 1e-6 each."""
    printed = dpbayes("release", "visits.csv", *ASKED, "--out", "out", "--json").json
    assert printed["guarantee"]["epsilon"] == 2.0
    assert list(printed["posterior"]) == ["mean", "sd", "records"]
    groups = table(place / "out" / "groups.parquet")
    assert list(groups["key"]) == [*visits, "empty hospital"]
    truths = np.array([*visits.values()])
    inside = (groups["q05"][:-1] <= truths) & (truths <= groups["q95"][:-1])
    assert inside.sum() >= 24
    assert groups["records"][-1] < 35 < groups["records"][0]
    assert ((groups["above"] >= 0) & (groups["above"] <= 1)).all()
    for file in (place / "out").iterdir():
        assert UNLISTED.encode() not in file.read_bytes()
    assert dpbayes("verify", "out").code == 0
    again = dpbayes("release", "visits.csv", *ASKED, "--out", "out", "--json").json
    assert again["replayed"] is True
    shown = dpbayes("release", "visits.csv", *ASKED, "--out", "out")
    assert "assumed: success '1', 'yes', 'true' or 'y'" in " ".join(shown.err.split())
    assert "Of 41 groups, " in shown.out
    assert shown.out.startswith("Of the 41 groups by hospital, ")
    printed = " ".join(shown.out.split())
    assert " On average over groups like these 41: " in printed, "the mean is that of their common law"
    best = np.argmax(np.where(groups["q05"] > groups["mean"].mean(), groups["mean"], 0.0))
    assert f"of these, the highest estimate is that of {groups['key'][best]}, about " in printed
    report = dpbayes("report", "out", "--format", "html").out
    assert "The groups" in report
    assert UNLISTED not in report
    assert dpbayes("budget", "verify").code == 0


def test_records_of_listed_and_of_new_groups_are_predicted(dpbayes: Cli, visits: dict[str, float], place: Path) -> None:
    assert dpbayes("release", "visits.csv", *ASKED, "--out", "out").code == 0
    groups = table(place / "out" / "groups.parquet")
    printed = dpbayes("predict", "out", "--json").json
    assert printed["classes"] == ["1", "0"]
    assert [each["key"] for each in printed["groups"]] == [*groups["key"], None]
    shares = [each["probabilities"][0] for each in printed["groups"]]
    np.testing.assert_allclose(shares[:-1], groups["mean"])
    ends = np.array([[each["parameters"]["theta"][end] for end in ("q05", "q95")] for each in printed["groups"]])
    np.testing.assert_allclose(ends[:-1], np.stack([groups["q05"], groups["q95"]], axis=1))
    assert np.ptp(ends[-1]) > np.ptp(ends[:N_GROUPS], axis=1).max(), "less is known about a new group"
    (place / "new.csv").write_text(f"hospital\nh3\n{UNLISTED}\n")
    rows = dpbayes("predict", "out", "new.csv").out.splitlines()
    assert rows[0] == "record,outcome,p[outcome=1],p[outcome=0]"
    assert [float(row.split(",")[2]) for row in rows[1:]] == pytest.approx([shares[3], shares[-1]], abs=1e-5)
    keys = dpb.predict("out")["key"]
    assert keys[:-1].tolist() == list(groups["key"])
    assert keys.isna().tolist()[-1]


def test_samples_of_each_group_have_its_posterior(dpbayes: Cli, visits: dict[str, float], place: Path) -> None:
    """The mean of 400 samples is five standard errors off with probability below 1e-6 in one of 41 groups."""
    before = dpbayes("release", "visits.csv", *ASKED, "--out", "out", "--json").json
    again = dpbayes("infer", "out", "--samples-per-group", "400", "--out", "more", "--json").json
    assert again["posterior"] == before["posterior"], "samples of groups change nothing else"
    groups, samples = (table(place / "more" / name) for name in ("groups.parquet", "group_samples.parquet"))
    assert list(samples) == ["key", *(f"draw_{i}" for i in range(400))]
    assert list(samples["key"]) == list(groups["key"])
    draws = np.stack([samples[f"draw_{i}"] for i in range(400)])
    assert draws.dtype == np.float32
    assert abs((draws.mean(axis=0) - groups["mean"]) / groups["sd"]).max() < 5 / 20 + 0.1, "and the error of the mean"
    assert draws.std(axis=0) == pytest.approx(groups["sd"], rel=0.25)


@pytest.mark.slow
def test_samples_of_groups_go_to_arviz(dpbayes: Cli, visits: dict[str, float]) -> None:
    assert dpbayes("release", "visits.csv", *ASKED, "--samples-per-group", "30", "--out", "out").code == 0
    assert dpbayes("verify", "out").code == 0
    data = dpb.infer("out", samples_per_group=50).to_arviz()
    assert data.groups["theta"].shape == (1, 50, N_GROUPS + 1)
    assert list(data.groups["group"].values[:2]) == ["h0", "h1"]
    assert data.posterior["mean"].size == 4000


def test_impossible_numbers_of_groups_are_found(dpbayes: Cli, visits: dict[str, float], place: Path) -> None:
    assert dpbayes("release", "visits.csv", *ASKED, "--pooling", "none", "--out", "out").code == 0
    path = place / "out" / "release.json"
    document = json.loads(path.read_text())
    document["groups"]["values"][3] = len(visits) * 60 + 2000
    path.write_text(json.dumps(document))
    dpbayes("verify", "out").exits(7, "0[h1] is impossible: no data and noise lead to it")


def test_pooling_changes_at_no_cost(dpbayes: Cli, visits: dict[str, float], place: Path) -> None:
    assert dpbayes("release", "visits.csv", *ASKED, "--out", "out").code == 0
    alone = dpbayes("infer", "out", "--pooling", "none", "--out", "alone", "--json").json
    pooled = json.loads((place / "out" / "release.json").read_text())["posterior"]
    assert alone["posterior"]["sd"]["mean"] > pooled["sd"]["mean"]
    groups = table(place / "alone" / "groups.parquet")
    assert groups["sd"].mean() > table(place / "out" / "groups.parquet")["sd"].mean()
    shown = " ".join(dpbayes("infer", "out", "--pooling", "none").out.split())
    mean = groups["mean"].mean()
    n_above, n_below = (groups["q05"] > mean).sum(), (groups["q95"] < mean).sum()
    assert f"Of 41 groups, {n_above} have a 90 % interval above the mean of all groups and {n_below} below" in shown
    assert ". On average over 41 groups: " in shown
    assert "without noise" not in shown
    assert len(dpbayes("budget", "history", "visits", "--json").json) == 4, "open, reserved, sealed, published"


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        ("--model svm", 3, "cannot be divided into groups"),
        ("--model beta-bernoulli --mechanism ops --on-invalid impute:0", 3, "does not support groups"),
        ("--model beta-bernoulli --ess 500", 3, "inference.ess"),
        ("--model gamma-poisson --bounds-epsilon 0.1 --bounds-high 9", 3, "cannot be found privately"),
        ("--model beta-bernoulli --groups absent.txt", 3, "cannot read the keys"),
        ("--model beta-bernoulli --groups twice.txt", 3, "mean the same cell"),
        ("--model beta-bernoulli --column ward", 4, "ward"),
        ("--model beta-bernoulli --column hospital", 3, "holds the keys of the groups"),
        ("--model beta-bernoulli --by ward", 2, "for two levels: --by hospital,ward"),
        ("--model beta-bernoulli --groups header.txt", 3, "the name of the column"),
        ("--model beta-bernoulli --groups line.txt", 3, "every line of 'line.txt' has a comma"),
    ],
)
def test_wrong_requests_are_refused_before_the_charge(
    dpbayes: Cli, visits: dict[str, float], place: Path, ledger_path: Path, flags: str, code: int, says: str
) -> None:
    (place / "twice.txt").write_text("7\n07\n")
    (place / "header.txt").write_text("hospital\nh1\n")
    (place / "line.txt").write_text("h1,h2,h3\n")
    asked = ["--by", "hospital", "--groups", "keys.txt", "--eps", "1", *flags.split()]
    dpbayes("release", "visits.csv", *asked).exits(code, says)
    assert not ledger_path.exists()


def test_groups_of_people_with_several_rows_come_from_a_spec(dpbayes: Cli, place: Path) -> None:
    rng = np.random.default_rng(6)
    rows = [f"{i // 4},{rng.choice(['a', 'b', 'x'])},{rng.poisson(2)}" for i in range(800)]
    (place / "rows.csv").write_text("\n".join(["person,ward,days", *rows]) + "\n")
    (place / "wards.txt").write_text("a\nb\n")
    (place / "spec.yaml").write_text(
        """
        model: gamma-poisson
        domain: {upper: 10}
        data: rows.csv
        column: days
        by: {column: ward, file: wards.txt}
        on_invalid: impute:0
        privacy: {epsilon: 3, neighbors: add-remove, unit: {column: person, max_contributions: 3}}
        inference: {pooling: none, samples: 100}
        """
    )
    printed = dpbayes("release", "--spec", "spec.yaml", "--out", "out", "--json").json
    assert printed["guarantee"]["epsilon"] == 3.0
    document = json.loads((place / "out" / "release.json").read_text())
    assert document["spec"]["by"] == {"column": "ward", "values": ["a", "b"]}
    assert len(document["groups"]["values"]) == 4
    assert document["groups"]["noise_scale"] == pytest.approx(3 * 20 / 3, rel=1e-6)
    assert list(table(place / "out" / "groups.parquet")["key"]) == ["a", "b"]
    assert dpbayes("verify", "out").code == 0


def test_keys_that_match_no_record_are_named_as_a_possible_cause(
    dpbayes: Cli, visits: dict[str, float], place: Path
) -> None:
    (place / "others.txt").write_text("ward 1\nward 2\n")
    shown = dpbayes("release", "visits.csv", *ASKED, "--groups", "others.txt", "--out", "out")
    assert "these flags set what is valid: --groups, " in shown.out


def test_a_data_frame_is_divided_by_a_file_of_keys(visits: dict[str, float], place: Path) -> None:
    frame = pd.DataFrame({"hospital": [1, 2, None, 3] * 50, "relapse": ["yes", "no", "yes", "yes"] * 50})
    (place / "numbers.txt").write_text("1\n2\n")
    model = dpb.models.BetaBernoulli(success="yes", failure="no")
    by = {"column": "hospital", "file": "numbers.txt"}
    released = dpb.release(frame, model, dpb.mechanisms.Laplace(epsilon="3"), account="people", by=by)
    document = json.loads((Path(released.path) / "release.json").read_text())
    values = np.array(document["groups"]["values"])
    assert abs(values - [50, 0, 0, 50]).max() <= 20, "noise of scale 2 / 3"


def test_keys_may_be_plain_or_quoted_as_in_a_csv_file(place: Path) -> None:
    (place / "keys.txt").write_text('h1\n"h2"\n\n"North, ""A"" wing"\nSouth, B\n 5" pipe\n')
    assert read_keys(place / "keys.txt", "ward") == ["h1", "h2", 'North, "A" wing', "South, B", '5" pipe']
    for line in ('"a","b"', '"a', '"a" wing'):
        (place / "keys.txt").write_text(f"h1\n{line}\n")
        with pytest.raises(SpecError, match="line 2 of the keys"):
            read_keys(place / "keys.txt", "ward")


@pytest.mark.parametrize(
    ("pooling", "law"), often([("none", "stated prior"), ("partial", "learned law of a new group")], 2, several=True)
)
def test_the_captions_of_the_page_state_the_law_of_the_groups(
    dpbayes: Cli, visits: dict[str, float], pooling: str, law: str
) -> None:
    assert dpbayes("release", "visits.csv", *ASKED, "--pooling", pooling, "--out", "out").code == 0
    page = dpbayes("report", "out", "--format", "html").out
    assert law in page
    assert ("Small groups are drawn toward" in page) == (pooling == "partial")


def test_check_proposes_no_key_for_another_one(dpbayes: Cli, place: Path) -> None:
    (place / "two.csv").write_text("ward,back\na,yes\nb,no\n")
    (place / "others.txt").write_text("c\nd\n")
    shown = dpbayes("check", "two.csv", "--model", "beta-bernoulli", "--by", "ward", "--groups", "others.txt")
    assert "0 of 2 cells can be read" in shown.out
    assert "upper and lower case" not in shown.out


@pytest.mark.slow
def test_the_mean_rate_of_all_groups_is_not_reported_as_a_mean_of_numbers(dpbayes: Cli, place: Path) -> None:
    rng = np.random.default_rng(7)
    rows = [f"{ward},{rng.exponential(10.0 if ward % 2 else 0.3):.3f}" for ward in range(20) for _ in range(50)]
    (place / "rows.csv").write_text("\n".join(["ward,days", *rows]) + "\n")
    (place / "wards.txt").write_text("\n".join(map(str, range(20))) + "\n")
    asked = ("--model", "gamma-exponential", "--upper", "50", "--by", "ward", "--groups", "wards.txt", "--eps", "3")
    shown = " ".join(dpbayes("release", "rows.csv", *asked, "--out", "out").out.split())
    assert "represent, the rate is about " in shown
    assert "the mean of the numbers" not in shown
    assert json.loads((place / "out" / "release.json").read_text())["posterior_predictive"] == {}


def test_a_mean_of_all_groups_beyond_the_bounds_is_a_warning(dpbayes: Cli, place: Path) -> None:
    (place / "rows.csv").write_text("ward,days\n" + "".join(f"{ward},5\n" for ward in "abc" for _ in range(200)))
    (place / "wards.txt").write_text("a\nb\nc\n")
    asked = ("--model", "gamma-poisson", "--upper", "5", "--by", "ward", "--groups", "wards.txt", "--eps", "3")
    shown = " ".join(dpbayes("release", "rows.csv", *asked, "--out", "out").out.split())
    assert "the 90 % interval of the mean leaves the public bounds, 0 to 5" in shown


@pytest.fixture
def states(place: Path) -> None:
    rng, rows, keys = np.random.default_rng(8), [], []
    for state, rate in zip("ABCDEF", (0.1, 0.2, 0.35, 0.5, 0.65, 0.8), strict=True):
        for county in ("Orange", *(f"{state}{k}" for k in range(4))):
            keys.append(f"{state},{county},x")
            rows += [f"{county},{state},{'yes' if rng.random() < rate else 'no'}" for _ in range(40)]
    (place / "visits.csv").write_text("\n".join(["county,state,back", *rows, "A1,B,yes", "unlisted,A,yes"]) + "\n")
    (place / "counties.csv").write_text("\n".join(["state,county,note", *keys]) + "\n")


IN_STATES = ("--model", "beta-bernoulli", "--by", "county,state", "--groups", "counties.csv", "--eps", "2")


@pytest.mark.slow
def test_counties_within_states_have_results_of_both(dpbayes: Cli, states: None, place: Path) -> None:
    """The share of intervals that hold the truth has a false-fail rate below 1e-6."""
    shown = " ".join(dpbayes("release", "visits.csv", *IN_STATES, "--out", "out").out.split())
    assert "On average over groups like these 30, in larger groups like these 6: " in shown
    assert "Of 6 larger groups, " in shown
    document = json.loads((place / "out" / "release.json").read_text())
    assert list(document["posterior"]) == ["mean", "sd", "sd of larger groups", "records"]
    assert document["guarantee"]["epsilon"] == 2.0, "a record is in one pair"
    assert "unlisted" not in json.dumps(document)
    groups, larger = (table(place / "out" / f"{name}.parquet") for name in ("groups", "larger_groups"))
    assert list(groups["key"][:5]) == ["Orange", "A0", "A1", "A2", "A3"]
    assert list(groups["larger_group"]) == [state for state in "ABCDEF" for _ in range(5)]
    assert list(larger["key"]) == list("ABCDEF")
    assert (larger["groups"] == 5).all()
    assert larger["mean"][:2].max() < larger["mean"][4:].min()  # by 0.54, with an sd of 0.015
    rates = np.repeat([0.1, 0.2, 0.35, 0.5, 0.65, 0.8], 5)
    assert ((groups["q05"] <= rates) & (rates <= groups["q95"])).sum() >= 16
    assert ((larger["q05"] <= larger["weighted_mean"]) & (larger["weighted_mean"] <= larger["q95"])).all()
    assert (place / "out" / "statistics.csv").read_text().startswith("county,state,")
    alone = dpbayes("infer", "out", "--pooling", "none", "--out", "alone", "--json").json
    assert list(alone["posterior"]) == ["mean", "sd", "records"]
    assert not (place / "alone" / "larger_groups.parquet").exists()
    checked = dpbayes("check", "visits.csv", *IN_STATES[:-2]).out
    assert "1200 of 1202 records can be read in all of these columns" in checked


@pytest.mark.slow
def test_a_bundle_of_counties_within_states_verifies_and_has_a_page(dpbayes: Cli, states: None) -> None:
    dpbayes("release", "visits.csv", *IN_STATES, "--out", "out").exits(0)
    dpbayes("verify", "out").exits(0)
    assert dpbayes("report", "out", "--format", "html").out.count("(mean)") == 6


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--model gamma-poisson --upper 9", "cannot learn from each other within larger groups"),
        ("--groups one.csv", "has no columns county and state"),
        ("--groups ragged.csv", "different numbers of fields"),
        ("--groups twice.csv", "within 'A': '7' and '07' mean the same cell"),
        ("--spec county-county.yaml", "name the smaller groups first"),
        ("--spec state-county.yaml", "each key of 'county' has only one key of 'state'"),
        ("--column state", "holds the keys of the groups"),
        ("--groups private --delta 1e-6", "cannot be found in the data"),
    ],
)
def test_wrong_pairs_are_refused_before_the_charge(
    dpbayes: Cli, states: None, place: Path, ledger_path: Path, flags: str, says: str
) -> None:
    (place / "one.csv").write_text("county\nA1\n")
    (place / "ragged.csv").write_text("county,state\nA1,A\nA2\n")
    (place / "twice.csv").write_text("county,state\n7,A\n7,B\n07,A\n")
    (place / "county-county.yaml").write_text("by: {column: [county, county], values: [[A1, A1]]}")
    pairs = "[A, A1], [A, A2], [A, A3], [B, B1], [B, B2]"
    (place / "state-county.yaml").write_text(f"by: {{column: [state, county], values: [{pairs}]}}")
    asked = ["--model", "beta-bernoulli", "--eps", "1"] if "--spec" in flags else IN_STATES
    dpbayes("release", "visits.csv", *asked, *flags.split()).exits(3, says)
    assert not ledger_path.exists()


def test_pairs_of_numbers_need_no_law_of_larger_groups_without_pooling(dpbayes: Cli, place: Path) -> None:
    (place / "rows.csv").write_text(
        "county,state,days\n" + "".join(f"a,{s},{k % 4}\n" for s in "xy" for k in range(90))
    )
    (place / "spec.yaml").write_text(
        """
        model: gamma-poisson
        domain: {upper: 5}
        data: rows.csv
        column: days
        by: {column: [county, state], values: [[a, x], [a, y]]}
        privacy: {epsilon: 3}
        inference: {pooling: none, samples: 100}
        """
    )
    assert dpbayes("release", "--spec", "spec.yaml", "--out", "out").code == 0
    assert list(table(place / "out" / "groups.parquet")["larger_group"]) == ["x", "y"]
    dpbayes("infer", "out", "--pooling", "partial").exits(3, "cannot learn from each other within larger groups")
