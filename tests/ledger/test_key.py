"""With a key, a chain that was rewritten as a whole is refused; without a key, it is accepted, as documented."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger import checkpoint
from dpbayes_cli.ledger.chain import GENESIS, Entry, entry_hash, next_entry
from dpbayes_cli.ledger.key import LedgerKey, create_key, read_key
from dpbayes_cli.ledger.sqlite import SqliteStorage
from tests.conftest import Cli
from tests.ledger.ledgers import change, charge, open_ledger, publish

KEY, OTHER = LedgerKey(b"k" * 32), LedgerKey(b"o" * 32)


def rewrite(path: Path, *, drop_key: bool = False) -> None:
    """Lower a privacy cost and recompute all hashes, as anyone can who can write the file."""
    entries = open_ledger(path).entries()
    change(path, "DELETE FROM entries", "DELETE FROM terms")
    last: Entry | None = None
    with SqliteStorage(path).writing() as transaction:
        for entry in entries:
            fields = json.loads(entry.body.replace('"epsilon":"1"', '"epsilon":"0.01"'))
            if not (drop_key and fields["kind"] == "key"):
                last = next_entry(last, fields)
                transaction.append(last)


def test_without_a_key_a_rewritten_chain_verifies(tmp_path: Path) -> None:
    publish(open_ledger(tmp_path / "l"), charge("1"))
    rewrite(tmp_path / "l")
    assert open_ledger(tmp_path / "l").findings()[0] == []


@pytest.mark.parametrize("drop_key", [False, True])
@pytest.mark.parametrize("interval", [3, 256])
def test_with_a_key_a_rewritten_chain_is_refused(
    drop_key: bool, interval: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_INTERVAL_ENTRIES", interval)
    for number in range(3):
        publish(open_ledger(tmp_path / "l", key=KEY), charge("1", label=f"n{number}"))
    rewrite(tmp_path / "l", drop_key=drop_key)
    assert open_ledger(tmp_path / "l", key=KEY).findings()[0]
    with pytest.raises(LedgerError, match=r"signed|signature|checkpoint"):
        open_ledger(tmp_path / "l", key=KEY).reserve(charge("0.1", label="next"))


def test_an_entry_with_the_signature_of_another_key_is_refused(tmp_path: Path) -> None:
    publish(open_ledger(tmp_path / "l", key=KEY), charge("1"))
    storage = SqliteStorage(tmp_path / "l")
    with storage.writing() as transaction:
        last = transaction.entries()[-1]
        forged = {**last.fields, "kind": "notice", "account": "clinic", "share": None, "reason": ""}
        transaction.append(next_entry(last, forged, OTHER))
    with pytest.raises(LedgerError, match="the signature is not valid under the ledger's key"):
        open_ledger(tmp_path / "l", key=KEY).state()
    assert any("signature" in text for text in open_ledger(tmp_path / "l", key=KEY).findings()[0])


def test_a_signed_ledger_needs_its_key(tmp_path: Path) -> None:
    publish(open_ledger(tmp_path / "l", key=KEY), charge("1"))
    for key, said in ((None, "no key was given"), (OTHER, "another key was given")):
        with pytest.raises(LedgerError, match=said):
            open_ledger(tmp_path / "l", key=key).reserve(charge("0.1"))
        assert any(said in text for text in open_ledger(tmp_path / "l", key=key).findings()[0])
    publish(open_ledger(tmp_path / "plain"), charge("1"))
    with pytest.raises(LedgerError, match="the ledger is not signed"):
        open_ledger(tmp_path / "plain", key=KEY).state()


def test_a_key_is_set_and_changed_from_the_shell(
    tmp_path: Path, dpbayes: Cli, coin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ("release", coin, "--model", "beta-bernoulli", "--eps")
    assert dpbayes(*ask, "1", "--out", "one").code == 0
    (tmp_path / "keys").mkdir()
    first, second = tmp_path / "keys" / "first", tmp_path / "keys" / "second"
    assert dpbayes("budget", "key", first, "--json").json["already_done"] is False
    assert first.stat().st_mode & 0o777 == 0o600
    assert dpbayes(*ask, "0.5", "--out", "two").code == 6
    monkeypatch.setenv("DPBAYES_LEDGER_KEY", str(first))
    assert dpbayes("budget", "key", first, "--json").json["already_done"] is True
    assert dpbayes(*ask, "0.5", "--out", "two").code == 0
    assert dpbayes("budget", "key", second).code == 0
    assert dpbayes("budget", "verify").code == 7, "the old key is not enough any more"
    monkeypatch.setenv("DPBAYES_LEDGER_KEY", str(second))
    assert dpbayes("budget", "verify").code == 0
    assert dpbayes("verify", "two").code == 0


def test_a_key_beside_the_ledger_or_open_to_others_is_refused(
    tmp_path: Path, dpbayes: Cli, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dpbayes("budget", "open", "a", "--epsilon", "1").code == 0
    dpbayes("budget", "key", ledger_path.with_name("key")).exits(6, "in the directory of the ledger")
    assert not ledger_path.with_name("key").exists()
    (tmp_path / "k").mkdir()
    create_key(tmp_path / "k" / "key")
    with pytest.raises(FileExistsError):
        create_key(tmp_path / "k" / "key")
    (tmp_path / "k" / "key").chmod(0o640)
    with pytest.raises(LedgerError, match="other users can read"):
        read_key(tmp_path / "k" / "key")
    (tmp_path / "k" / "short").write_text("abc")
    for name in ("short", "missing"):
        monkeypatch.setenv("DPBAYES_LEDGER_KEY", str(tmp_path / "k" / name))
        assert dpbayes("budget", "show").code == 6


def test_an_unknown_first_key_does_not_make_signatures_valid(tmp_path: Path) -> None:
    """In the forged chain, the first key does not exist, and only the last entry names the real key."""
    publish(open_ledger(tmp_path / "l", key=KEY), charge("1"))
    named = {"kind": "key", "account": "", "reason": "", "time": "t", "user": "u", "version": "v", "mac": "0" * 64}
    storage = SqliteStorage(tmp_path / "forged")
    with storage.writing() as transaction:
        first = next_entry(None, named)
        forged = [Entry(1, first.body, first.hash)]
        for fields in ({**named, "key": "f" * 16}, {**named, "key": KEY.fingerprint}):
            body = json.dumps({**fields, "sequence": len(forged)}, sort_keys=True, separators=(",", ":"))
            last = forged[-1].hash if len(forged) > 1 else GENESIS
            forged.append(Entry(len(forged), body, entry_hash(last, body.encode())))
        for entry in forged[1:]:
            transaction.append(entry)
    with pytest.raises(LedgerError, match="the last entry is not signed"):
        open_ledger(tmp_path / "forged", key=KEY).state()
    assert any("not signed with the key" in text for text in open_ledger(tmp_path / "forged", key=KEY).findings()[0])


def test_entries_signed_with_an_earlier_key_are_still_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_INTERVAL_ENTRIES", 4)
    for key in (None, KEY, OTHER):
        if key is not None:
            open_ledger(tmp_path / "l", key=KEY if key is OTHER else None).begin_key(key, "")
        for number in range(3):
            publish(open_ledger(tmp_path / "l", key=key), charge("0.1", label=f"{key and key.fingerprint} {number}"))
    for key in (None, KEY, OTHER):
        label = f"{key and key.fingerprint} 0"
        assert (
            open_ledger(tmp_path / "l", key=OTHER).reserve(charge("0.1", label=label)).payload
            == f"payload of {label}".encode()
        )
    assert open_ledger(tmp_path / "l", key=OTHER).findings()[0] == []
