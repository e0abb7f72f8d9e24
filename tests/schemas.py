"""The two JSON schemas, each built once a process."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema

from dpbayes_cli.bundle import document
from dpbayes_cli.spec.schema import json_schema


@cache
def _documents() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(document.json_schema())


@cache
def _specs() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema())


def check_document(content: Any) -> None:
    """Refuse what is no release document by its schema.

    Raises:
        jsonschema.ValidationError: it is none.
    """
    _documents().validate(content)


def check_spec(content: Any) -> None:
    """Refuse what is no spec by its schema, as an editor would.

    Raises:
        jsonschema.ValidationError: it is none.
    """
    _specs().validate(content)
