"""Canonical JSON, which writes each document in exactly one way, and its digest.

The ledger hashes this form, and IDs of releases and seeds of post-processing are derived from it, so it must not change
between versions: keys sorted, no white space, ASCII only, no NaN, floats in Python's shortest round-trip form.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any


def canonical_json(document: Any) -> bytes:
    """Return the canonical bytes of a JSON document.

    Raises:
        ValueError: the document holds a NaN or an infinity.
        TypeError: the document holds a value that JSON cannot represent.
    """
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest_of_blocks(purpose: str, size: int, blocks: Iterable[bytes]) -> str:
    """Return the ``digest`` of one part of ``size`` bytes that comes in blocks."""
    hasher = hashlib.sha256(f"dpbayes/{purpose}/1".encode("ascii") + size.to_bytes(8, "big"))
    for block in blocks:
        hasher.update(block)
    return hasher.hexdigest()


def digest(purpose: str, *parts: bytes) -> str:
    """Return a SHA-256 in hexadecimal that depends on the purpose, the parts and where each part ends."""
    hasher = hashlib.sha256(f"dpbayes/{purpose}/1".encode("ascii"))
    for part in parts:
        hasher.update(len(part).to_bytes(8, "big") + part)
    return hasher.hexdigest()
