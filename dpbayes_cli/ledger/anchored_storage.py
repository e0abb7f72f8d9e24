"""Open a ledger: verify it, compare it with its anchors, and append its new head to the anchors after a change.

The first transaction of a process replays the entries after the last checkpoint. A later transaction replays only the
entries that were appended after the previous transaction. So a release replays the entries after the last checkpoint
once, before it locks the ledger.

The anchors stay locked from the comparison until the new head is appended. The change is committed before the head is
appended. If the process is killed between the two steps, an anchor lacks the last entries, and the next command appends
the head.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.anchor import Anchor, lock_anchor, read_last
from dpbayes_cli.ledger.chain import Entry, Mark, broken_links
from dpbayes_cli.ledger.checkpoint import payload_key, state_at
from dpbayes_cli.ledger.key import LedgerKey
from dpbayes_cli.ledger.replay import replay
from dpbayes_cli.ledger.state import State, unverified_error
from dpbayes_cli.ledger.storage import Storage, Transaction

_KEY = "DPBAYES_LEDGER_KEY names the file of the key; dpbayes budget key FILE --reason TEXT starts signing"
_ADOPT = "dpbayes budget history shows the ledger's entries; to continue with it: dpbayes budget adopt --reason TEXT"


@dataclass(frozen=True)
class Dispute:
    """A reason not to continue with a ledger.

    Attributes:
        path: the anchor that disagrees with the ledger; empty if the reason is in the ledger itself.
        mark: the sequence number and hash in the last line of the anchor; None if there is no such line.
        text: the reason in one sentence.
        hint: what to do.
        changes: what a salvage changed in the ledger, one sentence each.
    """

    path: str
    mark: Mark | None
    text: str
    hint: str
    changes: tuple[str, ...] = ()


class _Locks(ExitStack):
    """The locked anchors of one transaction, to which its new head will be appended."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: set[tuple[int, int]] = set()  # device and inode of each locked file
        self.anchors: list[Anchor] = []

    def lock(self, path: Path, begin: Mark | None = None) -> list[Mark | None]:
        """Lock an anchor; return a list with the mark in its last line, or an empty list if it is locked already."""
        anchor = self.enter_context(lock_anchor(path, self.taken, begin))
        if anchor is None:
            return []
        self.anchors.append(anchor)
        return [anchor.last]


class AnchoredStorage:
    """The storage of a ledger, which is trusted only if its chain verifies and its anchors agree.

    Args:
        stated: an anchor that the caller names, because a replaced ledger may name a wrong anchor or no anchor.
        keys: the available keys, by fingerprint.
    """

    def __init__(self, storage: Storage, stated: Path | None, keys: Mapping[str, LedgerKey]) -> None:
        self._storage = storage
        self._stated = stated
        self._keys = keys
        self._known: State | None = None  # the last state that this process has verified

    def paths(self, state: State) -> list[Path]:
        """Return the paths of the anchors: the one that the ledger names, and the one that the caller names.

        Raises:
            LedgerError: the ledger's own file is named as an anchor.
        """
        named = [state.anchor, str(self._stated.absolute()) if self._stated else ""]
        paths = [Path(name) for name in dict.fromkeys(named) if name]
        if any(os.path.realpath(path) == os.path.realpath(self._storage.location) for path in paths):
            raise LedgerError("the anchor is the ledger itself", hint="name a file on another file system")
        return paths

    @contextmanager
    def reading(self, *, compare: bool = True) -> Iterator[tuple[Transaction, State]]:
        """Begin a read-only transaction on a trusted ledger.

        Raises:
            LedgerError: the ledger cannot be read, does not verify, or disagrees with an anchor.
        """
        with self._storage.reading() as transaction:
            state = self._verify_entries(transaction, need_key=compare)
            disputes = self.disputes(state) if compare else []
            if not disputes:
                yield transaction, state
                return
        with self._storage.reading() as transaction:  # a writer may have changed ledger and anchors meanwhile
            state = self._verify_entries(transaction)
            _refuse(unresolved_disputes(state, disputes))
            yield transaction, state

    @contextmanager
    def writing(
        self, new: Path | None = None, *, begin: bool = True, need_key: bool = True, adopting: bool = False
    ) -> Iterator[tuple[Transaction, State, list[Dispute]]]:
        """Begin an exclusive transaction on a trusted ledger.

        Args:
            new: the anchor that this transaction will name in the ledger; its file may be missing.
            begin: whether to create a missing ledger.
            need_key: whether to refuse a signed ledger without its key, and an unsigned one if a key is given.
            adopting: whether to yield the disputes with the anchors instead of refusing the ledger.

        Raises:
            LedgerError: the ledger cannot be opened or written, does not verify, or disagrees with an anchor.
        """
        if not adopting and not self._storage.exists:
            if not begin:
                raise LedgerError(
                    f"the ledger {self._storage.location!r} is gone: it was removed while it was in use",
                    hint="its charges are spent; restore it: dpbayes budget restore BACKUP --reason TEXT",
                )
            self.refuse_disputed(State(), new)  # an anchor shows that a ledger was lost
        with _Locks() as locks:
            with self._storage.writing() as transaction:
                state = self._verify_entries(transaction, need_key=need_key)
                before = state.mark
                # all processes lock the ledger first, then the anchors in one order, so that none deadlocks
                disputes = self._disputes(state, sorted(self.paths(state)), new, locks.lock)
                if not adopting:
                    _refuse(disputes)
                yield transaction, state, disputes
                self._begin_anchors(locks, state, before)  # a failure undoes the transaction
            self._known = state.copy(None)
            for anchor in locks.anchors:
                anchor.append(state.mark)

    @contextmanager
    def replacing(self, state: State) -> Iterator[tuple[list[Dispute], bool]]:
        """Lock the anchors while another ledger replaces this one; at the end, append its head to the anchors.

        Args:
            state: the state of the other ledger, to which the ``with`` block may append entries.

        Yields:
            The disagreements between the anchors and the other ledger; and whether that ledger names an anchor, and
            all anchors end with its last entry. Then no later entry was used: a command reads records, and reports
            that it succeeded, only after it has appended the ledger's head to the anchor that the ledger names.
        """
        with _Locks() as locks:
            disputes = self._disputes(state, sorted(self.paths(state)), None, locks.lock)
            is_last = bool(state.anchor) and all(anchor.ends_with(state.mark) for anchor in locks.anchors)
            self._begin_anchors(locks, state, state.mark)
            yield disputes, is_last
            for anchor in locks.anchors:
                anchor.append(state.mark)

    def disputes(self, state: State, new: Path | None = None) -> list[Dispute]:
        """Return the reasons not to continue with the ledger, without locking anything."""
        return self._disputes(state, self.paths(state), new, lambda path: [read_last(path)])

    def refuse_disputed(self, state: State, new: Path | None = None) -> None:
        """Raise ``LedgerError`` if a state has disputes."""
        _refuse(self.disputes(state, new))

    def _verify_entries(self, transaction: Transaction, *, need_key: bool = True) -> State:
        """Verify the entries that a transaction sees and, with ``need_key``, the key; return the state after them."""
        state = self._continued(transaction)
        entries = transaction.entries(after=state.mark.sequence)
        findings = broken_links(entries, state.mark) + replay(entries, state).findings
        if findings:
            raise unverified_error(findings[0])
        if need_key and (findings := key_findings(state)):
            raise LedgerError(findings[0], hint=_KEY)
        self._known = state.copy(None)
        return state

    def _continued(self, transaction: Transaction) -> State:
        """Return the last verified state; the caller must replay the entries after it."""
        known = self._known
        if known is not None and not transaction.is_suspect:
            last = transaction.entry(known.mark.sequence)
            if known.mark == (last or State()).mark:
                return known.copy(transaction)
        if not transaction.is_suspect and transaction.is_indexed:
            for checkpoint in transaction.find("checkpoint", last=1):
                return self._at_checkpoint(transaction, checkpoint)
        return State(keys=self._keys, lookup=transaction)

    def _at_checkpoint(self, transaction: Transaction, entry: Entry) -> State:
        before, payload = transaction.entry(entry.sequence - 1), transaction.payload(payload_key(entry.sequence))
        if before is None or payload is None or not entry.follows(before.hash):
            raise unverified_error(f"the checkpoint in entry {entry.sequence} was changed")
        state = state_at(entry, payload, transaction)
        state.keys = self._keys
        key = self._keys.get(state.key)
        if key is not None and not key.signed(before.hash, entry.fields):
            raise unverified_error(f"the signature of entry {entry.sequence} is not valid")
        state.is_signed = key is not None
        return state

    def _disputes(
        self, state: State, paths: list[Path], new: Path | None, read: Callable[[Path], list[Mark | None]]
    ) -> list[Dispute]:
        disputes = [Dispute("", None, state.held, _ADOPT, tuple(state.changes))] if state.held else []
        for path in paths:
            if not _begins(state, path, new):
                try:
                    disputes += [dispute for last in read(path) for dispute in self._compare(state, path, last)]
                except FileNotFoundError:
                    disputes.append(_missing(path))
        return disputes

    def _begin_anchors(self, locks: _Locks, state: State, before: Mark) -> None:
        """Lock the anchors that are not locked yet, because they are new or were lost; create missing files."""
        known = {anchor.path for anchor in locks.anchors}
        for path in self.paths(state):
            if path not in known:
                try:
                    last_lines = locks.lock(path, before)
                except FileNotFoundError:
                    raise LedgerError(
                        f"the directory of the anchor {str(path)!r} is missing",
                        hint="check that its file system is mounted, or name another anchor",
                    ) from None
                _refuse([dispute for last in last_lines for dispute in self._compare(state, path, last)])

    def _compare(self, state: State, path: Path, last: Mark | None) -> list[Dispute]:
        """Return a dispute if the chain lacks the anchor's last line, unless a human has adopted the chain."""
        if last is None:
            return [Dispute(str(path), None, f"the anchor {str(path)!r} is empty: it was truncated", _ADOPT)]
        if state.holds(last) or last in state.adopted:
            return []
        end = state.mark.sequence
        if not end:
            return [
                Dispute(
                    str(path),
                    last,
                    f"there is no ledger at {self._storage.location!r}, or it has no entries, but its anchor "
                    f"{str(path)!r} has seen entry {last.sequence}",
                    "if it is elsewhere: --ledger FILE; if it was deleted: "
                    "dpbayes budget restore BACKUP --reason TEXT; to begin anew without a backup: "
                    "dpbayes budget adopt --reason TEXT",
                )
            ]
        text = (
            f"the ledger {self._storage.location!r} ends at entry {end}, but its anchor {str(path)!r} has seen entry "
            f"{last.sequence}: the ledger was replaced by an older copy, or cut short"
            if last.sequence > end
            else f"entry {last.sequence} of the ledger {self._storage.location!r} is not the one that its anchor "
            f"{str(path)!r} has seen: the ledger was exchanged or rewritten, or is a copy that was changed separately"
        )
        return [Dispute(str(path), last, text, f"find the ledger that the anchor has seen; if it is lost: {_ADOPT}")]


def key_findings(state: State) -> list[str]:
    """Return what is wrong with the signature of the last entry or with the available key; at most one sentence."""
    if state.key and state.key not in state.keys:
        reason = "another key was given" if state.keys else "no key was given"
        return [f"the ledger is signed with the key {state.key}, and {reason}"]
    if state.key and not state.is_signed:  # the signature of the last entry covers all entries before it
        return [f"the last entry is not signed with the key {state.key}: the ledger was rewritten, or cut short"]
    if state.keys and not state.key and state.last is not None:
        return ["a key was given, but the ledger is not signed: if it was signed before, it was rewritten"]
    return []


def marks_of(disputes: list[Dispute]) -> dict[str, list[dict[str, object]]]:
    """Return number and hash of the last entry in each disputed anchor, as an entry of the ledger stores them."""
    seen = [(dispute.path, dispute.mark) for dispute in disputes if dispute.mark]
    return {"seen": [{"path": path, "sequence": mark.sequence, "hash": mark.hash} for path, mark in seen]}


def unresolved_disputes(state: State, disputes: list[Dispute]) -> list[Dispute]:
    """Return the disputes that a later state of the ledger has not resolved."""
    return [
        dispute
        for dispute in disputes
        if dispute.mark is None or not (state.holds(dispute.mark) or dispute.mark in state.adopted)
    ]


def _refuse(disputes: list[Dispute]) -> None:
    if disputes:
        raise LedgerError(disputes[0].text, hint=disputes[0].hint)


def _missing(path: Path) -> Dispute:
    return Dispute(
        str(path),
        None,
        f"the anchor {str(path)!r} is missing",
        f"check that its file system is mounted; if the anchor is lost: {_ADOPT} (--move FILE puts the anchor "
        "elsewhere); to create a new anchor: dpbayes budget anchor FILE",
    )


def _begins(state: State, path: Path, new: Path | None) -> bool:
    """Return whether a path is that of this transaction's new anchor, and its file is missing or empty."""
    if path != new or state.anchor == str(path):
        return False
    try:
        return read_last(path) is None
    except FileNotFoundError:
        return True
