"""Releases of numbers from the shell: every model of numbers, and the requests that are refused before any charge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpbayes_cli.workflow.release as release_module
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.models.multivariate_normal import MultivariateNormal
from tests.commands.networks import spec_file
from tests.conftest import Cli, often

BODIES = {
    "columns": {"height": {"lower": 120, "upper": 220}, "weight": {"lower": 20, "upper": 150}},
}
MODELS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "normal": ({"lower": 120, "upper": 220}, ["mean", "variance"]),
    "normal-mean": ({"lower": 120, "upper": 220, "variance": 64}, ["mean"]),
    "gamma-exponential": ({"upper": 40}, ["rate"]),
    "gamma-poisson": ({"upper": 12}, ["rate"]),
    "beta-geometric": ({"upper": 12}, ["theta"]),
    "multivariate-normal": (
        BODIES,
        ["mean[height]", "mean[weight]", "variance[height]", "covariance[height,weight]", "variance[weight]"],
    ),
}
COLUMN = {"normal": "height", "normal-mean": "height", "gamma-exponential": "wait", "multivariate-normal": None}


@pytest.fixture
def bodies(place: Path) -> Path:
    """Eight hundred people: two of them with a missing or a broken cell."""
    rng = np.random.default_rng(7)
    body = rng.multivariate_normal([170, 75], [[64, 40], [40, 120]], 800)
    columns = [body[:, 0].round(1), body[:, 1].round(1), rng.exponential(8, 800).round(2), rng.poisson(3, 800)]
    rows = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    rows[3], rows[5] = ",70,3,2", "170,x,y,z"
    path = place / "bodies.csv"
    path.write_text("height,weight,wait,visits\n" + "\n".join(rows) + "\n")
    return path


def spec_of(model: str, **more: Any) -> dict[str, Any]:
    domain, _ = MODELS[model]
    prior = {"mean": 150, "strength": 0.01, "shape": 2, "rate": 100} if model == "normal" else {}
    if model == "normal-mean":
        prior = {"mean": 150, "variance": 400}
    column = COLUMN.get(model, "visits")
    named = {} if column is None else {"column": column}
    inference = {"samples": 200, "ess": 100}
    fixed = {"model": model, "domain": domain, "prior": prior, "privacy": {"epsilon": 1}, "inference": inference}
    return {**fixed, **named, **more}


LONG = {"multivariate-normal", "normal"}
"""Chains of several numbers: the slow tests release them from the shell."""


def release(dpbayes: Cli, data: Path, spec: dict[str, Any], *more: str) -> Any:
    return dpbayes("release", data, "--spec", spec_file(spec), "--out", "out", "--json", *more)


@pytest.mark.parametrize(
    "model", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in MODELS]
)
def test_every_model_of_numbers_is_released_and_inferred_again(dpbayes: Cli, bodies: Path, model: str) -> None:
    spec = spec_of(model, privacy={"epsilon": 3})
    printed = release(dpbayes, bodies, spec).json
    assert list(printed["posterior"]) == MODELS[model][1]
    document = json.loads(Path("out/release.json").read_text())
    told = "the noise can hide" if model == "multivariate-normal" else "no warning"
    assert all(told in warning for warning in document["inference"]["warnings"])
    assert [item["name"] for item in document["statistics"]][-1] == "valid"
    again = release(dpbayes, bodies, spec).json
    assert again["replayed"]
    assert again["posterior"] == printed["posterior"]
    wider = dpbayes("infer", "out", "--samples", "100", "--ess", "100", "--json").json
    assert list(wider["posterior"]) == MODELS[model][1]
    assert dpbayes("report", "out").code == 0
    if model == "normal":  # nine posterior standard deviations: a false-fail rate far below 1e-9
        assert abs(printed["posterior"]["mean"]["mean"] - 170) < 9 * printed["posterior"]["mean"]["sd"]
        assert abs(printed["posterior"]["variance"]["mean"] - 64) < 9 * printed["posterior"]["variance"]["sd"]


def test_a_chain_says_how_far_it_is_from_the_exact_posterior(dpbayes: Cli, bodies: Path) -> None:
    spec = spec_of("gamma-exponential", inference={"method": "chain", "ess": 3000})
    release(dpbayes, bodies, spec)
    report = json.loads(Path("out/release.json").read_text())["inference"]
    assert report["method"] == "chain"
    assert report["diagnostics"]["ks_exact"] < 0.06
    assert report["diagnostics"]["agreement_p_value"] > 1e-3
    assert report["diagnostics"]["ess_within_chains"] >= report["diagnostics"]["ess_required"] > 3500
    assert min(report["diagnostics"][name] for name in ("ess_bulk", "ess_tail")) >= 3000


def test_chains_that_are_too_short_are_continued_free(
    dpbayes: Cli, bodies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("chains", "convergence"):
        monkeypatch.setattr(f"dpbayes_cli.inference.{module}.required_draws", lambda *_: 1000.0)
    monkeypatch.setattr("dpbayes_cli.inference.chains._MAX_LENGTHS", 1)
    release(dpbayes, bodies, spec_of("normal")).exits(0)
    (warning,) = json.loads(Path("out/release.json").read_text())["inference"]["warnings"]
    assert "effective draws, but " in warning
    assert "are required; the chains " in warning  # whether they agree so far depends on the noise
    assert "dpbayes infer BUNDLE --more" in warning
    assert f"WARNING: {warning[:40]}" in Path("out/report.md").read_text()
    longer = dpbayes("infer", "out", "--more", "--more", "--json").json["inference"]
    assert longer["warnings"] == []
    assert longer["diagnostics"]["ess_within_chains"] >= longer["diagnostics"]["ess_required"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    (spec_of("normal") | {"domain": {"lower": 5, "upper": 5}}, "domain"),
    (spec_of("normal") | {"domain": {"lower": 7, "upper": 5}}, "domain"),
    (spec_of("normal") | {"domain": {"upper": 5}}, "domain.lower"),
    (spec_of("normal") | {"domain": {"lower": 0, "upper": float("nan")}}, "domain.upper"),
    (spec_of("normal") | {"privacy": {"epsilon": "1e-7"}}, "privacy"),
    (spec_of("normal") | {"records": 0}, "records"),
    (spec_of("normal") | {"mechanism": "ops"}, "mechanism"),
    (spec_of("gamma-exponential") | {"domain": {"upper": 0}}, "domain.upper"),
    (spec_of("gamma-exponential") | {"domain": {"upper": 5, "out_of_bounds": "ignore"}}, "domain.out_of_bounds"),
    (spec_of("gamma-poisson") | {"domain": {"upper": 0}}, "domain.upper"),
    (spec_of("beta-geometric") | {"domain": {"upper": 2.5}}, "domain.upper"),
    (spec_of("normal-mean") | {"domain": {"lower": 1, "upper": 2, "variance": 0}}, "domain.variance"),
    (spec_of("multivariate-normal") | {"domain": {"columns": {}}}, "domain.columns"),
    (spec_of("multivariate-normal") | {"column": "height"}, "column"),
    (spec_of("multivariate-normal") | {"prior": {"freedom": 3}}, "prior.freedom"),
    (spec_of("multivariate-normal") | {"prior": {"mean": {"hight": 3}}}, "prior.mean"),
    (spec_of("multivariate-normal") | {"on_invalid": "impute:130", "domain": {"columns": {
        "height": {"lower": 120, "upper": 220}, "weight": {"lower": 20, "upper": 125}}}}, "on_invalid"),
]  # fmt: skip


def test_requests_that_cannot_work_are_refused_before_any_charge(dpbayes: Cli, bodies: Path, ledger_path: Path) -> None:
    for spec, where in REFUSED:
        release(dpbayes, bodies, spec).exits(3, where)
        assert not Path("out").exists()
        assert not ledger_path.exists()


def test_bounds_without_a_grid_between_them_are_refused_before_any_charge(
    dpbayes: Cli, bodies: Path, ledger_path: Path
) -> None:
    for model, domain in (
        ("gamma-exponential", {"upper": 1e-101}),
        ("normal", {"lower": 0, "upper": 1.21415e-319}),
        ("normal-mean", {"lower": -1e-320, "upper": 1e-320, "variance": 1}),
        ("multivariate-normal", {"columns": {"height": {"lower": 0, "upper": 1e-310}}}),
    ):
        release(dpbayes, bodies, spec_of(model, domain=domain)).exits(3, "below the upper bound")
        assert not ledger_path.exists() or dpbayes("budget", "show", "--json").json["accounts"] == []


def test_order_of_columns_is_not_part_of_a_request(dpbayes: Cli, bodies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two orders of the columns have one digest: a release killed after its seal is finished with the other order."""
    spec = spec_of("multivariate-normal", inference={"method": "naive"})
    turned = {**spec, "domain": {"columns": dict(reversed(BODIES["columns"].items()))}}
    with monkeypatch.context() as ended:
        ended.setattr(release_module, "analysis_of_draw", ending)
        assert release(dpbayes, bodies, turned).code != 0
    released = release(dpbayes, bodies, spec).json
    assert abs(released["posterior"]["mean[height]"]["mean"] - 170) < 30
    assert next(iter(released["posterior"])) == "mean[height]"
    assert dpbayes("infer", "out", "--json").code == 0


def test_sealed_statistics_of_another_request_are_refused(
    dpbayes: Cli, bodies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the draw is sealed, the model states its statistics in another order: no bundle may be written."""
    spec = spec_of("multivariate-normal", inference={"method": "naive"})
    with monkeypatch.context() as ended:
        ended.setattr(release_module, "analysis_of_draw", ending)
        assert release(dpbayes, bodies, spec).code != 0
    monkeypatch.setattr(MultivariateNormal, "columns", property(reversed_columns))
    refused = release(dpbayes, bodies, spec)
    assert refused.code != 0
    assert "not those of the release request" in refused.err
    assert not Path("out").exists()


def ending(*_: object) -> None:
    raise KeyboardInterrupt


def reversed_columns(model: MultivariateNormal) -> tuple[NumericColumn, ...]:
    return tuple(NumericColumn(name, low, high, 1 << 14) for name, low, high in reversed(model.bounds))


def test_release_json_states_what_a_record_adds(dpbayes: Cli, bodies: Path) -> None:
    release(dpbayes, bodies, spec_of("gamma-exponential"))
    document = json.loads(Path("out/release.json").read_text())
    scale = "value (0 to 40 mapped to -1048576 to 1048576)"
    assert document["meanings"] == {
        "sum": f"{scale}, rounded to the grid; 0 if the record is invalid",
        "valid": "1048576; 0 if the record is invalid",
    }
    assert scale in Path("out/report.md").read_text()
    imputed = spec_of("gamma-exponential", on_invalid="impute:8")
    assert dpbayes("release", bodies, "--spec", spec_file(imputed), "--out", "complete", "--json").code == 0
    document = json.loads(Path("complete/release.json").read_text())
    assert document["meanings"] == {"sum": "value (0 to 40 mapped to 0 to 1048576), rounded to the grid"}


@pytest.mark.parametrize("model", often(["gamma-exponential", "normal", "multivariate-normal"], 3))
def test_complete_records_need_no_count_and_their_number_may_be_private(dpbayes: Cli, bodies: Path, model: str) -> None:
    stand_in = "8" if model == "gamma-exponential" else "125"
    private = {"privacy": {"epsilon": 1, "neighbors": "add-remove"}, "dataset": "apart"}
    opening = ["--epsilon", "3", "--neighbors", "add-remove", "--separate-population", "--reason", "a test"]
    dpbayes("budget", "open", "apart", *opening)
    for more, n_records in (({"on_invalid": f"impute:{stand_in}"}, 800), (private, None)):
        name = spec_file(spec_of(model) | more)
        assert dpbayes("release", bodies, "--spec", name, "--out", str(n_records)).code == 0
        document = json.loads(Path(str(n_records), "release.json").read_text())
        assert document["n_records"] == n_records
        assert ("valid" in [item["name"] for item in document["statistics"]]) == (n_records is None)
