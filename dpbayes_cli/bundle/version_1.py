"""Version 1 of the release document: read with the names of today, and written again as it was, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.spec.version_1 import with_former_names, with_todays_names

_RENAMED = {
    "temperature": "likelihood_power",
    "first_temperature": "first_likelihood_power",
    "temper": "power_applies_to",
}
_RENAMED_OF_CHAINS = {"rho": "likelihood_power", "step": "step_size", "steps": "n_steps"}
"""Of Langevin chains alone: elsewhere rho is that of zero-concentrated differential privacy."""
_CHAINS = frozenset({"gibbs-posterior", "rdp-concentrated", "rdp-diffuse", "rdp-direct"})
_MECHANISMS = _CHAINS | {"gibbs", "map", "ops"}
"""Whose parameters have other names now; a plug-in's are its own."""


class Version1Document(ReleaseDocument, frozen=True, kw_only=True):
    """A document of version 1; its ``spec`` and ``parameters`` have the names of today until it is written."""

    schema_version: Literal[1] = 1  # type: ignore[assignment]

    def payload(self) -> bytes:
        """Return the bytes that the ledger keeps: those of version 1."""
        return msgspec.json.encode(_translated(self, with_former_names(self.spec), forwards=False))

    def builtins(self) -> dict[str, Any]:
        """Return the document of version 1 as plain dictionaries and lists."""
        restated = _translated(self, with_former_names(self.spec), forwards=False)
        return cast(dict[str, Any], msgspec.to_builtins(restated))


def decode_version_1(content: bytes) -> Version1Document:
    """Decode a document of version 1.

    Raises:
        msgspec.DecodeError: it is not one.
    """
    stored = msgspec.json.decode(content, type=Version1Document)
    return _translated(stored, with_todays_names(stored.spec), forwards=True)


def _translated(document: Version1Document, spec: dict[str, Any], *, forwards: bool) -> Version1Document:
    """Return a document with another spec, and with the names of its parameters of today or of version 1."""
    if document.mechanism not in _MECHANISMS:
        return msgspec.structs.replace(document, spec=spec)
    names = _RENAMED | (_RENAMED_OF_CHAINS if document.mechanism in _CHAINS and "tau" in document.parameters else {})
    if not forwards:
        names = {new: old for old, new in names.items()}
    found = _renamed(document.parameters, names)
    for part in ("certificate", "corollary_8"):
        found |= {part: _renamed(found[part], names)} if isinstance(found.get(part), dict) else {}
    if isinstance(tables := found.get("tables"), dict):  # whose keys are the names of variables
        found["tables"] = {
            name: _renamed(each, names) if isinstance(each, dict) else each for name, each in tables.items()
        }
    return msgspec.structs.replace(document, spec=spec, parameters=found)


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in values.items()}
