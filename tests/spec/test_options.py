"""A mechanism reads its own options, others are refused, and the digests of old requests have not changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.registry import mechanism_type, model_names, model_type, supported_pairs, supporting_mechanisms
from dpbayes_cli.spec.foreign_options import find_foreign_options
from dpbayes_cli.spec.pair_flags import all_flags, flags_of
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec, spec_type
from dpbayes_cli.spec.schema import json_schema
from dpbayes_cli.spec.stored_spec import former_spec, stored_spec
from dpbayes_cli.spec.template import template
from dpbayes_cli.spec.yaml_reader import parse_yaml, read_spec_file
from dpbayes_cli.workflow.pricing import price
from tests.conftest import ROOT, Cli

PAIRS = supported_pairs()
SECTIONS = ("privacy", "sampling", "inference")
COIN = ("--model", "beta-bernoulli")


def options_of(model: type[Model], mechanism: type[Mechanism]) -> set[str]:
    return {each.key for each in flags_of(model, mechanism) if each.key.startswith(tuple(f"{s}." for s in SECTIONS))}


def test_every_mechanism_refuses_every_option_that_it_does_not_read() -> None:
    """The refusal names the option, the mechanism, and the mechanisms of the same model that read the option."""
    read = {pair: options_of(*pair) for pair in PAIRS}
    known, refused = set().union(*read.values()), 0
    for (model, mechanism), own in read.items():
        kind = spec_type(model.name, mechanism.name)
        for key in known:
            section, _, name = key.partition(".")
            document = {"model": model.name, "mechanism": mechanism.name, section: {name: "1"}}
            if key in own or "." in name:
                assert not [*find_foreign_options(document, kind)]
                continue
            (error,) = find_foreign_options(document, kind)
            readers = [by.name for (of, by), options in read.items() if of is model and key in options]
            assert error.where == key
            assert repr(mechanism.name) in error.message
            assert error.hint.endswith(", ".join(readers)) if readers else "no mechanism" in error.hint
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize(
    "stated",
    [
        ("--mu", "1"), ("--rho", "0.1", "--order", "7", "--n-steps", "4"), ("--kernel", "gibbs"),
        ("--mechanism", "ops", "--on-invalid", "impute:1", "--sweeps", "5"), ("--mcmc-sweeps", "60"),
        ("--mechanism", "ops", "--on-invalid", "impute:1", "--ess", "100"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_flag_that_is_not_read_is_refused_before_anything_is_charged(
    stated: tuple[str, ...], dpbayes: Cli, coin: Path
) -> None:
    dpbayes("release", coin, *COIN, "--eps", "1", *stated).exits(3, "does not use this option")
    assert dpbayes("budget", "show", "--json").json["accounts"] == []


def test_a_model_alone_is_answered_by_its_own_mechanism() -> None:
    for name in model_names():
        model = model_type(name)
        assert model.default_mechanism in supporting_mechanisms(model)
        assert model.default_mechanism == "laplace" or "laplace" not in supporting_mechanisms(model)
    alone, stated = build_spec(L), build_spec({**L, "mechanism": "noisy-newton"})
    assert alone.request == stated.request
    assert alone.request["mechanism"] == "noisy-newton"


@pytest.mark.parametrize("more", [{"sampling": {"draws": "4"}}, {"privacy": {"epsilon": "1", "order": "2"}}])
def test_an_option_of_the_former_default_alone_asks_for_that_mechanism(more: dict[str, Any]) -> None:
    assert build_spec({**L, **more}).mechanism == "gibbs-posterior"


def test_a_comparison_asks_each_mechanism_what_it_reads(dpbayes: Cli) -> None:
    asked = ("plan", *COIN, "--eps", "1", "--records", "20", "--trials", "0", "--compare", "--json")
    compared = {each["mechanism"] for each in dpbayes(*asked, "--delta", "1e-6", "--draws", "2").json}
    assert compared == set(supporting_mechanisms(model_type("beta-bernoulli")))
    assert dpbayes(*asked, "--likelihood-power", "0.5").code == 3


def test_the_common_help_is_short_grouped_and_light(dpbayes: Cli) -> None:
    shown = dpbayes("release", "--help").out
    check_page(shown)
    assert "dpbayes release --model NAME [--mechanism NAME] --help" in shown
    assert [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")] == [
        "Request:", "Privacy:", "Data:", "Inference and output:", "Ledger:",
    ]  # fmt: skip


def test_the_help_of_a_model_shows_what_applies_to_it_and_its_mechanism(dpbayes: Cli) -> None:
    flags = {each.key: each.flag.names[0] for each in all_flags()}
    for name in model_names():
        model = model_type(name)
        for by in (
            None,
            *(supporting_mechanisms(model) if name in {"hmm", "gamma-poisson", "logistic-regression"} else ()),
        ):
            stated = ["--model", name, *(["--mechanism", by] if by else [])]
            shown = dpbayes("release", *stated, "--help").out
            check_page(shown)
            words = {
                word.rstrip(",") for line in shown.splitlines() if line.startswith("  --") for word in line.split()
            }
            own = {each.key for each in flags_of(model, mechanism_type(by or model.default_mechanism))}
            data = {key for key in flags if key.startswith("source.") or key == "dataset"}
            for key, flag in flags.items():
                assert (flag in words) == (key in own - data), (stated, key)


def check_page(shown: str) -> None:
    lines = shown.splitlines()
    assert len(lines) <= 62
    assert max(map(len, lines)) <= 80


@pytest.mark.slow
def test_the_schema_of_specs_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_the_template_of_every_pair_is_a_valid_spec_with_a_cost() -> None:
    """It is also valid under the JSON Schema of its pair, which editors use."""
    schema = json_schema()
    named = {
        (each["properties"]["model"]["enum"][0], each["properties"]["mechanism"]["enum"][0]): name
        for name, each in schema["$defs"].items()
        if {"model", "mechanism"} <= each.get("properties", {}).keys()
        and not name.endswith(("PrivateBoundsSpec", "PrivateStructureSpec", "GroupsSpec"))
    }
    assert named.keys() == {(model.name, mechanism.name) for model, mechanism in PAIRS}
    for pair, name in named.items():
        text = template(*pair)
        spec = build_spec(parse_yaml(text))
        assert (spec.model, spec.mechanism) == pair
        price(spec, 10)
        validator = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]})
        validator.validate(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


IGNORED = ROOT / "tests" / "bundle" / "data" / "ignored-options"
"""A release of an earlier version: laplace, stated with --mu 1 --rho 0.1 --order 7 --steps 4 --chain-sweeps 60."""


def test_what_was_released_with_options_that_were_ignored_stays_readable(dpbayes: Cli, ledger_path: Path) -> None:
    shutil.copytree(IGNORED, "out")
    shutil.copy(IGNORED.with_suffix(".sqlite"), ledger_path)
    ledger_path.chmod(0o600)
    for command in (("verify", "out"), ("infer", "out", "--samples", "5"), ("report", "out")):
        dpbayes(*command).exits(0)
    assert "the ledger is consistent; its entry 2 charged this release" in dpbayes("verify", "out").out
    assert dpbayes("infer", "out", "--mcmc-sweeps", "60").code == 3


def test_a_stored_spec_may_hold_what_was_ignored_and_nothing_unknown() -> None:
    stored = {"model": "beta-bernoulli", "privacy": {"epsilon": "1", "mu": "1"}, "sampling": {"kernel": "gibbs"}}
    assert stored_spec(stored).request_digest == build_spec({**C, "privacy": {"epsilon": "1"}}).request_digest
    with pytest.raises(SpecError, match="unknown key"):
        stored_spec({**stored, "sampling": {"kernels": "gibbs"}})


C: dict[str, Any] = {"model": "beta-bernoulli"}
D: dict[str, Any] = {"model": "dirichlet-categorical", "domain": {"categories": ["a", "b", "c"]}}
N: dict[str, Any] = {
    "model": "naive-bayes-mixture",
    "domain": {"variables": {"x": {"values": ["0", "1"]}}, "classes": "2"},
}
L: dict[str, Any] = {
    "model": "logistic-regression",
    "domain": {"target": {"column": "y", "values": ["0", "1"]}, "features": {"x": {"lower": "0", "upper": "1"}}},
}
H: dict[str, Any] = {
    "model": "hmm",
    "domain": {
        "sequence": {"column": "s", "values": ["a", "b"]}, "time": {"column": "t", "values": ["1", "2"]},
        "features": {"k": {"values": ["0", "1"]}}, "states": "2",
    },
}  # fmt: skip
IDS = {
    "abalone-linear-regression": ("4be55c4fef911b59", "da4100c984dd55c4"),
    "adult-bayes-net": ("37c4c609da40dda7", "6c01c53db7138d57"),
    "adult-logistic-regression": ("1acc44ddef177716", "5ac57b6090d2101f"),
    "adult-naive-bayes": ("3cd2d27e8144144e", "d9bb483e12d16f5a"),
    "clinic-age-draw": ("d4ff1c1c48a541c4", "d808f555caddee70"),
    "clinic-age-months": ("77c2030e1a6321c0", "90bd867406ea8a94"),
    "clinic-age-private-bounds": ("775ecb6fb7e2611d", "e9260c6958063559"),
    "clinic-age": ("d0c6f8130631f23b", "0d0d7fd416c43118"),
    "clinic-classes": ("42c94c41c670a768", "2575c83cebc0f0c1"),
    "clinic-months-draws": ("ab1a5b4dfaabec96", "46b791705626c544"),
    "clinic-months-estimate": ("eee923cc65a270e6", "ff3cbef18ceeafa4"),
    "clinic-months": ("dc60d40c90c65ec2", "34cb6c2c7a2641e7"),
    "clinic-relapse-complete": ("8877a881642f3131", "13c388b83b7e87b3"),
    "clinic-relapse": ("429c1ee36d176f8d", "5e6a8756c9266843"),
    "events-hmm": ("11b37abd4e40e5a9", "1eadaceb0fe54989"), "relapse": ("352455156c795ce6", "83965d14feb3874b"),
    "survey-add-remove": ("96295e3163026a8c", "90a5a6338378043d"), "survey": ("8e51f4d9e4c515ed", "dfd640145f268614"),
}  # fmt: skip
"""By config, the digests of its request and question before mechanisms declared their options."""
STATED: list[tuple[dict[str, Any], str, dict[str, Any], dict[str, Any], str, str]] = [
    (C, "laplace", {"epsilon": "1.0"}, {}, "352455156c79", "83965d14feb3"),
    (C, "laplace", {"epsilon": "0.5", "neighbors": "add-remove"}, {}, "046d69d4ce9c", "48ff00b933c8"),
    (C, "gaussian", {"rho": "0.1"}, {}, "d15a28552bfc", "30384499d680"),
    (C, "gaussian", {"epsilon": "1", "delta": "1e-7"}, {}, "6924c32c9ea1", "62366bc2492e"),
    (C, "ops", {"epsilon": "1"}, {"draws": "5", "power_applies_to": "joint", "support": ["0.1", "0.9"]},
     "7c197e839fa7", "de6efad38aba"),
    (C, "ops", {"epsilon": "1"}, {"draws": "1", "power_applies_to": "likelihood"}, "3d78037bb6f4", "b74eb0ed42aa"),
    (D, "map", {"epsilon": "2"}, {"selection": "permute-and-flip", "draws": "2"}, "a0547e7ed38c", "1ec19d66cf03"),
    (D, "map", {"epsilon": "2"}, {"selection": "exponential"}, "bc08507868f3", "563933ce3051"),
    (C, "rdp-diffuse", {"epsilon": "0.1", "order": "8"}, {"draws": "3"}, "b343bf70ca40", "6f83b6c26118"),
    (C, "rdp-direct", {"order": "2"}, {}, "77d08d0350b6", "6b4204edc65f"),
    (C, "gibbs", {"epsilon": "1"}, {"kernel": "barker", "sweeps": "300", "draws": "4"}, "5ef9b79a9304", "f18cb71920e0"),
    (N, "gibbs", {"epsilon": "1"}, {"kernel": "annealed", "sweeps": "50", "log_weight_epsilon": "0.10"},
     "ddfb608fd44b", "dc0b0e9bc876"),
    (L, "gibbs-posterior", {"mu": "0.50"}, {"likelihood_power": "0.5", "n_steps": "20", "step_size": "0.001"},
     "579fa5ff16ab", "31608ba94753"),
    (L, "gibbs-posterior", {"epsilon": "1", "order": "8"}, {"calibration": "geumlek", "sampler": "langevin"},
     "5115455faf0e", "6763c0ff00b8"),
    (L, "gibbs-posterior", {"rho": "0.1"}, {"certificate": "total-variation", "gamma": "0.05"},
     "691f7ac56400", "b5b213f17117"),
    (L, "rdp-concentrated", {"epsilon": "0.1", "order": "8"}, {"likelihood_power": "0.5", "draws": "2"},
     "49c2718cb73d", "f0692e5cb738"),
]  # fmt: skip


def test_no_id_of_a_request_has_changed() -> None:
    """IDs of releases are derived from these digests: a change would charge old releases again."""
    paths = {path.stem: path for path in (ROOT / "configs" / "releases").glob("*.yaml")}
    for name, digests in IDS.items():
        stated = read_spec_file(paths[name])
        assert digests_of(former_spec(stated, build_spec(stated)) or build_spec(stated), 16) == digests, name
    for base, mechanism, privacy, sampling, *digests_stated in STATED:
        stated = {"mechanism": mechanism, "privacy": privacy, "sampling": sampling}
        assert digests_of(build_spec({**base, **stated}), 12) == tuple(digests_stated), stated
    chains = {**H, "privacy": {"epsilon": "1"}, "inference": {"mcmc_sweeps": "500", "state_sampler": "collapsed"}}
    assert digests_of(build_spec(chains), 12) == ("e576359a33cc", "926cdd2210ee")


def digests_of(spec: ReleaseSpec, length: int) -> tuple[str, str]:
    return spec.request_digest[:length], spec.question_digest[:length]
