"""Canonical JSON, which writes each document in exactly one way, and its digest.

Keys are sorted, there is no white space and no NaN, all characters are ASCII, and floats have Python's shortest
round-trip form. The ledger hashes this form, and IDs of releases and seeds of post-processing are derived from it, so
it must not change between versions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any


def canonical_json(document: Any) -> bytes:
    """Return the canonical bytes of a JSON document; a NaN or an infinity in it is a ValueError."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest_of_blocks(purpose: str, size: int, blocks: Iterable[bytes]) -> str:
    """Return the ``digest`` of one part of ``size`` bytes, given in blocks."""
    hasher = hashlib.sha256(f"dpbayes/{purpose}/1".encode("ascii") + size.to_bytes(8, "big"))
    for block in blocks:
        hasher.update(block)
    return hasher.hexdigest()


def digest(purpose: str, *parts: bytes) -> str:
    """Return a hexadecimal SHA-256 digest of the purpose and the parts; it also depends on where each part ends."""
    hasher = hashlib.sha256(f"dpbayes/{purpose}/1".encode("ascii"))
    for part in parts:
        hasher.update(len(part).to_bytes(8, "big") + part)
    return hasher.hexdigest()
