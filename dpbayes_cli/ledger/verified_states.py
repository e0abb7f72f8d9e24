"""The state of a ledger at each opening: verified from the last checkpoint, or from what was verified before.

The first opening of a process replays what follows the last checkpoint, and every later one only what was appended
since: a release verifies its ledger once, however many transactions it takes, and before it holds the lock.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.chain import Mark, broken_links, entry_hash
from dpbayes_cli.ledger.checkpoint import payload_key, state_at
from dpbayes_cli.ledger.key import LedgerKey
from dpbayes_cli.ledger.replay import replay
from dpbayes_cli.ledger.state import State
from dpbayes_cli.ledger.storage import Transaction

_KEY = "DPBAYES_LEDGER_KEY names the file of the key; dpbayes budget key FILE --reason TEXT begins with one"
_LIST = "dpbayes budget verify lists all findings"


class VerifiedStates:
    """Returns the state that a transaction sees, and remembers it for the next one.

    Args:
        keys: the keys at hand.
    """

    def __init__(self, keys: Sequence[LedgerKey]) -> None:
        self._keys = {key.fingerprint: key for key in keys}
        self._known: State | None = None

    def seen_by(self, transaction: Transaction, *, need_key: bool = True) -> State:
        """Return the state, refusing a ledger whose chain or protocol is broken.

        Args:
            transaction: which sees it.
            need_key: whether a signed ledger is refused without its key, and an unsigned one if a key is stated.

        Raises:
            LedgerError: it does not verify.
        """
        state = self._continued(transaction)
        entries = transaction.entries(after=state.mark.sequence)
        findings = broken_links(entries, state.mark) + replay(entries, state).findings
        if findings:
            raise LedgerError(f"the ledger does not verify: {findings[0]}", hint=_LIST)
        if need_key and (reasons := key_findings(state)):
            raise LedgerError(reasons[0], hint=_KEY)
        self.keep(state)
        return state

    def keep(self, state: State) -> None:
        """Remember a state that is on disk."""
        self._known = state.copy(None)

    def _continued(self, transaction: Transaction) -> State:
        """Return a verified state that the chain goes on from."""
        known = self._known
        if known is not None and not transaction.is_suspect:
            last = transaction.entry(known.mark.sequence)
            if known.mark == (Mark(last.sequence, last.hash) if last else Mark(0, State().mark.hash)):
                return known.copy(transaction)
        if transaction.is_suspect or not transaction.is_indexed:
            return State(keys=self._keys, lookup=transaction)
        return self._at_checkpoint(transaction)

    def _at_checkpoint(self, transaction: Transaction) -> State:
        found = transaction.find("checkpoint", last=1)
        if not found:
            return State(keys=self._keys, lookup=transaction)
        (entry,) = found
        before, payload = transaction.entry(entry.sequence - 1), transaction.payload(payload_key(entry.sequence))
        body = entry.body.encode("utf-8", "surrogatepass")
        if before is None or payload is None or entry_hash(before.hash, body) != entry.hash:
            raise LedgerError(
                f"the ledger does not verify: the checkpoint of entry {entry.sequence} is not what was written",
                hint=_LIST,
            )
        state = state_at(entry, payload, transaction)
        state.keys = self._keys
        key = self._keys.get(state.key)
        if key is not None and not key.signed(before.hash, entry.fields):
            raise LedgerError(
                f"the ledger does not verify: the signature of entry {entry.sequence} is not that of its key",
                hint=_LIST,
            )
        state.is_signed = key is not None
        return state


def key_findings(state: State) -> list[str]:
    """Return what speaks against a ledger and the key that is at hand, in a list of one sentence; empty if nothing."""
    if state.key and state.key not in state.keys:
        stated = "another one is stated" if state.keys else "none is stated"
        return [f"the ledger is signed with the key {state.key}, and {stated}"]
    if state.key and not state.is_signed:  # the signature of the last entry covers all before it
        return [f"the last entry is not signed with the key {state.key}: the ledger was rewritten, or cut off"]
    if state.keys and not state.key and state.last is not None:
        return ["a key is stated, and the ledger is not signed with any: if it ever was, it was rewritten"]
    return []
