"""Ledgers of many entries, written in one transaction."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from dpbayes_cli.base.canonical import digest
from dpbayes_cli.ledger.budgets import PureBudget
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.payloads import document_key
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.ledger.books import charge


def write_long_ledger(path: Path, entries: int, accounts: int = 1) -> Ledger:
    """Return a ledger of at least this many entries: published releases of accounts in turn, and checkpoints."""
    ledger = Ledger(SqliteStorage(path))
    for number in range(accounts):
        ledger.open_account(f"a{number}", PureBudget(Decimal(1000)), Neighbors.REPLACE_ONE)
    ledger.reserve(charge("0.001", account="a0", source="-"))
    reserved = ledger.entries()[-1].fields
    number, written = 0, 0
    while written < entries:
        with ledger.writing() as (transaction, state):
            for _ in range(50):
                name, release_id = f"a{number % accounts}", f"{number:016d}"
                about = {"account": name, "release_id": release_id}
                data = {"label": f"n{number}", "question_digest": f"q{number}", "source": f"/data/{name}-{number}.csv"}
                ledger.append(transaction, state, {**reserved, **about, **data})
                draw = str(number).encode()
                ledger.append(transaction, state, {**about, "kind": "sealed", "payload": digest("payload", draw)})
                published = {"kind": "published", "files": {"f": "d"}, "document": digest("payload", draw)}
                ledger.append(transaction, state, {**about, **published})
                transaction.put_payload(release_id, draw)
                transaction.put_payload(document_key(release_id), draw)
                number += 1
            written = state.mark.sequence
    return ledger
