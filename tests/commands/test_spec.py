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
    refused = dpbayes("spec", "check", "s.yaml")
    assert (refused.code, "'epsilon'" in refused.err) == (3, True)


def test_counts_of_valid_records_are_marked_not_private(dpbayes: Cli, coin: Path) -> None:
    Path("s.yaml").write_text(COIN)
    counted = dpbayes("spec", "check", "s.yaml", "--against", coin, "--json").json
    assert counted["NOT PRIVATE"] == {"successes": 60, "failures": 135, "invalid": 5, "records": 200}
    assert "NOT PRIVATE" in dpbayes("spec", "check", "s.yaml", "--against", coin).out
    Path("numbers.csv").write_text("x\n3\n12\ny\n\n")
    Path("s.yaml").write_text("model: gamma-poisson\nprivacy: {epsilon: 1}\ndomain: {upper: 9}\n")
    counted = dpbayes("spec", "check", "s.yaml", "--against", "numbers.csv", "--json").json["NOT PRIVATE"]
    assert counted == {"valid": 2, "invalid": 2, "records": 4}  # a number beyond the bounds is clamped
    Path("people.csv").write_text("class,kind,flag,age\nyes,w,1,70\n,w,1,70\n")
    name = spec_file(naive_bayes())
    assert dpbayes("spec", "check", name, "--against", "people.csv", "--json").json["NOT PRIVATE"]["records"] == 2
