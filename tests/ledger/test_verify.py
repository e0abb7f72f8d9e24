"""``budget verify`` on either storage: what it finds by itself, and what it finds only with a receipt."""

from __future__ import annotations

import pytest

from dpbayes_cli.base.errors import VerificationError
from dpbayes_cli.ledger.ledger import Ledger
from tests.conftest import Cli
from tests.ledger.books import Books

FLIPPED = 'UPDATE entries SET body = replace(body, \'"pid":"\', \'"pid":"1\') WHERE sequence = 2'
DELETED = "DELETE FROM entries WHERE sequence = 3"
EXCHANGED = (
    "UPDATE entries SET sequence = 1000 WHERE sequence = 3",
    "UPDATE entries SET sequence = 3 WHERE sequence = 4",
    "UPDATE entries SET sequence = 4 WHERE sequence = 1000",
)
SHIFTED = ("DELETE FROM entries WHERE sequence = 2", *(
    f"UPDATE entries SET sequence = {old - 1} WHERE sequence = {old}" for old in range(3, 8)
))  # fmt: skip


@pytest.mark.parametrize(
    ("statements", "finding"),
    [
        ((FLIPPED,), "entry 2 does not follow"),
        ((DELETED,), "entry 3 is missing"),
        (EXCHANGED, "entry 3 does not follow"),
        (SHIFTED, "entry 2 does not follow"),
        (("DELETE FROM entries",), "never sealed"),
        (("DELETE FROM payloads",), "payload is missing"),
    ],
    ids=["flipped", "deleted", "exchanged", "shifted", "emptied", "unsealed"],
)
def test_verify_finds_changed_rows(
    statements: tuple[str, ...], finding: str, used: Ledger, books: Books, dpbayes: Cli
) -> None:
    assert used.state().accounts
    assert dpbayes("budget", "verify", "--ledger", books.place).code == 0
    books.tamper(*statements)
    result = dpbayes("budget", "verify", "--ledger", books.place)
    assert result.code == VerificationError.exit_code
    assert finding in result.err


def test_every_flipped_byte_is_found(used: Ledger, books: Books) -> None:
    """One byte in each third of every entry is changed, each in its own copy."""
    for entry in used.entries():
        for place in range(0, len(entry.body), len(entry.body) // 3):
            changed = chr(ord(entry.body[place]) ^ 1).replace("'", "''")
            body = "body = substr(body, 1, {0}) || '{1}' || substr(body, {2})"
            where = f"WHERE sequence = {entry.sequence}"
            books.tamper(f"UPDATE entries SET {body.format(place, changed, place + 2)} {where}")
            assert used.findings()[0], (entry.sequence, place)
            books.tamper(f"UPDATE entries SET {body.format(place, entry.body[place], place + 2)} {where}")
    assert used.findings()[0] == []


def test_a_ledger_cut_short_is_found_only_with_a_receipt(used: Ledger, books: Books, dpbayes: Cli) -> None:
    receipt = used.entries()[-1]
    books.cut_after(4)
    release_ids = "', '".join(dpbayes_ids(used))
    books.tamper(f"DELETE FROM payloads WHERE substr(release_id, 1, 16) NOT IN ('{release_ids}')")
    result = dpbayes("budget", "verify", "--ledger", books.place)
    assert result.code == 0
    assert "only a receipt or an anchor would show" in result.err
    assert (receipt.sequence, receipt.hash) not in {(entry.sequence, entry.hash) for entry in used.entries()}


def dpbayes_ids(ledger: Ledger) -> set[str]:
    return {entry.fields["release_id"] for entry in ledger.entries() if entry.fields["kind"] == "reserved"}
