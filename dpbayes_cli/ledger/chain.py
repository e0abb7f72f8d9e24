"""The hash chain: it reveals an edited, removed or moved entry, unless all later hashes were recomputed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.ledger.key import LedgerKey

GENESIS = digest("ledger genesis")


@dataclass(frozen=True)
class Mark:
    """The sequence number and hash of an entry, which identify the entry in every copy of the chain."""

    sequence: int
    hash: str


@dataclass(frozen=True)
class Entry:
    """One entry of the ledger.

    Attributes:
        sequence: the number of the entry: 1, 2, 3, ...; it defines the order, because clocks are not trusted.
        body: the canonical JSON that is hashed: the sequence, the kind and all other fields.
        hash: the digest of the previous entry's hash and this body.
    """

    sequence: int
    body: str
    hash: str

    @property
    def fields(self) -> dict[str, Any]:
        """The parsed body."""
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed

    @property
    def mark(self) -> Mark:
        """The sequence number and hash of the entry."""
        return Mark(self.sequence, self.hash)

    def follows(self, previous: str) -> bool:
        """Return whether the entry's hash is the digest of the ``previous`` entry's hash and its own body."""
        return self.hash == entry_hash(previous, self.body.encode("utf-8", "surrogatepass"))


def next_entry(last: Entry | None, fields: Mapping[str, Any], key: LedgerKey | None = None) -> Entry:
    """Return the entry that appends fields to a chain that ends with ``last``, signed if there is a key."""
    sequence, previous = (last.sequence + 1, last.hash) if last else (1, GENESIS)
    numbered = {**{name: value for name, value in fields.items() if name != "mac"}, "sequence": sequence}
    if key is not None:
        numbered["mac"] = key.sign(previous, numbered)
    body = canonical_json(numbered)
    return Entry(sequence, body.decode("ascii"), entry_hash(previous, body))


def entry_hash(previous: str, body: bytes) -> str:
    """Return the hash of an entry from the previous entry's hash and the entry's body."""
    return digest("ledger entry", previous.encode("utf-8", "surrogatepass"), body)


def broken_links(entries: Iterable[Entry], after: Mark | None = None) -> list[str]:
    """Return the missing and broken links of a chain, or of its part after an entry, one sentence each."""
    findings = []
    previous, expected = (after.hash, after.sequence + 1) if after else (GENESIS, 1)
    for entry in entries:
        if entry.sequence != expected:
            findings.append(f"entry {expected} is missing: entry {entry.sequence} follows entry {expected - 1}")
            expected = entry.sequence
        if not entry.follows(previous):
            findings.append(f"entry {entry.sequence} does not follow from the previous entry: it was edited or moved")
        previous, expected = entry.hash, expected + 1
    return findings
