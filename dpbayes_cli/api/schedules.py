"""Schedules in Python."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dpbayes_cli.api.accounts import Accounts
from dpbayes_cli.api.released import ReleasedBundle

if TYPE_CHECKING:
    from dpbayes_cli.spec.schedule_file import Schedule
    from dpbayes_cli.workflow.schedule import Appointment, PricedSchedule


class ScheduledReleases:
    """Releases that a file lists in advance, which are priced together and charged once.

    >>> nights = dpb.Schedule("nights.yaml", "ledger.sqlite")
    >>> nights.check().fits  # reads no data, charges nothing
    True
    >>> nights.open()  # charges the whole total, once
    True
    >>> list(nights.run())  # releases what is due
    ['relapse-1']

    Args:
        file: the file of the schedule.
        ledger: the ledger; if None, the default ledger.
    """

    def __init__(self, file: str | Path, ledger: Accounts | str | Path | None = None) -> None:
        self._file = Path(file)
        self._accounts = ledger if isinstance(ledger, Accounts) else Accounts(ledger)

    @cached_property
    def schedule(self) -> Schedule:
        """The checked contents of the file."""
        from dpbayes_cli.spec.schedule_file import read_schedule

        return read_schedule(self._file)

    def check(self) -> PricedSchedule:
        """Return the cost of all releases together; this reads no data and charges nothing.

        Raises:
            SpecError: the file or a request is wrong.
            BudgetError: a mechanism cannot be priced in a schedule.
        """
        from dpbayes_cli.workflow.schedule import price_schedule

        return price_schedule(self.schedule)

    def open(self, *, separate: str | None = None) -> bool:
        """Charge the schedule, once, to an account of its own; return whether it was charged now.

        Args:
            separate: why no other account of this ledger has paid for the people in these data; None: not stated.

        Raises:
            BudgetError: the cost is above the total, or the account is open with another schedule.
        """
        from dpbayes_cli.workflow.schedule import open_schedule

        return open_schedule(self.schedule, self._accounts.ledger, separate)[1]

    def run(
        self,
        *data: str | Path,
        name: str | None = None,
        day: date | None = None,
        out: str | Path | None = None,
        say: Callable[[str], None] | None = None,
    ) -> dict[str, ReleasedBundle]:
        """Release what is due; return the releases of the day by label, also those that were released before.

        Args:
            data: the paths of the files, or the address of the table; if not stated, what the file names.
            name: a label, or the name of an entry; if None, all entries.
            day: the day; if None, today.
            out: the directory of the bundles; if None, the name of the account.
            say: a function that is called with each message, such as ``print``.

        Raises:
            DpbayesError: see ``errors``; a repeated call finishes what was begun.

        Privacy: the account admits each release that was priced, once, and nothing else.
        Source: docs/how-to/schedules.md (why one charge pays for all).
        """
        from dpbayes_cli.base.process_hardening import disable_core_dumps
        from dpbayes_cli.workflow.schedule import choose_by_name, release_listed

        disable_core_dumps()
        today, places = day or date.today(), [os.fspath(each) for each in data]
        directory = Path(self.schedule.account if out is None else out)
        released = {}
        for each in choose_by_name(self._listed(), name, today):
            published = release_listed(
                each, places, today, directory / each.label, self._accounts.ledger, say or (lambda _message: None)
            )
            released[each.label] = ReleasedBundle(published.bundle, published.remaining, published.replayed)
        return released

    def show(self, day: date | None = None) -> dict[str, str]:
        """Return, for each label, whether its release is done, due or open.

        Args:
            day: the day; if None, today.

        Raises:
            BudgetError: the schedule is not open, or was changed after it was opened.
        """
        from dpbayes_cli.workflow.schedule import release_states

        return release_states(self._listed(), day or date.today())

    def _listed(self) -> list[Appointment]:
        from dpbayes_cli.workflow.schedule import appointments, opened_account

        return appointments(self.schedule, opened_account(self.schedule, self._accounts.ledger))
