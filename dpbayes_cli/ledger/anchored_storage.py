"""Every opening of a ledger: verified, compared with its anchors, and marked there once it is on disk.

The comparison and the mark are made under the ledger's own lock and the anchors': the commit comes first, the mark
second. Killed between the two, an anchor is behind, and the next command brings it up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.anchor import Anchor, lock_anchor, read_last
from dpbayes_cli.ledger.chain import Mark
from dpbayes_cli.ledger.key import LedgerKey
from dpbayes_cli.ledger.state import State
from dpbayes_cli.ledger.storage import Storage, Transaction
from dpbayes_cli.ledger.verified_states import VerifiedStates

_ADOPT = "dpbayes budget history shows what it holds, dpbayes budget adopt --reason TEXT goes on with it"


@dataclass(frozen=True)
class Dispute:
    """What speaks against going on with a ledger.

    Attributes:
        path: the anchor, or an empty text where the ledger itself says so.
        mark: what the anchor has seen; None where it has seen nothing.
        text: one sentence.
        hint: what to do.
        changes: what is not in the ledger as it was before, one sentence each.
    """

    path: str
    mark: Mark | None
    text: str
    hint: str
    changes: tuple[str, ...] = ()


class AnchoredStorage:
    """A storage that is believed only where its chain verifies and its anchors agree.

    Args:
        storage: where the ledger is.
        stated: an anchor that is stated beside the ledger, which thus need not be believed about it.
        keys: the keys at hand.
    """

    def __init__(self, storage: Storage, stated: Path | None, keys: Sequence[LedgerKey] = ()) -> None:
        self._storage = storage
        self._stated = stated
        self._states = VerifiedStates(keys)

    def paths(self, state: State) -> list[Path]:
        """Return the anchors: the one that the ledger configures, and the one that is stated.

        Raises:
            LedgerError: one is the ledger itself.
        """
        named = [state.anchor, str(self._stated.absolute()) if self._stated else ""]
        paths = [Path(name) for name in dict.fromkeys(named) if name]
        if any(os.path.realpath(path) == os.path.realpath(self._storage.location) for path in paths):
            raise LedgerError("the anchor is the ledger itself", hint="name a file on another file system")
        return paths

    @contextmanager
    def reading(self, *, compare: bool = True) -> Iterator[tuple[Transaction, State]]:
        """Begin a transaction that changes nothing, on a ledger that is trusted.

        Raises:
            LedgerError: it cannot be read, does not verify, or an anchor speaks against it.
        """
        with self._storage.reading() as transaction:
            state = self._states.seen_by(transaction, need_key=compare)
            disputes = self.disputes(state) if compare else []
            if not disputes:
                yield transaction, state
                return
        with self._storage.reading() as transaction:  # which may be younger than what the anchor has seen
            state = self._states.seen_by(transaction)
            _refuse(unresolved(state, disputes))
            yield transaction, state

    @contextmanager
    def writing(
        self, new: Path | None = None, *, begin: bool = True, need_key: bool = True
    ) -> Iterator[tuple[Transaction, State]]:
        """Begin a transaction that excludes all others, on a ledger that is trusted.

        Args:
            new: an anchor that this transaction configures, and that need not be there yet.
            begin: whether a ledger is begun where there is none.
            need_key: whether the ledger must be signed with a key that is at hand, if one is stated.

        Raises:
            LedgerError: it cannot be opened, does not verify, an anchor speaks against it, or cannot be written.
        """
        if not self._storage.exists:
            if not begin:
                raise LedgerError(
                    f"the ledger {self._storage.location!r} is gone: it was removed while it was in use",
                    hint="restore it: what was charged in it is spent",
                )
            self.refuse_disputed(State(), new)  # a ledger that was lost is not begun anew unnoticed
        with self._open(adopting=False, new=new, need_key=need_key) as (transaction, state, _):
            yield transaction, state

    @contextmanager
    def adopting(self) -> Iterator[tuple[Transaction, State, list[Dispute]]]:
        """Begin a transaction as ``writing`` does, but tell what an anchor says against it instead of refusing."""
        with self._open(adopting=True) as opened:
            yield opened

    @contextmanager
    def replacing(self, state: State) -> Iterator[list[Dispute]]:
        """Hold the anchors while another chain takes the ledger's place, and mark its head there when that is done.

        Args:
            state: the other chain, which may grow in the block.

        Yields:
            What speaks against it.
        """
        with ExitStack() as locks:
            taken: set[tuple[int, int]] = set()
            anchors, disputes = self._held_anchors(locks, taken, state, None)
            known = {anchor.path for anchor in anchors}
            missing = [path for path in self.paths(state) if path not in known]
            anchors += self._begun(locks, taken, state, state.mark, missing)
            yield disputes
            for held in anchors:
                held.append(state.mark)

    def disputes(self, state: State, new: Path | None = None) -> list[Dispute]:
        """Return what the ledger and its anchors say against going on, without a lock."""
        found = _held(state)
        for path in self.paths(state):
            if _begins(state, path, new):
                continue
            try:
                last = read_last(path)
            except FileNotFoundError:
                found.append(_missing(path))
                continue
            found += self._compared(state, path, last)
        return found

    def refuse_disputed(self, state: State, new: Path | None = None) -> None:
        """Refuse a state that its anchors speak against.

        Raises:
            LedgerError: they do.
        """
        _refuse(self.disputes(state, new))

    @contextmanager
    def _open(
        self, *, adopting: bool, new: Path | None = None, need_key: bool = True
    ) -> Iterator[tuple[Transaction, State, list[Dispute]]]:
        with ExitStack() as locks:
            taken: set[tuple[int, int]] = set()
            with self._storage.writing() as transaction:
                state = self._states.seen_by(transaction, need_key=need_key)
                before = state.mark
                anchors, disputes = self._held_anchors(locks, taken, state, new)
                if not adopting:
                    _refuse(disputes)
                yield transaction, state, disputes
                known = {anchor.path for anchor in anchors}
                begun = [path for path in self.paths(state) if path not in known]
                anchors += self._begun(locks, taken, state, before, begun)  # before the commit: what fails is undone
            self._states.keep(state)
            for anchor in anchors:
                anchor.append(state.mark)

    def _held_anchors(
        self, locks: ExitStack, taken: set[tuple[int, int]], state: State, new: Path | None
    ) -> tuple[list[Anchor], list[Dispute]]:
        """Lock the anchors, always after the ledger and in one order; return them and what they say."""
        anchors, disputes = [], _held(state)
        for path in sorted(self.paths(state)):
            if _begins(state, path, new):
                continue
            try:
                anchor = locks.enter_context(lock_anchor(path, taken))
            except FileNotFoundError:
                disputes.append(_missing(path))
                continue
            if anchor is not None:
                anchors.append(anchor)
                disputes += self._compared(state, path, anchor.last)
        return anchors, disputes

    def _begun(
        self, locks: ExitStack, taken: set[tuple[int, int]], state: State, before: Mark, paths: list[Path]
    ) -> list[Anchor]:
        """Lock the anchors that this transaction has configured or given up as lost; begin those that are not there."""
        anchors = []
        for path in paths:
            try:
                anchor = locks.enter_context(lock_anchor(path, taken, begin=before))
            except FileNotFoundError:
                raise LedgerError(
                    f"the directory of the anchor {str(path)!r} is missing",
                    hint="is its file system mounted? or name another anchor",
                ) from None
            if anchor is not None:
                _refuse(self._compared(state, path, anchor.last))
                anchors.append(anchor)
        return anchors

    def _compared(self, state: State, path: Path, last: Mark | None) -> list[Dispute]:
        """Return what an anchor says against a chain: its last line must be in it, or be given up by a human."""
        if last is None:
            return [Dispute(str(path), None, f"the anchor {str(path)!r} is empty: it was truncated", _ADOPT)]
        if state.holds(last) or last in state.adopted:
            return []
        end = state.mark.sequence
        text = (
            f"the ledger {self._storage.location!r} ends at entry {end}, but its anchor {str(path)!r} has seen entry "
            f"{last.sequence}: an older copy was put in its place, or it was cut short"
            if last.sequence > end
            else f"entry {last.sequence} of the ledger {self._storage.location!r} is not the one that its anchor "
            f"{str(path)!r} has seen: it is another ledger, was rewritten, or is a copy that went on by itself"
        )
        return [Dispute(str(path), last, text, f"find the ledger that the anchor has seen; if it is lost: {_ADOPT}")]


def marks_of(disputes: list[Dispute]) -> dict[str, list[dict[str, object]]]:
    """Return what anchors have seen, as entries keep it."""
    seen = [(dispute.path, dispute.mark) for dispute in disputes if dispute.mark]
    return {"seen": [{"path": path, "sequence": mark.sequence, "hash": mark.hash} for path, mark in seen]}


def unresolved(state: State, disputes: list[Dispute]) -> list[Dispute]:
    """Return the disputes that a younger reading of the ledger does not settle."""
    return [
        dispute
        for dispute in disputes
        if dispute.mark is None or not (state.holds(dispute.mark) or dispute.mark in state.adopted)
    ]


def _refuse(disputes: list[Dispute]) -> None:
    if disputes:
        raise LedgerError(disputes[0].text, hint=disputes[0].hint)


def _held(state: State) -> list[Dispute]:
    return [Dispute("", None, state.held, _ADOPT, tuple(state.changes))] if state.held else []


def _missing(path: Path) -> Dispute:
    return Dispute(
        str(path),
        None,
        f"the anchor {str(path)!r} is missing",
        f"is its file system mounted? if it is lost: {_ADOPT} (--move FILE: and with an anchor elsewhere); "
        "an anchor that is to be new: dpbayes budget anchor FILE",
    )


def _begins(state: State, path: Path, new: Path | None) -> bool:
    """Return whether an anchor that is stated, but not configured yet, is to begin with this transaction."""
    if path != new or state.anchor == str(path):
        return False
    try:
        return read_last(path) is None
    except FileNotFoundError:
        return True
