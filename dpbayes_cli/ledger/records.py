"""Assemble releases from their entries, and compute the index terms of entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpbayes_cli.base.canonical import digest
from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.data_names import data_terms
from dpbayes_cli.privacy.composition import parse_guarantee
from dpbayes_cli.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class ReleaseRecord:
    """One release in the ledger.

    Attributes:
        question_digest: the digest of the part of the request that determines the privacy cost.
        source: the data source: absolute paths, a table's address, or ``-`` for standard input.
        guarantee: the privacy cost that was charged.
        owner: the process that charged the release.
        sequence, hash: the sequence number and hash of the entry that charged the release.
        analyst: the analyst whose limit was charged in addition to the account, or None.
        sealed: the digest of the stored draw; None if no draw is stored.
        published: the digests of the published files, by name; None if the release is not published.
        document: the digest of the published document; None if the release is not published.
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
        """The stage of the release: ``reserved`` (charged), ``sealed`` (its draw is stored) or ``published``."""
        return "published" if self.published is not None else "sealed" if self.sealed is not None else "reserved"


def release_id_of(account: str, label: str) -> str:
    """Return the ID of a release: a digest of the account's name and the label, never of the data."""
    return digest("release", account.encode("utf-8"), label.encode("utf-8"))[:16]


def record_of(entries: Iterable[Entry]) -> ReleaseRecord | None:
    """Return the release that its entries describe; None if there are no entries."""
    record = None
    for entry in entries:
        record = advance_release(record, entry.fields, entry)
    return record


def advance_release(known: ReleaseRecord | None, fields: Mapping[str, Any], entry: Entry) -> ReleaseRecord:
    """Return the record of a release after its next entry; raise ``ValueError`` if the entry cannot come next."""
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
    """Return the index terms of an entry: texts by which the index finds it without reading all entries."""
    kind, account = fields["kind"], fields["account"]
    terms = [kind] if kind in {"checkpoint", "close"} else []
    if account:
        terms.append(f"account:{account}")
    if "release_id" in fields:
        terms.append(f"release:{fields['release_id']}")
    if kind == "reserved":
        terms += [f"charged:{account}", request_term(account, fields["question_digest"])]
        terms += data_terms(account, fields["source"], fields.get("inodes", {}))
    return terms


def request_term(account: str, question_digest: str) -> str:
    """Return the index term of an account's charges with this ``question_digest``."""
    return f"asked:{question_digest} {account}"
