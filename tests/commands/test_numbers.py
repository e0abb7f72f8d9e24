"""Releases of numbers from the shell: every model of numbers, and the requests that are refused before any charge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import dpbayes_cli.workflow.release as release_module
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.models.multivariate_normal import MultivariateNormal
from tests.conftest import Cli

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


def spec_file(spec: dict[str, Any]) -> str:
    Path("spec.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    return "spec.yaml"


LONG = {"multivariate-normal"}
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
    assert document["inference"]["warnings"] == []
    assert [item["name"] for item in document["statistics"]][-1] == "valid"
    again = release(dpbayes, bodies, spec).json
    assert again["replayed"]
    assert again["posterior"] == printed["posterior"]
    wider = dpbayes("infer", "out", "--samples", "100", "--ess", "100", "--json").json
    assert list(wider["posterior"]) == MODELS[model][1]
    assert dpbayes("report", "out").code == 0


@pytest.mark.slow
def test_the_posterior_of_body_height_is_near_the_truth(dpbayes: Cli, bodies: Path) -> None:
    """Mean 170 and variance 64: nine posterior standard deviations, a false-fail rate far below 1e-9."""
    posterior = release(dpbayes, bodies, spec_of("normal")).json["posterior"]
    for name, truth in (("mean", 170.0), ("variance", 64.0)):
        assert abs(posterior[name]["mean"] - truth) < 9 * posterior[name]["sd"]


def test_a_chain_says_how_far_it_is_from_the_exact_posterior(dpbayes: Cli, bodies: Path) -> None:
    spec = spec_of("gamma-exponential", inference={"method": "chain", "ess": 3000})
    release(dpbayes, bodies, spec)
    report = json.loads(Path("out/release.json").read_text())["inference"]
    assert report["method"] == "chain"
    assert report["diagnostics"]["ks_exact"] < 0.06
    assert report["diagnostics"]["r_hat"] <= 1.01
    assert min(report["diagnostics"][name] for name in ("ess_bulk", "ess_tail")) >= 3000


@pytest.mark.slow
def test_a_run_that_did_not_converge_is_published_with_a_warning(
    dpbayes: Cli, bodies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpbayes_cli.inference.chains._MAX_ROUNDS", 1)
    done = release(dpbayes, bodies, spec_of("normal", inference={"ess": 5_000}))
    assert done.code == 0
    assert "not reached" in json.loads(Path("out/release.json").read_text())["inference"]["warnings"][0]
    assert "**Warning: the chains have not reached" in Path("out/report.md").read_text()
    assert "WARNING: the chains have not reached" in dpbayes("infer", "out", "--ess", "5000").out


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


@pytest.mark.parametrize(("spec", "where"), REFUSED)
def test_what_cannot_work_is_refused_before_any_charge(
    dpbayes: Cli, bodies: Path, ledger_path: Path, spec: dict[str, Any], where: str
) -> None:
    refused = release(dpbayes, bodies, spec)
    assert refused.code == 3
    assert where in refused.err
    assert not Path("out").exists()
    assert not ledger_path.exists() or dpbayes("budget", "show", "--json").json["accounts"] == []


@pytest.mark.parametrize(
    ("model", "domain"),
    [
        ("gamma-exponential", {"upper": 1e-320}),
        ("gamma-exponential", {"upper": 1e-101}),
        ("normal", {"lower": 0, "upper": 1.21415e-319}),
        ("normal-mean", {"lower": -1e-320, "upper": 1e-320, "variance": 1}),
        ("multivariate-normal", {"columns": {"height": {"lower": 0, "upper": 1e-310}}}),
    ],
)
def test_bounds_without_a_grid_between_them_are_refused_before_any_charge(
    dpbayes: Cli, bodies: Path, model: str, domain: dict[str, Any]
) -> None:
    refused = release(dpbayes, bodies, spec_of(model, domain=domain))
    assert refused.code == 3
    assert "below the upper bound" in refused.err
    assert dpbayes("budget", "show", "--json").json["accounts"] == []


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


def test_a_missing_column_of_several_is_a_data_error(dpbayes: Cli, bodies: Path) -> None:
    columns = {"height": {"lower": 120, "upper": 220}, "wieght": {"lower": 20, "upper": 150}}
    assert release(dpbayes, bodies, spec_of("multivariate-normal") | {"domain": {"columns": columns}}).code == 4


@pytest.mark.parametrize(
    "model", ["normal", "gamma-exponential", pytest.param("multivariate-normal", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("more", [{"on_invalid": "impute:125"}, {"privacy": {"epsilon": 1, "neighbors": "add-remove"}}])
def test_complete_records_and_private_numbers_of_them(
    dpbayes: Cli, bodies: Path, model: str, more: dict[str, Any]
) -> None:
    if model == "gamma-exponential" and "on_invalid" in more:
        more = {"on_invalid": "impute:8"}
    assert release(dpbayes, bodies, spec_of(model) | more).code == 0
    document = json.loads(Path("out/release.json").read_text())
    assert document["n_records"] == (800 if "on_invalid" in more else None)
    names = [item["name"] for item in document["statistics"]]
    assert ("valid" in names) == ("on_invalid" not in more)


@pytest.mark.slow
def test_plan_simulates_numbers(dpbayes: Cli) -> None:
    planned = dpbayes(
        "plan", "--model", "gamma-exponential", "--upper", "4", "--eps", "0.5", "--records", "500", "--trials", "25",
        "--prior", "shape=8,rate=4", "--json",
    ).json  # fmt: skip
    assert planned["expected"]["inflation"] > 1.0
    assert abs(planned["expected"]["coverage"]["noise-aware"] - 0.9) < 0.4  # left with probability below 1e-7


def test_counting_valid_numbers(dpbayes: Cli, bodies: Path) -> None:
    Path("spec.yaml").write_text(yaml.safe_dump(spec_of("normal")))
    counted = dpbayes("spec", "check", "spec.yaml", "--against", bodies, "--json").json["NOT PRIVATE"]
    assert counted == {"valid": 799, "invalid": 1, "records": 800}
