"""Specs of networks: what is wrong is named with its place, large ones are read fast, templates and configs work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.section import require_type
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.privacy.dag import MAX_CELLS, cell_names
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.spec.yaml_reader import parse_yaml, read_spec_file
from dpbayes_cli.workflow.pricing import price
from tests.conftest import ROOT, Cli, cpu_limit, often
from tests.schemas import check_spec

CONFIGS = [ROOT / "configs" / "releases" / f"adult-{kind}.yaml" for kind in ("bayes-net", "naive-bayes")]
TWO: dict[str, Any] = {"a": {"values": ["x", "y"]}, "b": {"values": ["p", "q", "r"]}}


CIRCLE = {
    name: {"values": ["0", "1"], "parents": list(parents)}
    for name, parents in {"a": "", "b": "ad", "c": "b", "d": "c", "e": "d"}.items()
}


def spec(variables: dict[str, Any], model: str = "bayes-net", target: str | None = None, **changes: Any) -> Any:
    domain = {"variables": variables} if target is None else {"variables": variables, "target": target}
    return build_spec({"model": model, "privacy": {"epsilon": "1"}, "domain": domain, **changes})


def with_b(**changes: Any) -> dict[str, Any]:
    return {**TWO, "b": {**TWO["b"], **changes}}


def with_a(**changes: Any) -> dict[str, Any]:
    return {**TWO, "a": {**TWO["a"], **changes}}


@pytest.mark.parametrize(
    ("variables", "where", "says"),
    [
        ({**with_a(parents=["b"]), "b": with_b(parents=["a"])["b"]}, "domain", "a -> b -> a|b -> a -> b"),
        (with_a(parents=["a"]), "domain", "a -> a"),
        (with_a(parents=["bb"]), "domain", "'a' has a parent 'bb' that is not a variable; did you mean 'b'?"),
        (with_a(parents=["b", "b"]), "domain", "'a' names a parent twice"),
        (with_b(values=["p"]), "domain.variables.b", "at least two values"),
        (with_b(values=[]), "domain.variables.b", "must have values or cuts"),
        (with_b(cuts=["1"]), "domain.variables.b", "must have values or cuts"),
        (with_b(values=["p", " q"]), "domain.variables.b", "blank"),
        (with_b(values=["1", "p", "01.0"]), "domain.variables.b", "'1' and '01.0' mean the same cell"),
        ({**TWO, "b": {"cuts": ["1", "1"]}}, "domain.variables.b", "cuts must ascend"),
        ({**TWO, "b": {"cuts": ["-0", "0"]}}, "domain.variables.b", "cuts must ascend"),
        ({**TWO, "b": {"cuts": ["0", "nan", "1"]}}, "domain.variables.b.cuts[1]", "expected a number"),
        ({**TWO, "b": {"cuts": ["1e400"]}}, "domain.variables.b.cuts[0]", "out of range"),
        ({**TWO, "b.c": {"cuts": ["x"]}}, "domain.variables.b.c.cuts[0]", "expected a number"),
        (with_a(weight="0"), "domain.variables.a.weight", "0.001"),
        (with_a(weight="1e4"), "domain.variables.a.weight", "1000"),
        (with_a(parents=list("abcdefghijklmnopq")), "domain.variables.a.parents", "at most 16"),
        ({}, "domain.variables", "at least 1"),
        (CIRCLE, "domain", "b -> c -> d -> b|c -> d -> b -> c|d -> b -> c -> d"),
    ],
)
def test_what_is_wrong_with_a_variable_is_named_with_its_place(
    variables: dict[str, Any], where: str, says: str
) -> None:
    with pytest.raises(SpecError) as refused:
        spec(variables)
    assert refused.value.where == where
    assert any(each in refused.value.message for each in says.split("|"))


def test_an_unknown_key_of_a_variable_suggests_the_nearest() -> None:
    for variables, key, meant in (
        (with_a(wieght="2"), "wieght", "weight"),
        (with_b(parent=["a"]), "parent", "parents"),
    ):
        with pytest.raises(SpecError, match="unknown key") as refused:
            spec(variables)
        assert refused.value.where == f"domain.variables.{'a' if key == 'wieght' else 'b'}.{key}"
        assert refused.value.hint == f"did you mean {meant!r}?"


def test_naive_bayes_has_a_target_two_variables_and_no_parents() -> None:
    for variables, target, where, says in (
        (TWO, "c", "domain", "target is 'c', which is not a variable; allowed: a, b"),
        (TWO, None, "domain.target", "missing"),
        ({"a": TWO["a"]}, "a", "domain.variables", "expected at least 2"),
        (with_a(parents=["b"]), "b", "domain.variables.a.parents", "unknown key"),
    ):
        with pytest.raises(SpecError) as refused:
            spec(variables, "naive-bayes", target)
        assert (refused.value.where, says in refused.value.message) == (where, True), refused.value.message


@pytest.mark.parametrize(
    ("concentration", "where", "says", "hint"),
    [
        ({"a": "1", "b": "1", "cc": "1"}, "prior.concentration", "there is no variable 'cc'", "allowed: a, b"),
        ({"a": "1"}, "prior.concentration", "no concentration for 'b'", ""),
        ({"a": "1", "b": {"p": "1", "q": "1"}}, "prior.concentration.b", "no concentration for 'r'", ""),
        ({"a": "1", "b": {"p": "1", "q": "1", "r": "1", "Q": "1"}}, "prior.concentration.b", "no value 'Q'", "'q'"),
        ({"a": "0", "b": "1"}, "prior.concentration.a", "expected a number of at least 0.000001", ""),
        ({"a": "1", "b": {"p": "-1"}}, "prior.concentration.b.p", "expected a number of at least 0.000001", ""),
    ],
)
def test_a_prior_names_variables_and_values_of_the_domain(
    concentration: dict[str, Any], where: str, says: str, hint: str
) -> None:
    with pytest.raises(SpecError) as refused:
        spec(TWO, prior={"concentration": concentration}).build_model()
    assert refused.value.where == where
    assert says in refused.value.message
    assert hint in refused.value.hint


def test_concentrations_are_those_of_values_in_their_order() -> None:
    stated = {"b": {"r": "3", "p": "1", "q": "2"}, "a": "0.5"}
    model = require_type(spec(TWO, prior={"concentration": stated}).build_model(), DiscreteBayesNet)
    assert model.concentrations == ((0.5, 0.5), (1.0, 2.0, 3.0))


@pytest.mark.parametrize(
    ("variables", "rule", "where", "hint"),
    [
        (with_b(impute="z"), "drop", "b.impute", "impute one of: p, q, r"),
        ({**TWO, "b": {"cuts": ["1"], "impute": "nan"}}, "drop", "b.impute", "any number"),
        ({**TWO, "b": {"cuts": ["1"], "impute": "x"}}, "drop", "b.impute", "any number"),
        (TWO, "impute:x", "on_invalid", "impute one of: p, q, r"),
        (with_a(impute="q"), "impute:q", "a.impute", "impute one of: x, y"),
    ],
)
def test_what_stands_in_must_be_in_the_domain(variables: dict[str, Any], rule: str, where: str, hint: str) -> None:
    with pytest.raises(SpecError) as refused:
        price(spec(variables, on_invalid=rule))
    assert refused.value.where == where
    assert hint in refused.value.hint


def test_too_many_cells_are_refused_and_the_largest_table_named() -> None:
    levels = [f"v{i}" for i in range(64)]
    variables = {name: {"values": levels, "parents": list("abc"[:k])} for k, name in enumerate("abcd")}
    with pytest.raises(
        SpecError, match=r"17,043,520 cells, expected at most 262,144; the largest is the table of 'd'"
    ) as refused:
        spec(variables)
    assert refused.value.where == "domain"
    assert 64 + 64**2 + 64**3 > MAX_CELLS > 64 + 64**2
    del variables["d"]
    with pytest.raises(SpecError, match="266,304 cells"):
        spec(variables)


def test_two_cells_of_one_name_are_refused() -> None:
    """Values may hold the punctuation of cell names if no two cells get the same name."""
    variables = {
        "b": {"values": ["1", "1,c=2"]},
        "c": {"values": ["2", "2,c=2"]},
        "a": {"values": ["<=50K", ">50K"], "parents": ["b", "c"]},
    }
    with pytest.raises(SpecError, match="two cells would have the name"):
        spec(variables)
    variables["b"] = {"values": ["1", "one, or so"]}
    names = cell_names(require_type(spec(variables).build_model(), DiscreteBayesNet).network, "theta")
    assert len(set(names)) == len(names) == 2 + 2 + 8


def test_parities_of_one_name_are_refused() -> None:
    variables = {
        "a": {"values": ["0", "1"]}, "b": {"values": ["0", "1"], "parents": ["a"]}, "a,b": {"values": ["0", "1"]},
    }  # fmt: skip
    price(spec(variables))
    with pytest.raises(SpecError, match="two released values would have the same name"):
        price(spec(variables, mechanism="fourier-laplace"))


@pytest.mark.parametrize("model", often(["naive-bayes", "bayes-net"], 2))
def test_a_thousand_variables_are_read_checked_and_priced(model: str, place: Path) -> None:
    """The spec is within the limits of the reader."""
    lines = ["model: " + model, "privacy: {epsilon: 1}", "domain:", "  target: v0", "  variables:"]
    for i in range(1000):
        parents = f", parents: [{', '.join(f'v{j}' for j in range(max(0, i - 3), i))}]" if model == "bayes-net" else ""
        lines.append(f"    v{i}: {{values: [never, seldom, often, always], impute: never{parents}}}")
    (place / "large.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with cpu_limit(60.0):
        plan = price(build_spec(read_spec_file(place / "large.yaml"))).plan
    cells = 4 + 999 * 16 if model == "naive-bayes" else 4 + 16 + 64 + 997 * 256
    assert len(plan.steps[0].statistic.names) == cells
    assert plan.steps[0].statistic.sensitivity_l1 == 2000


_AXES = "  sequence: {column: place, values: [u, v]}\n  time: {column: day, values: ['1', '2']}\n  states: 2\n"
_FEATURES = "    a: {values: ['1', '0'], impute: '0'}\n    b: {cuts: [5], impute: 9}\n"
SPECS = {
    "naive-bayes": f"domain:\n  target: a\n  variables:\n{_FEATURES}",
    "hmm": f"domain:\n{_AXES}  features:\n{_FEATURES}",
    "naive-bayes-mixture": f"mechanism: gibbs\ndomain:\n  classes: 2\n  variables:\n{_FEATURES}",
}


@pytest.mark.parametrize("model", SPECS)
def test_a_check_of_data_counts_invalid_cells_even_if_a_value_replaces_them(
    place: Path, dpbayes: Cli, model: str
) -> None:
    (place / "s.yaml").write_text(f"model: {model}\nprivacy: {{epsilon: 1}}\n{SPECS[model]}", encoding="utf-8")
    (place / "d.csv").write_text("place,day,a,b\nu,1,1,5\nv,2,,\nu,9,2,x\nv,1,0,4.999\n", encoding="utf-8")
    done = dpbayes("check", "d.csv", "--spec", "s.yaml", "--json").exits(0)
    invalid = {column["name"]: column["invalid"] for column in done.json["checked"]}
    assert (invalid["a"], invalid["b"], done.json["records"]) == (2, 2, 4)
    if model == "hmm":
        assert (invalid["place"], invalid["day"]) == (0, 1)
    if model == "naive-bayes":
        assert done.json["valid"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configs_of_adult_are_valid_in_the_schema_too(path: Path) -> None:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    check_spec(document)
    built = build_spec(read_spec_file(path))
    wrong = {**document, "domain": {**document["domain"], "variables": {"age": {"cut": [1]}}}}
    with pytest.raises(jsonschema.ValidationError):
        check_spec(wrong)
    assert set(document["domain"]["variables"]) == set(built.domain.variables)  # type: ignore[attr-defined]


def test_the_order_of_variables_changes_names_and_not_what_is_valid() -> None:
    first, second = spec(TWO), spec(dict(reversed(TWO.items())))
    assert first.build_model().parameters != second.build_model().parameters
    assert set(first.build_model().parameters) == set(second.build_model().parameters)


def test_a_schema_for_numbers_and_truth_values_as_yaml_reads_them() -> None:
    text = (
        "model: bayes-net\nprivacy: {epsilon: 1}\ndomain:\n  variables:\n    a: {values: [1, yes, 2.5], impute: no}\n"
    )
    check_spec(yaml.safe_load(text))
    with pytest.raises(SpecError, match="'no' is not in the domain of a"):
        price(build_spec(parse_yaml(text)))
