"""The JSON Schema of spec files."""

from typing import Any

import msgspec

from dpbayes_cli.core.registry import supported_pairs
from dpbayes_cli.core.section import YAML_SCALAR
from dpbayes_cli.spec.groups_section import GROUP_MECHANISMS
from dpbayes_cli.spec.release_spec import spec_type


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec file, with one alternative for each model and mechanism.

    A spec without a mechanism matches the alternative of its model's default mechanism.
    """
    kinds = []
    for model, mechanism in supported_pairs():
        kinds.append(spec_type(model.name, mechanism.name))
        if model.bound_keys and mechanism.post_processing:
            kinds.append(spec_type(model.name, mechanism.name, private="bounds"))
        if model.has_private_trees and mechanism.takes_private_trees():
            kinds.append(spec_type(model.name, mechanism.name, private="structure"))
        if model.has_groups and mechanism.name in GROUP_MECHANISMS:
            kinds.append(spec_type(model.name, mechanism.name, has_groups=True, finds_keys=True))
    references, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    groups = definitions["GroupsSection"]
    about_file = "a file with the keys, one in each line; a CSV file if two columns hold them"
    groups["properties"]["file"] = {"type": "string", "description": about_file}
    groups["required"] = ["column"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dpbayes release spec",
        "oneOf": list(references),
        "$defs": _freely(definitions),
    }


def _freely(schema: Any) -> Any:
    """Also allow numbers and truth values for texts of the type ``YAML_SCALAR``, because YAML tools parse them so."""
    if isinstance(schema, list):
        return [_freely(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _freely(value) for key, value in schema.items()}
    if result.items() >= YAML_SCALAR.items():
        result = {key: value for key, value in result.items() if key not in YAML_SCALAR}
        result["type"] = ["string", "number", "boolean"]
    return result
