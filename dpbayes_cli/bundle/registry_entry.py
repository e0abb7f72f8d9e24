"""Describe a release as an entry for OpenDP's Differential Privacy Deployments Registry.

The fields are those of ``schemas/deployments-schema.yaml`` in the repository opendp/deployments-registry-data, as of
2026. Fields that only the custodian can fill in are null, because readers would take a made-up text for the
custodian's own; the registry accepts an entry once they are filled in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.base.numeric import cost_text
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.document_parts import ReleasedGuarantee
from dpbayes_cli.bundle.report import wording
from dpbayes_cli.core.registry import mechanism_type, model_type

_HEAD = (
    "# An entry for the Differential Privacy Deployments Registry (registry.opendp.org), made from release.json.\n"
    "# Null fields are for the custodian: fill them in here, or with dpbayes report --state basic.name=TEXT\n"
)
_VARIANTS = {
    "pure": "Pure DP",
    "bounded-range": "Pure DP",
    "approximate": "Approximate DP",
    "zcdp": "Zero-concentrated DP",
    "rdp": "Renyi DP",
    "gdp": "Custom",
}
_ALLOWED = {
    "basic.data_product_sector": ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
    "basic.data_curators.data_curator_type": ("Government", "Industry", "Nonprofit"),
    "deployment_model.release_type": ("One release", "Many releases"),
    "deployment_model.data_source_type": ("Static", "Dynamic"),
}
"""The allowed texts of some fields; all other fields allow any text."""
_WIDTH = 110


def registry_yaml(document: ReleaseDocument, texts: Mapping[str, str]) -> bytes:
    """Return the bytes of the entry.

    ``texts`` holds the custodian's texts by field; a field is named by its path below ``deployment``, such as
    ``basic.name``. An unknown field, or a text that a field does not allow, is a ``SpecError``.
    """
    entry = registry_entry(document)
    for path, text in texts.items():
        _set_field(entry["deployment"], path, text)
    lines = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return (_HEAD + lines).encode("utf-8")


def registry_entry(document: ReleaseDocument) -> dict[str, Any]:
    """Return the entry as plain dictionaries; fields that only the custodian knows are None."""
    mechanism = mechanism_type(document.mechanism)
    guarantee = document.guarantee
    summary = model_type(document.model).summary
    software = ", ".join(f"{name} {version}" for name, version in document.software.items())
    return {
        "url_slug": f"dpbayes-{document.release_id}",
        "deployment": {
            "basic": {
                "name": None,
                "data_curators": [{"data_curator_name": None, "data_curator_type": None}],
                "description": f"A Bayesian posterior of the model {document.model} ({summary}), released by dpbayes "
                f"through the mechanism {document.mechanism}.",
                "intended_use": None,
                "data_product_type": "Summary statistics" if document.statistics else "Machine learning model",
                "data_product_region": None,
                "data_product_sector": None,
                "publication_date": document.created[:10],
            },
            "dp_variant": {
                "variant_name": _variant(guarantee),
                "data_domain": _domain(document),
                "unprotected_quantities": _unprotected(document),
            },
            "privacy_loss": {
                "privacy_unit": document.privacy_unit,
                "privacy_unit_details": wording.guarantee_meaning(document),
                **({"number_of_privacy_units": document.n_records} if document.n_records is not None else {}),
                "privacy_parameters": _parameters(guarantee),
                "privacy_parameters_details": f"{wording.guarantee_text(guarantee)}; {guarantee.kind}, under "
                f"{guarantee.neighbors} neighbors. {mechanism.info.guarantee}",
            },
            "deployment_model": {
                "model_name": "Central",
                "trust_assumptions": " ".join(document.assumptions),
                "actors": None,
                "release_type": None,
                "release_type_details": "One release, charged to an account in a ledger. The account has a fixed "
                "total, which bounds the cost of all its releases together and is not renewed over time.",
                "data_source_type": None,
                "access_type": "Non-interactive",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "None, except by the mechanism itself: the custodian "
                "states that domain, bounds, prior and options were chosen without looking at the records.",
                "mechanisms": f"{document.mechanism}: {mechanism.info.releases} {mechanism.info.corrections} "
                f"Computed with {software}.",
                "composition": "The stated guarantee covers the whole release. The ledger adds up the costs of all "
                f"releases of the account; this release is entry {document.ledger.sequence}, with the hash "
                f"{document.ledger.hash}.",
                "post_processing": f"{wording.released_text(document)} {wording.computed_text(document)}",
                "justification": None,
                "utility": _utility(document),
            },
            "administrative": {
                "evidence_sources": None,
                "status": "Draft",
                "registry_authors": None,
                "tier": 3,
            },
        },
    }


def _variant(guarantee: ReleasedGuarantee) -> str:
    if guarantee.kind != "composition":
        return _VARIANTS[guarantee.kind]
    if any(part.kind == "failure" for part in guarantee.parts):
        return "Approximate DP"
    kinds = {_VARIANTS.get(part.kind, "Custom") for part in guarantee.parts}
    if kinds <= {"Pure DP"}:
        return "Pure DP"
    return "Zero-concentrated DP" if guarantee.rho is not None else "Custom"


def _parameters(guarantee: ReleasedGuarantee) -> dict[str, float]:
    rho = None if guarantee.kind == "pure" else guarantee.rho
    parameters = {"epsilon": guarantee.epsilon, "delta": guarantee.delta or None, "rho": rho}
    return {name: float(cost_text(value)) for name, value in parameters.items() if value is not None}


def _domain(document: ReleaseDocument) -> str:
    count = "any number of" if document.n_records is None else f"{document.n_records:,}"
    unit = "privacy units, each with its records" if wording.has_units(document) else "records"
    return f"All data sets of {count} {unit}, whatever they contain. A record is one {document.record_unit}."


def _unprotected(document: ReleaseDocument) -> str:
    if document.n_records is None:
        return "None: the number of records is private too."
    noun = "privacy units" if wording.has_units(document) else "records"
    return f"The number of {noun}, {document.n_records:,}, which is the same in neighboring data sets."


def _utility(document: ReleaseDocument) -> str | None:
    summaries = [
        f"{name}: mean {p.mean:.6g}" + ("" if p.sd is None else f", sd {p.sd:.3g}")
        for name, p in list(document.posterior.items())[:12]
    ]
    key, text = wording.choice_text(document)
    chosen = f" {key.capitalize()}: {text}." if key else ""
    return f"Posterior: {'; '.join(summaries)}.{chosen}" if summaries else None


def _set_field(deployment: dict[str, Any], path: str, text: str) -> None:
    known = [field for field, value in _leaves(deployment) if value is None or isinstance(value, str)]
    if path not in known:
        raise SpecError(f"the registry entry has no text field {path!r}", hint=nearest(path, known))
    allowed = _ALLOWED.get(path, (text,))
    if text not in allowed:
        raise SpecError(f"{path} is {text!r}; allowed: {', '.join(allowed)}")
    *sections, last = path.split(".")
    place: Any = deployment
    for section in sections:
        place = place[section]
        place = place[0] if isinstance(place, list) else place
    place[last] = [text] if last == "registry_authors" else text


def _leaves(part: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of an entry with their paths; a list of objects counts as its first item."""
    for name, value in part.items():
        path = f"{above}.{name}" if above else name
        inner = value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else value
        if isinstance(inner, Mapping):
            yield from _leaves(inner, path)
        else:
            yield path, inner
