"""The chain of entries, which is verified whenever it is opened. Each method is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpbayes_cli import __version__
from dpbayes_cli.base.canonical import digest
from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.anchored_storage import AnchoredStorage, Dispute, key_findings, marks_of, unresolved_disputes
from dpbayes_cli.ledger.chain import Entry, broken_links, next_entry
from dpbayes_cli.ledger.checkpoint import is_due, payload_key, state_payload
from dpbayes_cli.ledger.key import LedgerKey
from dpbayes_cli.ledger.payloads import index_findings, payload_findings
from dpbayes_cli.ledger.process_identity import user_name
from dpbayes_cli.ledger.replay import apply_entry, replay
from dpbayes_cli.ledger.state import State
from dpbayes_cli.ledger.storage import Storage, Transaction


class VerifiedChain:
    """A chain of entries, which is verified whenever it is opened, and which can be anchored and signed.

    Privacy: nothing is appended to a ledger that does not verify, disagrees with an anchor, or whose key is not
        available. The clock is read once, before anything depends on data: every entry that is written through this
        object has that time, and no entry reveals how long a draw took.
    Source: derived here.

    Args:
        clock: a function that returns the time.
        stated_anchor: an anchor to compare in addition to the one that the ledger names.
        key: the available key, or None.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        stated_anchor: Path | None = None,
        key: LedgerKey | None = None,
    ) -> None:
        self.storage = storage
        self.key = key
        self.anchored = AnchoredStorage(storage, stated_anchor, self.keys)
        self.time = clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def location(self) -> str:
        """The place of the ledger, as a user names it."""
        return self.storage.location

    @property
    def keys(self) -> dict[str, LedgerKey]:
        """The available key, by its fingerprint."""
        return {self.key.fingerprint: self.key} if self.key else {}

    def state(self, *, compare: bool = True) -> State:
        """Return the verified state of the ledger; an empty state if there is no ledger yet.

        Args:
            compare: whether to compare the ledger with its anchors; False lets a human look at a ledger that disagrees
                with an anchor.

        Raises:
            LedgerError: the ledger cannot be read, its chain is broken, or it disagrees with an anchor.
        """
        if not self.storage.exists:
            if compare:
                self.anchored.refuse_disputed(State())
            return State()
        with self.anchored.reading(compare=compare) as (_, state):
            return state

    def entries(self) -> list[Entry]:
        """Return all entries, unverified."""
        with self.storage.reading() as transaction:
            return transaction.entries()

    def findings(self, *, compare: bool = True) -> tuple[list[str], State]:
        """Check the chain, the payloads, the index and the storage; return the findings, and the state.

        Each finding is a sentence. With ``compare``, the anchors and the key are checked too.
        """
        with self.storage.reading() as transaction:
            entries = transaction.entries()
            state = replay(entries, State(keys=self.keys))
            findings = broken_links(entries) + state.findings
            findings += payload_findings(transaction, entries) + index_findings(transaction, entries)
        if compare:
            findings += key_findings(state) + self.disputes(state)
        return self.storage.damage() + findings, state

    def disputes(self, state: State) -> list[str]:
        """Return the reasons not to continue with the ledger, such as an anchor that disagrees, one sentence each."""
        try:
            disputes = self.anchored.disputes(state)
        except LedgerError as error:
            return [error.message]
        if disputes and self.storage.exists:
            with self.storage.reading() as transaction:  # a writer may have changed ledger and anchors meanwhile
                disputes = unresolved_disputes(replay(transaction.entries()), disputes)
        return [dispute.text for dispute in disputes]

    def anchors(self, state: State) -> list[Path]:
        """Return the paths of the ledger's anchors."""
        return self.anchored.paths(state)

    def anchor(self, path: Path | None, reason: str) -> tuple[State, bool]:
        """Set the anchor of the ledger, or remove it with None; return the state, and whether the anchor is new.

        Raises:
            LedgerError: the file cannot be written, or is the anchor of another ledger.
        """
        name = str(path.absolute()) if path else ""
        with self.writing(new=Path(name) if name else None) as (transaction, state):
            if new := state.anchor != name:
                self.append(transaction, state, {"kind": "anchor", "account": "", "path": name, "reason": reason})
        return state, new

    def adopt(self, reason: str, move: Path | None = None) -> tuple[State, list[Dispute]]:
        """Record that a human has checked a disputed ledger and decided to continue with it.

        Args:
            move: the new path of the anchor; None: the anchor stays.

        Returns:
            The state, and the disputes (reasons not to continue) that were resolved; without disputes, nothing is
            recorded.

        Raises:
            LedgerError: there is neither a ledger nor an anchor.
        """
        if not self.storage.exists and not self.disputes(State()):
            self.storage.require()
        with self.anchored.writing(adopting=True) as (transaction, state, disputes):
            if disputes:
                fields = {
                    "kind": "adopt",
                    "account": "",
                    "reason": reason,
                    **marks_of(disputes),
                    "lost": [dispute.path for dispute in disputes if dispute.path and not dispute.mark],
                    "found": asdict(state.mark),
                }
                self.append(transaction, state, fields)
            if disputes and move is not None:
                fields = {"kind": "anchor", "account": "", "path": str(move.absolute()), "reason": reason}
                self.append(transaction, state, fields)
        return state, disputes

    def begin_key(self, key: LedgerKey, reason: str) -> bool:
        """Sign every new entry with a key; the first signature covers all earlier entries.

        A ledger that is signed already must be opened with its old key.

        Returns:
            False if the ledger is signed with this key already.

        Raises:
            LedgerError: the ledger is signed with a key that is not available.
        """
        with self.anchored.writing(need_key=False) as (transaction, state, _):
            if state.key == key.fingerprint:
                return False
            if state.key and state.key not in state.keys:
                raise LedgerError(
                    f"the ledger is signed with the key {state.key}, which was not given",
                    hint="to change the key, set DPBAYES_LEDGER_KEY to the file of the old key",
                )
            state.keys = {**state.keys, key.fingerprint: key}
            for _ in range(2 if state.key else 1):  # a change of keys is signed with both keys
                fields = {"kind": "key", "account": "", "key": key.fingerprint, "reason": reason}
                self.append(transaction, state, fields)
            return True

    def append(self, transaction: Transaction, state: State, fields: Mapping[str, Any]) -> None:
        """Append an entry and apply it to the state; raise ``LedgerError`` if it would break the protocol."""
        entry = next_entry(state.last, {**fields, **self.stamp()}, state.keys.get(state.key_for(fields)))
        apply_entry(state, entry)
        if state.findings:
            raise LedgerError(f"refused to write: {state.findings[0]}")
        transaction.append(entry)

    @contextmanager
    def writing(self, new: Path | None = None, *, begin: bool = True) -> Iterator[tuple[Transaction, State]]:
        """Begin a transaction that changes the ledger, and add a checkpoint if one is due."""
        with self.anchored.writing(new, begin=begin) as (transaction, state, _):
            if state.last is None and self.key is not None:
                fields = {"kind": "key", "account": "", "key": self.key.fingerprint, "reason": "a key was stated"}
                self.append(transaction, state, fields)
            before = state.mark
            yield transaction, state
            if state.mark != before and is_due(state) and (transaction.is_indexed or transaction.begin_index()):
                payload = state_payload(state)
                fields = {"kind": "checkpoint", "account": "", "state": digest("payload", payload)}
                self.append(transaction, state, fields)
                transaction.put_payload(payload_key(state.mark.sequence), payload)

    def stamp(self) -> dict[str, str]:
        """Return the time, user and version that every new entry holds."""
        return {"time": self.time, "user": user_name(), "version": __version__}
