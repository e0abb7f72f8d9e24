"""An entry for the deployments registry: its fields are the registry's, and what the custodian knows is null."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpbayes_cli.bundle.read import read_document
from dpbayes_cli.bundle.registry_entry import registry_yaml
from tests.conftest import Cli

FIELDS = {
    "basic": "name data_curators description intended_use data_product_type data_product_region data_product_sector "
    "publication_date",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details number_of_privacy_units privacy_parameters "
    "privacy_parameters_details",
    "deployment_model": "model_name model_name_details trust_assumptions actors release_type release_type_details "
    "data_source_type data_source_type_details access_type access_type_details",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms composition post_processing justification "
    "utility additional_information",
    "administrative": "evidence_sources status registry_authors tier",
}
"""What the registry's schema allows; it allows nothing else."""
CUSTODIANS = {
    "basic.name", "basic.data_curators.data_curator_name", "basic.data_curators.data_curator_type",
    "basic.intended_use", "basic.data_product_region", "basic.data_product_sector", "deployment_model.actors",
    "deployment_model.release_type", "deployment_model.data_source_type", "implementation.justification",
    "administrative.evidence_sources", "administrative.registry_authors",
}  # fmt: skip


def entry_of(dpbayes: Cli, *options: str) -> Any:
    done = dpbayes("report", "out", "--format", "registry", *options).exits(0)
    return yaml.safe_load(done.out)


def open_fields(part: Any, path: str = "") -> list[str]:
    """Return the paths of the fields that are null."""
    if isinstance(part, list) and part:
        return open_fields(part[0], path)
    if isinstance(part, dict):
        return [field for name, value in part.items() for field in open_fields(value, f"{path}.{name}".lstrip("."))]
    return [path] if part is None else []


@pytest.mark.parametrize(
    ("budget", "options", "variant", "parameters"),
    [
        ([], ["--eps", "0.5"], "Pure DP", {"epsilon": 0.5}),
        (["--rho", "1"], ["--mechanism", "gaussian", "--rho", "0.25"], "Zero-concentrated DP", {"rho": 0.25}),
        (["--epsilon", "50", "--delta", "1e-6"], ["--mechanism", "rdp-diffuse", "--eps", "1"], "Renyi DP", None),
        ([], ["--mechanism", "ops", "--eps", "1"], "Pure DP", {"epsilon": 1.0}),
    ],
    ids=["laplace", "gaussian", "rdp", "ops"],
)
def test_the_fields_are_those_of_the_registry(
    budget: list[str], options: list[str], variant: str, parameters: Any, dpbayes: Cli, coin: Path
) -> None:
    if budget:
        assert dpbayes("budget", "open", "coin", *budget).code == 0
    asked = ["--model", "beta-bernoulli", "--on-invalid", "impute:0", *options]
    assert dpbayes("release", coin, *asked, "--out", "out").code == 0
    entry = entry_of(dpbayes)
    assert set(entry) == {"url_slug", "deployment"}
    assert set(entry["deployment"]) == set(FIELDS)
    for section, names in FIELDS.items():
        assert set(entry["deployment"][section]) <= set(names.split())
    assert entry["deployment"]["dp_variant"]["variant_name"] == variant
    loss = entry["deployment"]["privacy_loss"]
    assert loss["number_of_privacy_units"] == 200
    if parameters is None:
        assert set(loss["privacy_parameters"]) == {"epsilon", "delta"}
    else:
        assert loss["privacy_parameters"] == parameters
    assert set(open_fields(entry["deployment"])) == CUSTODIANS
    assert yaml.safe_load(registry_yaml(read_document(Path("out")), {})) == entry


def test_registry_entry_hides_a_private_number_of_records(dpbayes: Cli, coin: Path) -> None:
    request = ["--model", "beta-bernoulli", "--eps", "1", "--neighbors", "add-remove", "--out", "out"]
    assert dpbayes("release", coin, *request).code == 0
    loss = entry_of(dpbayes)["deployment"]["privacy_loss"]
    assert "number_of_privacy_units" not in loss
    assert not re.search(r"\b200\b", str(entry_of(dpbayes)))


def test_the_custodian_states_the_rest(dpbayes: Cli, coin: Path) -> None:
    assert dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--out", "out").code == 0
    stated = {
        "basic.name": "Heads: 'x' # no",
        "basic.data_curators.data_curator_name": "A clinic",
        "basic.data_product_sector": "Healthcare",
        "administrative.registry_authors": "Ada",
    }
    options = [word for field, text in stated.items() for word in ("--state", f"{field}={text}")]
    deployment = entry_of(dpbayes, *options)["deployment"]
    assert deployment["basic"]["name"] == "Heads: 'x' # no"
    assert deployment["basic"]["data_curators"] == [{"data_curator_name": "A clinic", "data_curator_type": None}]
    assert deployment["administrative"]["registry_authors"] == ["Ada"]
    for wrong in ("basic.nam=x", "basic=x", "basic.data_product_sector=Magic", "administrative.tier=9"):
        done = dpbayes("report", "out", "--format", "registry", "--state", wrong)
        assert (done.code, done.out) == (3, "")
    assert dpbayes("report", "out", "--out", "registry.yaml").code == 0
    assert Path("registry.yaml").read_text() == dpbayes("report", "out", "--format", "registry").out
