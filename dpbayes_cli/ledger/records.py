"""Releases in the ledger, each assembled from its own entries; and the index terms of entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.data_names import data_terms
from dpbayes_cli.privacy.composition import parse_guarantee
from dpbayes_cli.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class ReleaseRecord:
    """One release in the ledger.

    Attributes:
        request_digest, question_digest: digests of the request, and of the part that determines the privacy cost.
        source: the identity of the data source: absolute paths or ``-``.
        guarantee: the privacy cost that was charged.
        owner: the process that made the reservation.
        sequence, hash: the entry of the charge.
        analyst: the analyst whose limit was charged, too, or None.
        sealed, published, document: the digests of the sealed payload, of the published files by name, and of the
            published document; None before that stage.
    """

    release_id: str
    label: str
    request: dict[str, Any]
    request_digest: str
    question_digest: str
    source: str
    guarantee: Guarantee
    owner: dict[str, str]
    sequence: int
    hash: str
    time: str
    user: str
    version: str
    purpose: str
    analyst: str | None = None
    sealed: str | None = None
    published: dict[str, str] | None = None
    document: str | None = None

    @property
    def stage(self) -> str:
        """``reserved``, ``sealed`` or ``published``."""
        return "published" if self.published is not None else "sealed" if self.sealed is not None else "reserved"


def record_of(entries: Iterable[Entry]) -> ReleaseRecord | None:
    """Return the release that its entries, in order, describe; None if there are no entries."""
    record = None
    for entry in entries:
        record = advance_release(record, entry.fields, entry)
    return record


def advance_release(known: ReleaseRecord | None, fields: Mapping[str, Any], entry: Entry) -> ReleaseRecord:
    """Return a release after its next entry.

    Raises:
        ValueError: the entry is not a valid next step of the release.
    """
    kind = fields["kind"]
    if kind == "reserved":
        if known is not None:
            raise ValueError("the release is charged twice")
        keys = ("label", "request", "request_digest", "question_digest", "source", "owner", "time", "user", "version")
        return ReleaseRecord(
            release_id=fields["release_id"],
            guarantee=parse_guarantee(fields["guarantee"]),
            sequence=entry.sequence,
            hash=entry.hash,
            purpose=fields["purpose"],
            analyst=fields.get("analyst"),
            **{key: fields[key] for key in keys},
        )
    if known is None:
        raise ValueError("the release was never charged")
    if kind == "sealed" and known.stage == "reserved":
        return replace(known, sealed=fields["payload"])
    if kind == "published" and known.stage == "sealed":
        return replace(known, published=dict(fields["files"]), document=fields["document"])
    raise ValueError(f"a {known.stage} release cannot become {kind}")


def terms_of(fields: Mapping[str, Any]) -> list[str]:
    """Return the index terms of an entry, by which it is found without reading all entries."""
    kind, account = fields["kind"], fields["account"]
    terms = ["checkpoint"] if kind == "checkpoint" else []
    if account:
        terms.append(f"account:{account}")
    if "release_id" in fields:
        terms.append(f"release:{fields['release_id']}")
    if kind == "reserved":
        terms += [f"charged:{account}", request_term(account, fields["question_digest"])]
        terms += data_terms(account, fields["source"], fields.get("inodes", {}))
    return terms


def request_term(account: str, question_digest: str) -> str:
    """Return the index term of an account's charges with one question digest."""
    return f"asked:{question_digest} {account}"
