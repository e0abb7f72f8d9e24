"""Read the draws and documents that a ledger stores, and check each against its digest in the chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from dpbayes_cli.base.canonical import digest
from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.checkpoint import payload_key
from dpbayes_cli.ledger.records import ReleaseRecord, terms_of
from dpbayes_cli.ledger.storage import Transaction

_MALFORMED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""The errors that a malformed entry may cause; the check of the chain reports such an entry."""


def sealed_payload(transaction: Transaction, release: ReleaseRecord) -> bytes | None:
    """Return the stored draw of a release, checked against its digest; None if no draw is stored."""
    return None if release.sealed is None else _checked(transaction, release.release_id, release.sealed)


def stored_document(transaction: Transaction, release: ReleaseRecord) -> bytes | None:
    """Return the document of a release, checked against its digest; None if the release is not published."""
    key = document_key(release.release_id)
    return None if release.document is None else _checked(transaction, key, release.document)


def document_key(release_id: str) -> str:
    """Return the key under which the document of a release is stored."""
    return f"{release_id}/document"


def _checked(transaction: Transaction, key: str, expected: str) -> bytes:
    payload = transaction.payload(key)
    if payload is None or digest("payload", payload) != expected:
        raise LedgerError(f"the payload of release {key} is not the one that was sealed")
    return payload


def kept_payloads(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the keys and digests of the payloads that a ledger with these entries must hold."""
    kept = {}
    for entry in entries:
        with suppress(*_MALFORMED):
            fields = entry.fields
            if fields["kind"] == "sealed":
                kept[fields["release_id"]] = fields["payload"]
            elif fields["kind"] == "published":
                kept[document_key(fields["release_id"])] = fields["document"]
            elif fields["kind"] == "checkpoint":
                kept[payload_key(entry.sequence)] = fields["state"]
            elif fields["kind"] in {"salvaged", "restored"}:
                for key in fields.get("without", []):
                    kept.pop(key, None)
    return kept


def payload_findings(transaction: Transaction, entries: Iterable[Entry]) -> list[str]:
    """Return a finding for each payload that is missing, or whose digest is not in the chain."""
    kept, stored = kept_payloads(entries), transaction.payload_ids()
    findings = [f"release {missing}: the sealed payload is missing" for missing in sorted(kept.keys() - stored)]
    findings += [f"release {extra}: it has a payload that was never sealed" for extra in sorted(stored - kept.keys())]
    for key in sorted(kept.keys() & stored):
        try:
            _checked(transaction, key, kept[key])
        except LedgerError as error:
            findings.append(error.message)
    return findings


def index_findings(transaction: Transaction, entries: Iterable[Entry]) -> list[str]:
    """Return a list with a finding if the index does not match the entries."""
    if not transaction.is_indexed:
        return []
    terms: Counter[tuple[str, int]] = Counter()
    for entry in entries:
        with suppress(*_MALFORMED):
            terms.update((term, entry.sequence) for term in terms_of(entry.fields))
    return [] if Counter(transaction.indexed()) == terms else ["the index of the entries was changed"]
