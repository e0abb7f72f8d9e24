"""The optional key of a ledger: its signatures reveal that a whole chain was rewritten.

The hashes alone do not reveal this, because whoever can write the file can recompute them. Once a ledger has a key,
every new entry holds an HMAC of itself and of the previous entry's hash, so each signature covers all earlier entries.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbayes_cli.base.atomic_file import new_file
from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.errors import LedgerError

_SECRET = re.compile(rb"[0-9a-f]{64}\n?")


@dataclass(frozen=True, repr=False)
class LedgerKey:
    """A secret key of 32 bytes, which signs entries."""

    secret: bytes

    @property
    def fingerprint(self) -> str:
        """The name of the key in the ledger; it is public and does not reveal the key."""
        return digest("ledger key", self.secret)[:16]

    def sign(self, previous: str, fields: Mapping[str, Any]) -> str:
        """Return the hexadecimal HMAC-SHA256 of the ``previous`` entry's hash and an entry without its signature."""
        body = canonical_json({name: value for name, value in fields.items() if name != "mac"})
        message = b"dpbayes/ledger mac/1" + previous.encode("utf-8", "surrogatepass") + body
        return hmac.new(self.secret, message, "sha256").hexdigest()

    def signed(self, previous: str, fields: Mapping[str, Any]) -> bool:
        """Return whether an entry has a valid signature of this key."""
        signature = fields.get("mac")
        return isinstance(signature, str) and hmac.compare_digest(
            signature.encode("utf-8", "surrogatepass"), self.sign(previous, fields).encode()
        )


def read_key(path: Path) -> LedgerKey:
    """Read a key from a file; raise ``LedgerError`` if it is missing, malformed or readable by other users."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its path is not valid"
        raise LedgerError(
            f"cannot read the ledger's key {str(path)!r}: {reason}",
            hint="DPBAYES_LEDGER_KEY names the file; dpbayes budget key FILE creates one",
        ) from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        content = file.read(128) if stat.S_ISREG(status.st_mode) else b""
    if not _SECRET.fullmatch(content):
        raise LedgerError(
            f"{str(path)!r} is not a ledger key: expected 64 hexadecimal digits",
            hint="dpbayes budget key FILE creates one",
        )
    if status.st_mode & 0o077:
        raise LedgerError(f"other users can read the ledger's key {str(path)!r}", hint=f"chmod 600 {path}")
    return LedgerKey(bytes.fromhex(content.decode("ascii")))


def create_key(path: Path) -> LedgerKey:
    """Write a new random key into a file that only its owner can read, and wait until the file is on disk.

    Raises:
        FileExistsError: the file exists already.
        LedgerError: the file cannot be written.
    """
    key = LedgerKey(secrets.token_bytes(32))
    try:
        with new_file(path) as partial:
            partial.write_text(key.secret.hex() + "\n", encoding="ascii")
    except FileExistsError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its path is not valid"
        raise LedgerError(f"cannot write the ledger's key {str(path)!r}: {reason}") from None
    return key
