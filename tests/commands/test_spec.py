"""``dpbayes spec``: templates, checks and the schema."""

from __future__ import annotations

import json
from pathlib import Path

from dpbayes_cli.core.registry import model_names
from dpbayes_cli.spec.schema import json_schema
from tests.commands.networks import naive_bayes, spec_file
from tests.conftest import Cli

COIN = "model: beta-bernoulli\nprivacy: {epsilon: 1}\n"


def test_every_template_passes_the_check_and_the_schema_is_printed(dpbayes: Cli) -> None:
    for model in model_names():
        Path("s.yaml").write_text(dpbayes("spec", "init", model).out)
        assert dpbayes("spec", "check", "s.yaml").code == 0
    assert dpbayes("spec", "schema").json == json.loads(json.dumps(json_schema()))


def test_the_check_refuses_what_release_would_refuse(dpbayes: Cli) -> None:
    for wrong in ("mechanism: lapplace", "on_invalid: 'impute:7'", "epsilon: 1"):
        Path("s.yaml").write_text(f"{COIN}{wrong}\n")
        assert dpbayes("spec", "check", "s.yaml").code == 3
    Path("s.yaml").write_text("model: beta-bernoulli\nprivacy: {epsilom: 1}\n")
    dpbayes("spec", "check", "s.yaml").exits(3, "'epsilon'")


def test_counts_of_valid_records_are_marked_not_private(dpbayes: Cli, coin: Path) -> None:
    Path("s.yaml").write_text(COIN)
    dpbayes("spec", "check", "s.yaml", "--against", coin).exits(2, f"dpbayes check {coin} --spec s.yaml")
    (counted,) = dpbayes("check", coin, "--spec", "s.yaml", "--json").json["checked"]
    assert (counted["invalid"], counted["records"]) == (5, 200)
    Path("numbers.csv").write_text("x\n3\n12\ny\n\n")
    Path("s.yaml").write_text("model: gamma-poisson\nprivacy: {epsilon: 1}\ndomain: {upper: 9}\n")
    (counted,) = dpbayes("check", "numbers.csv", "--spec", "s.yaml", "--json").json["checked"]
    assert (counted["invalid"], counted["records"]) == (2, 4)  # a number beyond the bounds is clamped
    Path("people.csv").write_text("class,kind,flag,age\nyes,w,1,70\n,w,1,70\n")
    name = spec_file(naive_bayes())
    document = dpbayes("check", "people.csv", "--spec", name, "--json").json
    assert (document["records"], document["valid"]) == (2, 1)
