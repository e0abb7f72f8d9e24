"""Back up a ledger, and salvage a damaged one so that no spent budget becomes available again.

Entries after the first damaged entry cannot be verified. Readable charges among them are charged again under new
release IDs. So is every unfinished release, because a lost entry may have published it. Unreadable entries are listed,
and a human must adopt the salvaged ledger before anything more is charged.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from dpbayes_cli.base.atomic_file import new_file, remove_abandoned, sync
from dpbayes_cli.base.canonical import digest
from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.chain import Entry, broken_links
from dpbayes_cli.ledger.checkpoint import payload_key, state_payload
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.limits import describe_change
from dpbayes_cli.ledger.payloads import kept_payloads
from dpbayes_cli.ledger.rebuild import RebuiltChain
from dpbayes_cli.ledger.replay import apply_entry, replay
from dpbayes_cli.ledger.sqlite import SqliteStorage, begin_ledger, file_of
from dpbayes_cli.ledger.state import State

_APPLICATION_ID_BYTES = slice(68, 72)
"""The bytes of the file that hold SQLite's application ID; they show whether the file is a ledger."""


@dataclass
class Salvage:
    """The result of a salvage.

    Attributes:
        state: the state of the new ledger.
        kept: the number of entries before the first one that does not verify.
        charged, lost, tightened: see ``RebuiltChain``.
        already_done: whether an earlier run had written the same salvage, so that nothing was written.
    """

    state: State
    kept: int
    charged: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    tightened: list[str] = field(default_factory=list)
    already_done: bool = False


def back_up(ledger: Ledger, target: Path) -> State:
    """Copy a ledger into a new file, verify the copy before it gets its name, and return its state.

    Raises:
        LedgerError: the ledger is not trusted, the file exists or cannot be written, or the copy does not verify.
    """
    state = ledger.state()
    ledger.storage.require()
    with _new_ledger_file(target) as partial:
        file_of(ledger.storage).copy_to(partial)
        findings, copied = Ledger(SqliteStorage(partial, anywhere=True)).findings(compare=False)
        if findings or not copied.holds(state.mark):
            raise LedgerError(f"the copy does not verify: {(findings or ['it lacks entries'])[0]}", hint="try again")
    return copied


def existing_backup(ledger: Ledger, target: Path) -> State | None:
    """Return the state of a file if it is a complete backup of the ledger already; else None.

    A repeated command that was killed after writing the backup is thus recognized as done.

    Raises:
        LedgerError: the ledger is not trusted, or the file is an incomplete backup of the ledger.
    """
    if not _may_be_a_copy(target, ledger):
        return None
    state = ledger.state()
    try:
        findings, copied = Ledger(SqliteStorage(target, anywhere=True)).findings(compare=False)
    except LedgerError:
        return None
    if findings or not copied.last or not state.holds(copied.mark):
        return None
    if copied.mark != state.mark:
        raise LedgerError(
            f"{str(target)!r} exists already: it is a backup up to entry {copied.mark.sequence}, and the ledger has "
            f"{state.mark.sequence} entries",
            hint="name another file: nothing is replaced",
        )
    _finish(target)
    return copied


def salvage(ledger: Ledger, target: Path) -> Salvage:
    """Write the verified part of a damaged ledger, and the charges after it, into a new file.

    Raises:
        LedgerError: the ledger is undamaged, no entry verifies, or the file exists or cannot be written.
    """
    storage = file_of(ledger.storage)
    storage.require()
    readable, lost = storage.salvage()
    chain = RebuiltChain(ledger.stamp(), State(keys=ledger.keys))
    kept = next((number for number, entry in enumerate(readable) if not chain.take(entry)), len(readable))
    if not kept:
        raise LedgerError(
            f"no entry of the ledger {ledger.location!r} verifies",
            hint="restore a backup: dpbayes budget restore BACKUP --reason TEXT",
        )
    if not lost and kept == len(readable) and _is_whole(ledger):
        raise LedgerError(
            f"the ledger {ledger.location!r} is undamaged: a salvaged copy would be a second budget",
            hint="to copy it: dpbayes budget backup FILE",
        )
    chain.lost += lost
    chain.charge_unfinished()
    chain.account_for(readable[kept:])
    lacks = f" and lacks what followed entry {kept}: {len(chain.lost)} findings" if chain.lost else ""
    held = f"this ledger was salvaged from one that does not verify{lacks}"
    changes = [*chain.opened, *chain.tightened, *(f"release {name} is charged again" for name in chain.charged)]
    last = max(readable, key=lambda entry: entry.sequence)
    chain.add(
        {
            "kind": "salvaged",
            "account": "",
            "source": ledger.location,
            "kept": kept,
            "held": held,
            "last": asdict(last.mark),
            "changes": changes,
            "exhausted": chain.exhausted,
            "without": chain.missing(storage.salvage_payload),
        }
    )
    done = Salvage(chain.state, kept, chain.charged, chain.lost, chain.tightened)
    if state := _existing_salvage(ledger, target, chain.entries, kept, _payloads(chain, storage.salvage_payload)):
        return replace(done, state=state, already_done=True)
    with _new_ledger_file(target) as partial:
        begin_ledger(partial)
        write_chain(partial, chain, storage.salvage_payload)
    return done


def _existing_salvage(
    ledger: Ledger, target: Path, entries: list[Entry], kept: int, expected: Iterable[tuple[str, bytes]]
) -> State | None:
    """Return the state of a file if an earlier run wrote the same salvage, at any time and by any user; else None."""
    if not _may_be_a_copy(target, ledger):
        return None
    try:
        with SqliteStorage(target, anywhere=True).reading() as transaction:
            written = transaction.entries()
            if broken_links(written) or written[:kept] != entries[:kept] or _contents(written) != _contents(entries):
                return None
            unmatched = transaction.payload_ids()
            for key, payload in expected:
                if transaction.payload(key) != payload:
                    return None
                unmatched.remove(key)
            if unmatched:
                return None
    except (LedgerError, ValueError):
        return None
    _finish(target)
    return replay(written)


def write_chain(path: Path, chain: RebuiltChain, read: Callable[[str], bytes | None], start: int = 0) -> None:
    """Append the entries of a chain and their payloads to a ledger, and create its index if it has none.

    Args:
        path: the file of the ledger.
        read: a function that returns the payload of a key, or None if the payload cannot be read.
        start: the number of entries of the chain that the file holds already, with their payloads.
    """
    with SqliteStorage(path, anywhere=True).writing() as transaction:
        if not transaction.is_indexed:
            transaction.begin_index()
        for entry in chain.entries[start:]:
            transaction.append(entry)
        for key, payload in _payloads(chain, read, start):
            transaction.put_payload(key, payload)


def _payloads(chain: RebuiltChain, read: Callable[[str], bytes | None], start: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield the keys and readable payloads of a chain, without those of its first ``start`` entries."""
    expected, state = kept_payloads(chain.entries[start:]), State()
    for entry in chain.entries:
        checkpoint = payload_key(entry.sequence)
        if checkpoint in expected:  # computed from the entries, so that it need not be readable
            yield checkpoint, state_payload(state)
            del expected[checkpoint]
        apply_entry(state, entry)
    for key, stated in expected.items():
        payload = read(key)
        if payload is not None and digest("payload", payload) == stated:
            yield key, payload


def _is_whole(ledger: Ledger) -> bool:
    """Return whether a ledger verifies; its anchors are not compared here, but when it is next used."""
    with suppress(LedgerError):
        return not ledger.findings(compare=False)[0]
    return False


@contextmanager
def _new_ledger_file(target: Path) -> Iterator[Path]:
    try:
        with new_file(target) as partial:
            yield partial
    except FileExistsError:
        raise LedgerError(f"{str(target)!r} exists already", hint="name another file: nothing is replaced") from None
    except OSError as error:
        raise LedgerError(f"cannot write {str(target)!r}: {error.strerror}") from None


def _contents(entries: list[Entry]) -> list[tuple[str, str]]:
    return [describe_change(entry.fields) for entry in entries]


def _may_be_a_copy(target: Path, ledger: Ledger) -> bool:
    """Return whether a file is some ledger, but not this one itself."""
    try:
        if not stat.S_ISREG(target.lstat().st_mode) or target.samefile(ledger.location):
            return False
        with target.open("rb") as file:
            return file.read(_APPLICATION_ID_BYTES.stop)[_APPLICATION_ID_BYTES] == b"DPBY"
    except OSError:
        return False


def _finish(target: Path) -> None:
    try:
        remove_abandoned(target.absolute().parent)
        sync(target.absolute().parent)
    except OSError as error:
        raise LedgerError(f"cannot write {str(target)!r}: {error.strerror}") from None
