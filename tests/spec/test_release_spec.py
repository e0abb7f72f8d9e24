from __future__ import annotations

from decimal import Decimal
from typing import Any

import jsonschema
import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.registry import model_names
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.spec.template import template
from dpbayes_cli.spec.yaml_reader import parse_yaml
from tests.schemas import check_spec

MINIMAL: dict[str, Any] = {"model": "beta-bernoulli", "privacy": {"epsilon": "1"}}


def spec(**changes: Any) -> Any:
    return build_spec({**MINIMAL, **changes})


def test_a_minimal_spec_has_sensible_defaults() -> None:
    built = spec()
    assert built.options.epsilon == Decimal(1)
    assert (built.mechanism, built.on_invalid, str(built.privacy.neighbors)) == ("laplace", "drop", "replace-one")
    assert built.build_model().columns[0].levels == ("1", "0")


def test_epsilon_is_exact() -> None:
    assert spec(privacy={"epsilon": "0.1"}).options.epsilon == Decimal("0.1")
    assert spec(privacy={"epsilon": "1e-3"}).request["privacy"]["epsilon"] == "0.001"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"privacy": {"epsilon": "0"}}, "allowed: 1e-12"),
        ({"privacy": {"epsilon": "-1"}}, "privacy.epsilon: .*a negative number"),
        ({"privacy": {"epsilon": "1_0"}}, "not a plain decimal"),
        ({"privacy": {"epsilon": "nan"}}, "not a plain decimal"),
        ({"privacy": {"epsilon": "1001"}}, "allowed"),
        ({"privacy": {"epsilon": "1", "neighbors": "both"}}, "neighbors"),
        ({"domain": {"success": "yes"}}, "both success and failure"),
        ({"domain": {"success": "1", "failure": "1.0"}}, "mean the same cell"),
        ({"domain": {"success": " yes", "failure": "no"}}, "blank"),
        ({"prior": {"alpha": "0"}}, "prior.alpha"),
        ({"prior": {"alpha": "nan"}}, "prior.alpha"),
        ({"prior": {"alpha": "inf"}}, "prior.alpha"),
        ({"on_invalid": "ignore"}, "impute:VALUE"),
        ({"on_invalid": "impute:"}, "impute:VALUE"),
        ({"dataset": "../etc"}, "not a valid name"),
        ({"records": "-1"}, "records"),
        ({"records": "10", "privacy": {"epsilon": "1", "neighbors": "add-remove"}}, "private"),
        ({"source": {"delimiter": "ab"}}, "delimiter"),
        ({"source": {"delimiter": "\n"}}, "delimiter"),
        ({"source": {"delimiter": "x"}}, "delimiter"),
        ({"source": {"delimiter": '"'}}, "the same"),
        ({"source": {"columns": ["a"]}}, "header"),
        ({"source": {"header": "false"}}, "column names"),
        ({"inference": {"samples": "0"}}, "samples"),
        ({"inference": {"method": "magic"}}, "method"),
    ],
)
def test_wrong_values_are_refused_with_their_place(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        spec(**changes)


def test_a_prior_for_each_category() -> None:
    document = {
        "model": "dirichlet-categorical", "privacy": {"epsilon": "1"}, "domain": {"categories": ["a", "b", "c"]},
        "prior": {"concentration": {"b": "2", "a": "1", "c": "0.5"}},
    }  # fmt: skip
    assert build_spec(document).build_model().concentration == (1.0, 2.0, 0.5)  # type: ignore[attr-defined]
    document["prior"] = {"concentration": {"a": "1", "b": "2"}}
    with pytest.raises(SpecError, match="no concentration for 'c'"):
        build_spec(document).build_model()
    document["prior"] = {"concentration": {"a": "1", "b": "2", "d": "1"}}
    with pytest.raises(SpecError, match="no category 'd'"):
        build_spec(document).build_model()


def test_the_request_omits_defaults_and_paths() -> None:
    stated_default = spec(mechanism="laplace", inference={"samples": "4000"}, on_invalid="drop")
    assert stated_default.request == spec().request == {"model": "beta-bernoulli", "privacy": {"epsilon": "1"}}
    assert spec(data="x.csv", dataset="d", records="5").request == spec().request
    assert spec(privacy={"epsilon": "1.0"}).request_digest == spec().request_digest


def test_what_is_free_does_not_change_the_request() -> None:
    for free in ({"prior": {"alpha": "2"}}, {"inference": {"samples": "10"}}, {"inference": {"method": "naive"}}):
        assert spec(**free).question_digest == spec().question_digest
        assert spec(**free).request_digest != spec().request_digest
    for priced in ({"privacy": {"epsilon": "2"}}, {"column": "x"}, {"on_invalid": "impute:0"}):
        assert spec(**priced).question_digest != spec().question_digest


@pytest.mark.parametrize("model", model_names())
def test_a_template_with_every_comment_removed_is_the_same_request(model: str) -> None:
    text = template(model)
    everything = "\n".join(line.removeprefix("# ") for line in text.splitlines()[1:])
    assert build_spec(parse_yaml(everything)).request == build_spec(parse_yaml(text)).request


@pytest.mark.slow
def test_the_schema_refuses_what_the_spec_refuses() -> None:
    check_spec({"model": "beta-bernoulli", "privacy": {"epsilon": 1}})
    for wrong in ({"privacy": {"epsilon": 1}}, {**MINIMAL, "extra": 1}, {"model": "nope", "privacy": {"epsilon": 1}}):
        with pytest.raises(jsonschema.ValidationError):
            check_spec(wrong)


def test_samples_that_would_not_fit_in_memory_are_refused() -> None:
    coin = spec(inference={"samples": "10000000"})
    coin.check_samples(coin.build_model())
    letters = {"model": "dirichlet-categorical", "domain": {"categories": list("abcdefghijklmnopqrstuvwxyz")}}
    wide = build_spec({**letters, "privacy": {"epsilon": "1"}, "inference": {"samples": "10000000"}})
    with pytest.raises(SpecError, match="more than 250,000,000 numbers") as refused:
        wide.check_samples(wide.build_model())
    assert refused.value.where == "inference.samples"
    assert refused.value.hint == "at most 9,615,384 samples"


def test_a_spec_in_full_builds_the_same_request() -> None:
    built = spec(column="x", prior={"alpha": "2.5"}, source={"delimiter": "tab"})
    again = build_spec(built.stated_in_full)
    assert again.request_digest == built.request_digest
    assert again.source.delimiter == "\t"


def test_the_schema_takes_the_keys_of_groups_or_their_file() -> None:
    stated = {"model": "beta-bernoulli", "privacy": {"epsilon": 1}}
    check_spec({**stated, "by": {"column": "ward", "values": ["a", 7]}})
    check_spec({**stated, "by": {"column": "ward", "file": "wards.txt"}})
    with pytest.raises(jsonschema.ValidationError):
        check_spec({**stated, "mechanism": "ops", "by": {"column": "ward", "values": ["a"]}})
