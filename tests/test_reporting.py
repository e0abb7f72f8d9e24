"""What a page shows besides the bundle: from the release request alone, never from the data."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dpbayes_cli.bundle.read import analysis_of, read_bundle
from dpbayes_cli.bundle.report.page import report_html
from dpbayes_cli.bundle.report.report_tables import power_text
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.spec.yaml_reader import read_spec_file
from dpbayes_cli.workflow.pricing import price
from dpbayes_cli.workflow.reporting import build_report_context, simulate_expected
from tests.commands.regressions import regression
from tests.conftest import ROOT, Cli

CONFIGS = ROOT / "configs" / "releases"


def released(dpbayes: Cli, *arguments: str | Path, out: str = "out") -> Any:
    done = dpbayes("release", *arguments, "--out", out)
    assert done.code == 0, done.err
    return read_bundle(Path(out))


def test_expected_widths_do_not_depend_on_the_data(dpbayes: Cli, place: Path) -> None:
    for name, ones in (("few", 10), ("many", 150)):
        Path(f"{name}.csv").write_text("x\n" + "1\n" * ones + "0\n" * (200 - ones), encoding="ascii")
        released(dpbayes, f"{name}.csv", "--model", "beta-bernoulli", "--eps", "1", "--column", "x", out=name)
    few, many = (build_report_context(read_bundle(Path(name))) for name in ("few", "many"))
    assert few.expected == many.expected
    assert few.guarantee == many.guarantee
    assert few.expected is not None
    width = few.expected.widths["theta"]
    uniform = 0.5 * math.pi / 4  # E sqrt(p (1 - p)) is pi / 8; its median is a little larger
    assert width.sd == pytest.approx(uniform / math.sqrt(200), rel=0.2)
    assert width.interval_width == pytest.approx(3.29 * width.sd, rel=0.05)


def test_page_prices_the_guarantee_again_instead_of_trusting_the_bundle(dpbayes: Cli, coin: Path) -> None:
    bundle = released(dpbayes, coin, "--model", "beta-bernoulli", "--eps", "1")
    assert isinstance(build_report_context(bundle).guarantee, PureDP)
    less = msgspec.structs.replace(bundle.document.guarantee, epsilon=0.1)
    changed = replace(bundle, document=msgspec.structs.replace(bundle.document, guarantee=less))
    assert build_report_context(changed).guarantee is None
    page = report_html(changed.document, analysis_of(changed), build_report_context(changed)).decode()
    assert "Delta against epsilon" not in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        ("clinic-age", ["mean", "variance"]),
        pytest.param("clinic-age-private-bounds", ["mean", "variance"], marks=pytest.mark.slow),
        pytest.param("clinic-months", ["rate"], marks=pytest.mark.slow),
        ("clinic-age-draw", ["mean"]),
        ("survey-add-remove", []),
    ],
)
def test_expected_widths_of_models(config: str, parameters: list[str] | None, dpbayes: Cli) -> None:
    bundle = released(dpbayes, "--spec", CONFIGS / f"{config}.yaml")
    expected = build_report_context(bundle).expected
    assert expected is not None
    names = list(bundle.document.posterior) if parameters is None else parameters
    assert list(expected.widths) == names
    assert bool(expected.reason_unknown) == (not names)
    assert all(0 < width.sd < width.interval_width < math.inf for width in expected.widths.values())
    if config == "survey-add-remove":
        page = dpbayes("report", "out", "--format", "html").out
        assert "The number of records is private" in page
        planned = dpbayes("report", "out", "--format", "html", "--records", "1000").out
        assert "1,000 valid records are drawn from the model" in planned
    if config == "clinic-age-draw":
        assert expected.drawn_sd is not None
        assert expected.drawn_nonprivate_sd is not None
        assert expected.drawn_sd > expected.drawn_nonprivate_sd > 0


def test_units_with_several_records_are_not_simulated(dpbayes: Cli) -> None:
    Path("visits.csv").write_text("who,x\n" + "".join(f"p{k % 40},{k % 2}\n" for k in range(80)))
    flags = "--model beta-bernoulli --column x --unit who --max-contributions 2 --eps 1"
    expected = build_report_context(released(dpbayes, "visits.csv", *flags.split())).expected
    assert expected is not None
    assert "the number of records is private" in expected.reason_unknown


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (regression("logistic-regression", privacy={"mu": "4"}), "A convex loss defines no law of records"),
        (CONFIGS / "clinic-classes.yaml", "Posteriors of hidden states"),
        (CONFIGS / "events-hmm.yaml", "Posteriors of hidden states"),
    ],
    ids=["a convex loss", "hidden classes", "hidden states"],
)
def test_a_model_that_is_not_simulated_says_why(document: dict[str, Any] | Path, reason: str) -> None:
    spec = build_spec(read_spec_file(document) if isinstance(document, Path) else document)
    assert simulate_expected(price(spec, 1000), 1000).reason_unknown.startswith(reason)


def test_power_of_an_adversary_in_words() -> None:
    assert "at most 13.6 %" in power_text(PureDP(Decimal(1)))
    assert power_text(PureDP(Decimal(100))) == ""


def test_report_context_is_not_in_the_bundle(dpbayes: Cli, coin: Path) -> None:
    document = released(dpbayes, coin, "--model", "beta-bernoulli", "--eps", "1").document
    kept = json.loads((Path("out") / "release.json").read_text())
    assert not {"expected", "budget"} & set(kept)
    assert dpbayes("report", "out").out == (Path("out") / "report.md").read_text()
    assert b"expected before" not in (Path("out") / "report.md").read_bytes()
    assert document.width
