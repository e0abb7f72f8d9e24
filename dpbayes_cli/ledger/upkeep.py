"""Back a ledger up, and save what can be saved of a damaged one: always into a new file, and never in favour of anyone.

What follows the first damaged entry cannot be verified. Charges that can still be read there are charged again under
names of their own, and so is every release whose draw may have been seen although its end is lost: nothing that is
known to be spent comes back, even where the totals or analysts' limits that allowed it are lost. What cannot be read is
listed, and a human looks before anything more is charged.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpbayes_cli.atomic_file import new_file
from dpbayes_cli.canonical import digest
from dpbayes_cli.errors import LedgerError
from dpbayes_cli.ledger.chain import GENESIS, Entry, link, next_entry
from dpbayes_cli.ledger.charging import release_id_of
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.payloads import kept_payloads
from dpbayes_cli.ledger.sqlite import SqliteStorage, begin_ledger
from dpbayes_cli.ledger.state import Account, ReleaseRecord, State, replay


@dataclass
class Salvage:
    """What was saved of a ledger.

    Attributes:
        state: the new ledger.
        kept: entries that verify, from the first on.
        charged: releases that are charged once more, because what became of them is lost.
        lost: what is not in the new ledger, one sentence each.
    """

    state: State
    kept: int
    charged: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def back_up(ledger: Ledger, target: Path) -> State:
    """Copy a ledger into a new file, verified before it gets its name.

    Returns:
        The state of the copy.

    Raises:
        LedgerError: the ledger is not to be trusted, the file exists or cannot be written, or the copy does not verify.
    """
    state = ledger.state()
    with _new_file(target) as partial:
        ledger.storage.copy_to(partial)
        findings, copied = Ledger(SqliteStorage(partial, anywhere=True)).findings(compare=False)
        if findings or not copied.holds(state.mark):
            raise LedgerError(f"the copy does not verify: {(findings or ['it lacks entries'])[0]}", hint="try again")
    return copied


def unfinished(state: State) -> list[tuple[Account, ReleaseRecord]]:
    """Return the releases that are charged and not published."""
    return [
        (account, release)
        for account in state.accounts.values()
        for release in account.releases.values()
        if release.stage != "published"
    ]


def salvage(ledger: Ledger, target: Path) -> Salvage:
    """Write what verifies of a damaged ledger into a new file.

    Raises:
        LedgerError: nothing verifies, the file exists, or it cannot be written.
    """
    readable, lost = ledger.storage.salvage()
    prefix = verified_prefix(readable)
    if not prefix:
        raise LedgerError(
            f"nothing of the ledger {ledger.location!r} verifies", hint="restore it from a backup: cp BACKUP LEDGER"
        )
    chain = _Chain(list(prefix), ledger.stamp())
    found = Salvage(chain.state, len(prefix), lost=lost)
    rest = readable[len(prefix) :]
    found.lost += [f"entry {entry.sequence} does not verify" for entry in rest]
    damaged = bool(found.lost) or not _is_whole(ledger)
    if damaged:
        for _, release in unfinished(chain.state):
            _charge_again(chain, prefix[release.sequence - 1], found)
        for entry in rest:
            _charge_again(chain, entry, found)
    held = ""
    if damaged:
        lacks = f" and lacks what followed entry {len(prefix)}: {len(found.lost)} findings" if found.lost else ""
        held = f"this ledger was salvaged from one that does not verify{lacks}"
    chain.add({"kind": "salvaged", "account": "", "source": ledger.location, "kept": len(prefix), "held": held})
    found.state = chain.state
    with _new_file(target) as partial:
        begin_ledger(partial)
        with SqliteStorage(partial, anywhere=True).writing() as transaction:
            for entry in chain.entries:
                transaction.append(entry)
            for key, expected in kept_payloads(chain.state).items():
                payload = ledger.storage.salvage_payload(key)
                if payload is None or digest("payload", payload) != expected:
                    found.lost.append(f"the payload of release {key} cannot be read: it cannot be shown again")
                else:
                    transaction.put_payload(key, payload)
    return found


def _is_whole(ledger: Ledger) -> bool:
    """Return whether nothing speaks against a ledger but its anchors, which are asked when it is next used."""
    try:
        return not ledger.findings(compare=False)[0]
    except LedgerError:
        return False


def verified_prefix(entries: list[Entry]) -> list[Entry]:
    """Return the entries before the first that does not follow from those before it."""
    state, previous = State(), GENESIS
    for number, entry in enumerate(entries):
        body = entry.body.encode("utf-8", "surrogatepass")
        if entry.sequence != number + 1 or link(previous, body) != entry.hash:
            return entries[:number]
        state.follow(entry)
        if state.findings:
            return entries[:number]
        previous = entry.hash
    return entries


class _Chain:
    """A chain that grows by entries that keep the protocol."""

    def __init__(self, entries: list[Entry], stamp: dict[str, str]) -> None:
        self.entries, self._stamp = entries, stamp

    @property
    def state(self) -> State:
        return replay(self.entries)

    def add(self, fields: dict[str, Any]) -> bool:
        """Append an entry; return whether it keeps the protocol, without which it is left out."""
        grown = [*self.entries, next_entry(self.entries[-1], {**fields, **self._stamp})]
        if replay(grown).findings:
            return False
        self.entries = grown
        return True


def _charge_again(chain: _Chain, entry: Entry, found: Salvage) -> None:
    """Charge what an entry charged under a name of its own; or open the account that it opened."""
    try:
        fields = dict(entry.fields)
        kind, account = fields["kind"], fields["account"]
        if kind == "open":
            chain.add(fields)
        if kind != "reserved":
            return
        known = chain.state.accounts[account].releases
        labels = (f"lost {'' if i == 1 else f'{i} '}{fields['label']}" for i in itertools.count(1))
        label = next(label for label in labels if release_id_of(account, label) not in known)
        name = f"{release_id_of(account, fields['label'])} of account {account}"
        if chain.add({**fields, "label": label, "release_id": release_id_of(account, label), "lost": True}):
            found.charged.append(name)
        else:
            found.lost.append(f"the charge of release {name} is not one, or its account is lost: it is not counted")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return  # listed already as an entry that does not verify


@contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    try:
        with new_file(target) as partial:
            yield partial
    except FileExistsError:
        raise LedgerError(f"{str(target)!r} exists already", hint="name another file: nothing is replaced") from None
    except OSError as error:
        raise LedgerError(f"cannot write {str(target)!r}: {error.strerror}") from None
