"""Explain what an interrupted command has done, such as whether a release was charged, and what to type next.

A command that has something to explain registers a function that returns the explanation.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbayes_cli.ledger.charging import Charge
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.records import ReleaseRecord

NOT_CHARGED = "nothing was charged; run the same command again"
_AGAIN = "run the same command again to finish it without a second charge"
_LEDGER_TIMEOUT_SECONDS = 3.0
_EXPLAIN: list[Callable[[], str]] = []


def reset() -> None:
    """Forget the function of an earlier command in this process."""
    _EXPLAIN.clear()


def explain_with(function: Callable[[], str]) -> None:
    """Keep the function that explains what the command has done so far; it replaces an earlier one."""
    _EXPLAIN[:] = [function]


def explanation() -> str:
    """Return what the interrupted command has done so far; empty if the command registered no function."""
    return _EXPLAIN[0]() if _EXPLAIN else ""


def explain_release(ledger: Ledger, charge: Charge) -> str:
    """Return whether an interrupted release was charged, and what to type next, even if the ledger does not answer."""
    answers: list[ReleaseRecord | None] = []

    def ask() -> None:
        with suppress(Exception):
            answers.append(ledger.begun(charge))

    asking = Thread(target=ask, daemon=True)  # another process may hold the ledger
    asking.start()
    asking.join(_LEDGER_TIMEOUT_SECONDS)
    if not answers:
        return f"dpbayes budget history {charge.account} shows whether the release was charged; {_AGAIN}"
    known = answers[0]
    if known is None:
        return NOT_CHARGED
    from dpbayes_cli.ledger.charge_text import charge_text

    charged = f"{charge_text(known.guarantee)} is charged to account {charge.account!r}"
    if known.stage == "published" and charge.fresh:
        return f"{charged}, and release {known.release_id} is complete, with its bundle; nothing is left to do"
    return f"{charged}, for release {known.release_id}; {_AGAIN}"
