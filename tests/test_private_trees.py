"""Private trees as a custodian requests them: one charge for tree and tables, one draw, one bundle."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from dpbayes_cli.bundle.document import parse_document
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.workflow.pricing import price
from dpbayes_cli.workflow.tree_split import simulate_tree_split
from tests.conftest import Cli
from tests.schemas import check_document

VARIABLES: dict[str, Any] = {
    "a": {"values": ["x", "y", "z"], "impute": "x"}, "b": {"cuts": [1, 2], "impute": 0},
    "c": {"values": ["u", "v"], "impute": "u"}, "d": {"values": ["0", "1"], "impute": "0"},
}  # fmt: skip
SPEC: dict[str, Any] = {
    "model": "bayes-net", "dataset": "toy", "privacy": {"epsilon": "150"},
    "structure": {"private": {"epsilon": "120"}}, "domain": {"target": "c", "variables": VARIABLES},
}  # fmt: skip


@pytest.fixture
def toy(place: Path) -> Path:
    """A chain a - b - c, and d, which depends on a; some cells are invalid and become their stand-ins."""
    rng, lines = np.random.default_rng(7), ["d,c,b,a"]
    for _ in range(400):
        a = int(rng.integers(3))
        b = a if rng.random() < 0.8 else int(rng.integers(3))
        c = int(rng.random() < (0.9 if b > 1 else 0.2))
        d = int(rng.random() < (0.8 if a == 0 else 0.1))
        lines.append(f"{d if rng.random() < 0.95 else '?'},{'uv'[c]},{b + 0.5 if b else ''},{'xyz'[a]}")
    (place / "toy.csv").write_text("\n".join(lines) + "\n")
    (place / "spec.yaml").write_text(yaml.safe_dump(SPEC))
    return place / "toy.csv"


def test_tree_and_tables_are_charged_once_verified_and_replayed(dpbayes: Cli, toy: Path) -> None:
    """At a large epsilon the tree is the maximum spanning tree, and the tables are those of the data."""
    dpbayes("budget", "open", "toy", "--epsilon", "1000")
    released = dpbayes("release", toy, "--spec", "spec.yaml", "--out", "out", "--json").json
    assert released["structure"] == {"a": ["b"], "b": ["c"], "c": [], "d": ["a"]}
    assert released["guarantee"]["epsilon"] == 270
    assert [(p["kind"], p["epsilon"]) for p in released["guarantee"]["parts"]] == [
        ("bounded-range", 120),
        ("pure", 150),
    ]
    assert released["remaining"] == {"epsilon": "730"}
    rows = [line.split(",") for line in toy.read_text().splitlines()[1:]]
    exact = sum(row[0] in {"0", "?"} and row[3] == "x" for row in rows)
    noisy = {each["name"]: each["value"] for each in released["statistics"]}["count[d=0|a=x]"]
    assert noisy == pytest.approx(exact, abs=3)  # scale 8 / 150: off by more with probability below 1e-24
    content = Path("out/release.json").read_bytes()
    check_document(json.loads(content))
    assert parse_document(content).pretty() == content
    assert dpbayes("verify", "out").code == 0
    toy.write_bytes(b"")  # a replay does not open the data
    again = dpbayes("release", toy, "--spec", "spec.yaml", "--out", "copy", "--json").json
    assert (again["replayed"], again["structure"], again["remaining"]) == (
        True,
        released["structure"],
        {"epsilon": "730"},
    )
    assert Path("copy/release.json").read_bytes() == content
    tree = "tree      b - a, c - b, a - d, found privately at a cost of epsilon 120"
    assert tree in dpbayes("release", toy, "--spec", "spec.yaml", "--out", "copy").out
    assert "treats the tree as fixed in advance" in Path("out/report.md").read_text()
    assert dpbayes("infer", "out", "--samples", "50", "--prior", "concentration=2").code == 0
    document = json.loads(content)
    wrong = {"a": ["d"], "b": ["c"], "c": [], "d": ["a"]}
    changes: list[dict[str, Any]] = [
        {"structure": wrong}, {"structure": {**released["structure"], "b": ["a"], "a": ["c"]}},
        {"bounds": {"lower": 0.0, "upper": 1.0}},
    ]  # fmt: skip
    for change in changes:
        Path("out/release.json").write_text(json.dumps({**document, **change}))
        assert dpbayes("verify", "out").code == 7
    del document["structure"]
    Path("out/release.json").write_text(json.dumps(document))
    assert dpbayes("infer", "out").code == 7


def stated(**changes: Any) -> Any:
    return json.loads(json.dumps({**SPEC, **changes}), parse_int=str, parse_float=str)


def test_the_cost_is_composed_of_bounded_range_and_that_of_the_tables() -> None:
    """Three edges of range 0.1 each cost 3 * 0.1^2 / 8 in zCDP, and Gaussian noise its rho."""
    gaussian = stated(mechanism="gaussian", privacy={"rho": "0.01"}, structure={"private": {"epsilon": "0.3"}})
    assert price(build_spec(gaussian)).plan.guarantee.rho == Decimal("0.01375")
    default = price(build_spec(stated(privacy={"epsilon": "1"}, structure={"private": {}}))).plan
    assert [step.guarantee.epsilon for step in default.steps] == [Decimal("0.25"), Decimal(1)]


def test_requests_without_a_private_tree_are_refused(dpbayes: Cli, toy: Path, ledger_path: Path) -> None:
    def variables(**changes: Any) -> dict[str, Any]:
        return {"domain": {"variables": {**VARIABLES, **changes}}}

    refused: list[tuple[dict[str, Any], str]] = [
        ({"privacy": {"epsilon": 1, "neighbors": "add-remove"}}, "number of records is private"),
        ({"mechanism": "fourier-laplace"}, "cannot use private structure"),
        ({"mechanism": "ops", "sampling": {"draws": 1}}, "cannot use private structure"),
        ({"mechanism": "gaussian", "privacy": {"rho": 1}, "structure": {"private": {}}}, "structure.private.epsilon"),
        ({"structure": {"private": {"epsilon": 0}}}, "structure.private.epsilon"),
        ({"structure": {"private": {"kind": "forest"}}}, "structure.private.kind"),
        ({"bounds": {"private": {"epsilon": 1, "high": 2}}}, "bounds"),
        (variables(a={**VARIABLES["a"], "parents": ["b"]}), "states its parents"),
        (variables(b={"cuts": [1, 2]}), "no stand-in"),
        (variables(a={"values": ["x", "y,z"], "impute": "x"}), "holds a character"),
        ({"domain": {"variables": {k: VARIABLES[k] for k in "ab"}}}, "at least 3 variables"),
        ({"model": "beta-bernoulli", "domain": {}}, "cannot be found privately"),
    ]
    for change, says in refused:
        Path("spec.yaml").write_text(yaml.safe_dump({**SPEC, **change}))
        done = dpbayes("release", toy, "--spec", "spec.yaml", "--out", "out")
        assert (done.code, says in done.err) == (3, True), (says, done.err)
    assert not ledger_path.exists()


@pytest.mark.slow
def test_a_plan_prints_both_costs_and_recommends_a_split(dpbayes: Cli, toy: Path) -> None:
    Path("spec.yaml").write_text(
        yaml.safe_dump(stated(privacy={"epsilon": "3"}, structure={"private": {"epsilon": "2"}}))
    )
    planned = dpbayes("plan", "--spec", "spec.yaml", "--records", "300", "--trials", "2", "--json").json
    assert [planned["steps"][name]["epsilon"] for name in ("structure", "statistics")] == [2.0, 3.0]
    known, split = planned["sentences"][2:4]
    assert known == "These numbers are for a tree that is known in advance."
    assert split.startswith("Of the total epsilon of 5, ")
    assert "with the requested 2, it is " in split


GAUSSIAN = {"mechanism": "gaussian", "privacy": {"rho": "0.02"}, "structure": {"private": {"epsilon": "0.2"}}}


@pytest.mark.parametrize(
    ("changes", "total", "epsilon"),
    [
        ({"privacy": {"epsilon": "1"}, "structure": {"private": {}}}, "epsilon of 1.25", "0.25"),
        pytest.param(GAUSSIAN, "rho of 0.0216667", "0.2", marks=pytest.mark.slow),
    ],
    ids=["laplace", "gaussian"],
)
def test_the_simulated_errors_are_smallest_between_the_extremes(
    changes: dict[str, Any], total: str, epsilon: str
) -> None:
    """With the smallest part of a small budget the tree is nearly random; with the largest, tables are mostly noise."""
    split = simulate_tree_split(price(build_spec(stated(**changes))), 1000)
    assert split is not None
    epsilons = sorted(split.errors)
    assert min(split.errors.values()) < 0.9 * min(split.errors[epsilons[0]], split.errors[epsilons[-1]])
    assert (split.total, split.stated) == (total, Decimal(epsilon))
