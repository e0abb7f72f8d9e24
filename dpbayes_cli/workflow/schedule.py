"""Schedules: price many releases together, charge them once, and release what is due by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from decimal import Context, Decimal
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

from dpbayes_cli.base.errors import BudgetError, SourceError, SpecError
from dpbayes_cli.base.numeric import decimal_text, exact_sum
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.populations import OPEN_SEPARATE
from dpbayes_cli.ledger.records import ReleaseRecord
from dpbayes_cli.ledger.schedule_budget import ScheduleBudget
from dpbayes_cli.ledger.state import Account
from dpbayes_cli.ledger.union_budget import UnionBudget
from dpbayes_cli.privacy.composition import Composition
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.loss_distribution import JointCost, joint_cost
from dpbayes_cli.spec.schedule_file import Schedule, ScheduleEntry
from dpbayes_cli.workflow.pricing import price
from dpbayes_cli.workflow.release_data import locate_data

if TYPE_CHECKING:
    from dpbayes_cli.ledger.charging import Charge
    from dpbayes_cli.workflow.release import PublishedRelease

_EXACT = Context(prec=100)
_MAX_LINES = 60
"""The largest number of lines that a difference shows."""


@dataclass(frozen=True)
class PricedSchedule:
    """A schedule with its cost.

    Attributes:
        guarantees: the guarantee of one release of each entry.
        cost: the cost of all releases together: the smaller of the cost by the distribution of the privacy loss and
            ``one_by_one``, which holds as well.
        one_by_one: the epsilon of all releases at the same delta if an account were charged for each of them; infinite
            if the deltas of the releases are too large for it.
    """

    schedule: Schedule
    guarantees: tuple[Guarantee, ...]
    cost: JointCost
    one_by_one: Decimal

    @property
    def fits(self) -> bool:
        """Whether the cost is at most the total that the file states."""
        return self.cost.epsilon <= self.schedule.epsilon


@dataclass(frozen=True)
class Appointment:
    """A listed release: its entry and label, and its record in the ledger, if it is charged.

    Attributes:
        day: the date on which the release is due; None if the entry states only how often.
    """

    entry: ScheduleEntry
    label: str
    day: str | None
    record: ReleaseRecord | None

    @property
    def is_done(self) -> bool:
        """Whether the release is published."""
        return self.record is not None and self.record.stage == "published"


def price_schedule(schedule: Schedule) -> PricedSchedule:
    """Price a schedule as a whole; no data are read, and nothing is charged.

    Raises:
        SpecError: a request is wrong, or its cost depends on a number of records that it does not state.
        BudgetError: a mechanism cannot be priced by the distribution of its privacy loss.
    """
    guarantees = tuple(map(_guarantee, schedule.entries))
    times: Counter[Guarantee] = Counter()
    composed: Counter[Guarantee] = Counter()
    for entry, guarantee in zip(schedule.entries, guarantees, strict=True):
        times[guarantee] += len(entry.labels)
        composed[_with_known_pairs(entry, guarantee)] += len(entry.labels)
    together, one_by_one = joint_cost(composed, schedule.delta), _one_by_one(schedule, times)
    smaller = replace(together, epsilon=min(together.epsilon, one_by_one))
    return PricedSchedule(schedule, guarantees, smaller, one_by_one)


def _guarantee(entry: ScheduleEntry) -> Guarantee:
    try:
        return price(entry.spec).plan.guarantee
    except SpecError as error:
        place = f"the spec of {entry.name}" + (f", {error.where}" if error.where else "")
        hint = "state it in this spec, e.g. records: 1000" if error.where == "records" else error.hint
        raise SpecError(error.reason, where=place, hint=hint) from None


def _with_known_pairs(entry: ScheduleEntry, guarantee: Guarantee) -> Guarantee:
    """Return the guarantee of an entry, at its former cost if no pair of distributions is known for its shifts.

    Privacy: if a guarantee has several shifts, their envelope covers each change by one record. A unit of several
        records may cause a change between the shifts. Renyi divergences are convex, so that they cover it, too. There
        is no proof that the envelope does, so randomized response is composed instead.
    Source: Kairouz, Oh and Viswanath 2015 (randomized response dominates pure DP).
    """
    parts = guarantee.parts if isinstance(guarantee, Composition) else (guarantee,)
    several = any(isinstance(part, PureDP) and len(part.shifts) > 1 for part in parts)
    unit = entry.spec.privacy.unit
    return guarantee.former if several and unit is not None and unit.max_contributions > 1 else guarantee


def _one_by_one(schedule: Schedule, times: Counter[Guarantee]) -> Decimal:
    """Return the epsilon that an (epsilon, delta) account would have spent; infinite if its delta is not enough."""
    budget = UnionBudget.divide(schedule.epsilon, schedule.delta)
    costs = {guarantee: budget.added(budget.nothing, guarantee) for guarantee in times}
    charged = {
        lane: exact_sum(_EXACT.multiply(costs[each][lane], Decimal(count)) for each, count in times.items())
        for lane in budget.lanes
    }
    spent = budget.spent(charged)
    return spent["epsilon"] if spent["delta"] <= schedule.delta else Decimal("Infinity")


def open_schedule(schedule: Schedule, ledger: Ledger, separate: str | None = None) -> tuple[Account, bool]:
    """Open the account of a schedule, which charges its whole total; return it, and whether it is new.

    Args:
        separate: see ``Ledger.open_account``.

    Raises:
        BudgetError: the cost is above the total, the account is open with other terms, or another account has paid for
            the data, or for data of the name that a spec states.
    """
    accounts = ledger.state().accounts
    if schedule.account in accounts:
        return opened_account(schedule, ledger), False
    for entry in schedule.entries:
        if separate is None and entry.dataset in accounts and accounts[entry.dataset].n_releases:
            raise BudgetError(
                f"the spec of {entry.name!r} names the account {entry.dataset!r}, which has paid for releases already: "
                "the same people would have two budgets; nothing was charged",
                hint=OPEN_SEPARATE,
            )
    priced = price_schedule(schedule)
    if not priced.fits:
        raise BudgetError(
            f"the releases cost epsilon {decimal_text(priced.cost.epsilon)} together at delta "
            f"{decimal_text(schedule.delta)}, and the schedule states a total of {decimal_text(schedule.epsilon)}; "
            "nothing was charged",
            hint="list fewer releases, lower the epsilon of each, or raise the total",
        )
    privacy = schedule.entries[0].spec.privacy
    unit = None if privacy.unit is None else privacy.unit.column
    budget = ScheduleBudget(schedule.epsilon, schedule.delta, priced.cost.epsilon, schedule.text, priced.guarantees)
    return ledger.open_account(schedule.account, budget, privacy.neighbors, unit, separate, _sources(schedule))


def _sources(schedule: Schedule) -> set[str]:
    """Return the data that the schedule names, as far as they exist already."""
    sources = set()
    for entry in schedule.entries:
        if entry.data:
            with suppress(SourceError):
                sources.add(locate_data(entry.spec.source, *entry.data).identity)
    return sources


def opened_account(schedule: Schedule, ledger: Ledger) -> Account:
    """Return the account of a schedule with all its releases.

    Raises:
        BudgetError: the account is not open, holds no schedule, or holds another one; the error lists the differences.
    """
    name = schedule.account
    if name not in ledger.state().accounts:
        raise BudgetError(
            f"the schedule of account {name!r} is not open", hint="to charge it once: dpbayes schedule open FILE"
        )
    account = ledger.account(name)
    if not isinstance(account.budget, ScheduleBudget):
        raise BudgetError(
            f"the account {name!r} is open already, and holds no schedule", hint="name another account in the schedule"
        )
    if account.budget.text != schedule.text:
        raise BudgetError(
            f"the schedule of account {name!r} was changed after it was opened; nothing was released",
            findings=_difference(account.budget.text, schedule.text),
            hint="restore the file, or write another schedule with an account of its own",
        )
    return account


def _difference(opened: str, stated: str) -> list[str]:
    """Return the lines that differ between two canonical texts of a schedule; a long list is cut."""
    lines = list(unified_diff(opened.splitlines(), stated.splitlines(), "opened", "file", n=1, lineterm=""))
    left_out = len(lines) - _MAX_LINES
    return lines if left_out <= 0 else [*lines[:_MAX_LINES], f"... and {left_out} more lines"]


def appointments(schedule: Schedule, account: Account) -> list[Appointment]:
    """Return all listed releases with their records, in the order of the file."""
    records = {record.label: record for record in account.releases.values()}
    return [
        Appointment(entry, label, entry.dates[i] if entry.dates is not None else None, records.get(label))
        for entry in schedule.entries
        for i, label in enumerate(entry.labels)
    ]


def purpose_of(day: date) -> str:
    """Return the purpose that the ledger records for a release that is drawn for a day."""
    return f"scheduled for {day.isoformat()}"


def due_releases(listed: Sequence[Appointment], day: date) -> list[Appointment]:
    """Return what to release on a day, in the order of the file.

    These are the unfinished releases, the releases with a date up to this day, and the next release of each entry with
    ``times`` and no dates, unless one was drawn for this day already.
    """
    drawn_for_day = {each.entry.name for each in listed if _is_for(each, day)}
    chosen = []
    for each in listed:
        if each.is_done:
            continue
        if each.record is not None or (each.day is not None and each.day <= day.isoformat()):
            chosen.append(each)
        elif each.day is None and each.entry.name not in drawn_for_day:
            chosen.append(each)
            drawn_for_day.add(each.entry.name)
    return chosen


def release_states(listed: Sequence[Appointment], day: date) -> dict[str, str]:
    """Return, for each label in the order of the file, whether its release is done, due or open on a day."""
    awaited = {each.label for each in due_releases(listed, day)}
    return {each.label: "done" if each.is_done else "due" if each.label in awaited else "open" for each in listed}


def releases_of_day(listed: Sequence[Appointment], day: date) -> list[Appointment]:
    """Return the published releases of a day, which a second run on this day shows again."""
    return [each for each in listed if each.is_done and _is_for(each, day)]


def choose_by_name(listed: Sequence[Appointment], name: str | None, day: date) -> list[Appointment]:
    """Return what a run releases or shows again.

    Args:
        name: a label, which is released even if it is not due; the name of an entry, of which everything due is
            released; or None for everything due.

    Raises:
        BudgetError: the schedule does not list the name.
    """
    if labeled := [each for each in listed if each.label == name]:
        return labeled
    named = [each for each in listed if name in (None, each.entry.name)]
    if not named:
        raise BudgetError(
            f"the schedule lists no release {name!r}; nothing was released",
            hint="dpbayes schedule show FILE lists its releases",
        )
    wanted = {each.label for each in (*due_releases(named, day), *releases_of_day(named, day))}
    return [each for each in named if each.label in wanted]


def release_listed(
    each: Appointment,
    data: Sequence[str],
    day: date,
    out: Path,
    ledger: Ledger,
    say: Callable[[str], None],
    before: Callable[[Charge], None] = lambda _: None,
) -> PublishedRelease:
    """Release one label of a schedule for a day, or show it again.

    Args:
        data: the paths of the files, or the address of the table; if empty, what the file names.
        out: the directory of the bundle.
        say: see ``release``.
        before: a function that is called before anything is drawn.

    Raises:
        DpbayesError: see ``errors``; a repeated call finishes the release.

    Privacy: the account admits only what was priced; see ``ScheduleBudget`` and ``release``.
    Source: see ``ScheduleBudget``.
    """
    from dpbayes_cli.workflow.prepare import ReleaseOptions, prepare
    from dpbayes_cli.workflow.release import release

    places = data or each.entry.data
    if not places:
        raise SpecError(
            f"the release {each.entry.name!r} names no data", where="data", hint="dpbayes schedule run FILE DATA"
        )
    location = locate_data(each.entry.spec.source, *places)
    options = ReleaseOptions(each.label, open_account=False, purpose=purpose_of(day), out=out)
    with prepare(each.entry.spec, location, options, ledger) as prepared:
        before(prepared.charge)
        return release(prepared, ledger, say)


def _is_for(appointment: Appointment, day: date) -> bool:
    return appointment.record is not None and (
        appointment.day == day.isoformat() or appointment.record.purpose == purpose_of(day)
    )
