"""Checkpoints store the state of all accounts, so that a command replays only the entries after the last checkpoint.

The entry of a checkpoint holds the digest of the state; the state itself is stored beside the chain, as a payload.
``budget verify`` replays the whole chain and compares every checkpoint with the state after the entries before it.
"""

from __future__ import annotations

import json
from decimal import Decimal
from functools import lru_cache
from typing import Any

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.ledger.budgets import Budget, Lanes, component_texts
from dpbayes_cli.ledger.chain import Entry, Mark
from dpbayes_cli.ledger.state import Account, State
from dpbayes_cli.ledger.storage import Transaction
from dpbayes_cli.ledger.union_budget import parse_budget
from dpbayes_cli.privacy.neighbors import Neighbors

_INTERVAL_ENTRIES = 256
"""The number of entries between two checkpoints; replaying this many takes a few milliseconds."""
_ACCOUNTS_PER_ENTRY = 8
"""The largest number of accounts per entry between checkpoints; more would let checkpoints fill the storage."""
_PLAIN_STATE = ("anchor", "held", "changes", "key", "key_since", "blind")
_PLAIN_ACCOUNT = (
    "name", "opened", "by_default", "unit", "separate_population", "changes", "n_releases", "unfinished", "layouts",
    "exhausted", "exhausted_limits",
)  # fmt: skip
"""The attributes of an account that a checkpoint stores as they are; ``_PLAIN_STATE`` names those of a state."""
_ACCOUNTS = {1: "accounts", 2: "accounts_of_which_some_are_closed"}
"""The key of the accounts in a stored state, by the version of the state. A state with a closed account has version 2,
which dpbayes before 0.4 refuses: it does not know that accounts can be closed, and would charge them. Other states have
version 1, so that the digests of earlier checkpoints stay the same."""


def is_due(state: State) -> bool:
    """Return whether enough entries follow the last checkpoint to add another one."""
    return state.mark.sequence - state.checkpoint >= max(_INTERVAL_ENTRIES, len(state.accounts) // _ACCOUNTS_PER_ENTRY)


def payload_key(sequence: int) -> str:
    """Return the key under which the state of a checkpoint is stored."""
    return f"checkpoint {sequence}"


def state_payload(state: State) -> bytes:
    """Return the stored form of a state as canonical JSON: everything except the releases."""
    version = 2 if any(account.closed for account in state.accounts.values()) else 1
    document = {
        "version": version,
        _ACCOUNTS[version]: [_stored(account) for account in state.accounts.values()],
        "adopted": sorted([mark.sequence, mark.hash] for mark in state.adopted),
        **{name: getattr(state, name) for name in _PLAIN_STATE},
    }
    return canonical_json(document)


def state_at(entry: Entry, payload: bytes, lookup: Transaction) -> State:
    """Return the state after a checkpoint, from its entry and payload; ``lookup`` finds older entries.

    An account that an earlier entry closed is closed, even if the checkpoint does not say so.

    Raises:
        LedgerError: the payload does not belong to the checkpoint, or an earlier closing was changed.
    """
    try:
        if digest("payload", payload) != entry.fields["state"]:
            raise ValueError
        stored = json.loads(payload)
        accounts = [_account(fields) for fields in stored[_ACCOUNTS[stored["version"]]]]
        state = State(
            accounts={account.name: account for account in accounts},
            last=entry,
            base=entry.sequence,
            base_hash=entry.hash,
            checkpoint=entry.sequence,
            adopted={Mark(sequence, hash_) for sequence, hash_ in stored["adopted"]},
            lookup=lookup,
            **{name: stored[name] for name in _PLAIN_STATE},
        )
        for closing in state.find("close"):
            if closing.sequence < entry.sequence:
                state.accounts[closing.fields["account"]].closed = closing.fields["time"]
        return state
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise LedgerError(
            f"the checkpoint in entry {entry.sequence} is damaged", hint="dpbayes budget verify lists all findings"
        ) from None


def _stored(account: Account) -> dict[str, Any]:
    return {
        **{name: getattr(account, name) for name in _PLAIN_ACCOUNT},
        "budget": account.budget.serialize(),
        "neighbors": str(account.neighbors),
        "charged": component_texts(account.charged),
        "charged_by": {analyst: component_texts(lanes) for analyst, lanes in account.charged_by.items()},
        "limits": {analyst: budget.serialize() for analyst, budget in account.limit_budgets.items()},
        "notice": None if account.notice is None else decimal_text(account.notice),
        **({"closed": account.closed} if account.closed else {}),  # digests of earlier checkpoints have no such key
    }


def _account(stored: dict[str, Any]) -> Account:
    return Account(
        **{name: stored[name] for name in _PLAIN_ACCOUNT},
        budget=_budget(json.dumps(stored["budget"])),
        neighbors=Neighbors(stored["neighbors"]),
        charged=_lanes(stored["charged"]),
        charged_by={analyst: _lanes(lanes) for analyst, lanes in stored["charged_by"].items()},
        limit_budgets={analyst: _budget(json.dumps(budget)) for analyst, budget in stored["limits"].items()},
        notice=None if stored["notice"] is None else Decimal(stored["notice"]),
        closed=stored.get("closed", ""),
        whole=False,
    )


def _lanes(stored: dict[str, str]) -> Lanes:
    return {lane: Decimal(text) for lane, text in stored.items()}


@lru_cache(maxsize=1024)
def _budget(stored: str) -> Budget:
    return parse_budget(json.loads(stored))
