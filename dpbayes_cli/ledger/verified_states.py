"""The verified state of a ledger in each transaction of a process.

The first transaction replays the entries after the last checkpoint, and each later one only the entries appended since.
So a release verifies its ledger once, however many transactions it makes, and before it holds the lock.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.chain import Entry, broken_links
from dpbayes_cli.ledger.checkpoint import payload_key, state_at
from dpbayes_cli.ledger.key import LedgerKey
from dpbayes_cli.ledger.replay import replay
from dpbayes_cli.ledger.state import State, unverified
from dpbayes_cli.ledger.storage import Transaction

_KEY = "DPBAYES_LEDGER_KEY names the file of the key; dpbayes budget key FILE --reason TEXT starts signing"


class VerifiedStates:
    """Returns the state that a transaction sees, and remembers it for the next transaction.

    Args:
        keys: the available keys.
    """

    def __init__(self, keys: Sequence[LedgerKey]) -> None:
        self._keys = {key.fingerprint: key for key in keys}
        self._known: State | None = None

    def seen_by(self, transaction: Transaction, *, need_key: bool = True) -> State:
        """Return the verified state that a transaction sees.

        Raises:
            LedgerError: the chain is broken, or an entry breaks the protocol; or, if ``need_key``, a signed ledger is
                opened without its key, or an unsigned one with a key.
        """
        state = self._continued(transaction)
        entries = transaction.entries(after=state.mark.sequence)
        findings = broken_links(entries, state.mark) + replay(entries, state).findings
        if findings:
            raise unverified(findings[0])
        if need_key and (findings := key_findings(state)):
            raise LedgerError(findings[0], hint=_KEY)
        self.keep(state)
        return state

    def keep(self, state: State) -> None:
        """Remember a state that is on disk."""
        self._known = state.copy(None)

    def _continued(self, transaction: Transaction) -> State:
        """Return a verified state of the chain, after which the remaining entries must be replayed."""
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
            raise unverified(f"the checkpoint in entry {entry.sequence} was changed")
        state = state_at(entry, payload, transaction)
        state.keys = self._keys
        key = self._keys.get(state.key)
        if key is not None and not key.signed(before.hash, entry.fields):
            raise unverified(f"the signature of entry {entry.sequence} is not valid")
        state.is_signed = key is not None
        return state


def key_findings(state: State) -> list[str]:
    """Return a list with the finding about the signature and the available key; empty if there is no finding."""
    if state.key and state.key not in state.keys:
        given = "another key was given" if state.keys else "no key was given"
        return [f"the ledger is signed with the key {state.key}, and {given}"]
    if state.key and not state.is_signed:  # the signature of the last entry covers all entries before it
        return [f"the last entry is not signed with the key {state.key}: the ledger was rewritten, or cut short"]
    if state.keys and not state.key and state.last is not None:
        return ["a key was given, but the ledger is not signed: if it ever was, it was rewritten"]
    return []
