"""``dpbayes schedule``: many releases at one joint cost, charged once."""

from __future__ import annotations

from collections import Counter
from datetime import date
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.base.address_space import check_address_space
from dpbayes_cli.base.errors import BudgetError
from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.base.process_hardening import disable_core_dumps
from dpbayes_cli.commands import interruption
from dpbayes_cli.commands.options import PATH, ledger_options, open_ledger, reason_option
from dpbayes_cli.commands.output import (
    emit,
    emit_json,
    emit_result,
    emit_table,
    output_options,
    print_message,
    say,
    say_already_done,
    say_detail,
)

if TYPE_CHECKING:
    from dpbayes_cli.ledger.charging import Charge
    from dpbayes_cli.workflow.release import PublishedRelease
    from dpbayes_cli.workflow.schedule import PricedSchedule

_SEPARATE = "State that no other account of this ledger has paid for the people in these data; needs --reason."
_MAX_ROWS = 40
_file = click.argument("file", type=PATH)


@click.group("schedule")
def command() -> None:
    """Price many releases together, charge them once, and release them by name.

    \b
    account: clinic-nights
    epsilon: 3
    delta: 1e-6
    releases:
      - {name: relapse, times: 365, spec: clinic.yaml}

    A schedule lists its releases in advance. All of them together cost less than if an account were charged for each.
    Each release has a label: its name with a number, or with a date if the schedule states dates.
    """


@command.command("check")
@_file
@output_options
def check(file: Path, as_json: bool) -> None:
    """Price the schedule in FILE as a whole.

    This reads no data and charges nothing. It exits with 5 if the releases cost more than the total that the file
    states.

    With --json, the keys are:

    \b
    account, total        as the file states them; a total has epsilon and delta
    releases              the number of releases of each name
    epsilon, delta        the cost of all releases together
    epsilon_one_by_one    what an account would charge for them one by one
    discretization        the interval of the grid of privacy losses
    fits                  whether the total is enough
    """
    from dpbayes_cli.spec.schedule_file import read_schedule
    from dpbayes_cli.workflow.schedule import price_schedule

    priced = price_schedule(read_schedule(file))
    emit_result(_cost_document(priced), *_cost_sentences(priced), as_json=as_json)
    if not priced.fits:
        raise BudgetError(
            f"the releases cost more than the total of epsilon {decimal_text(priced.schedule.epsilon)}",
            hint="list fewer releases, lower the epsilon of each, or raise the total",
        )


@command.command("open")
@_file
@click.option("--separate-population", is_flag=True, help=_SEPARATE)
@reason_option("Why the population is separate; kept in the history.")
@ledger_options
def open_(file: Path, separate_population: bool, reason: str, ledger_place: str | None, as_json: bool) -> None:
    """Charge the schedule in FILE, once, to an account of its own.

    The account admits each listed release once, and nothing else. The file cannot be changed afterward, and what is
    never released is not refunded. If the same schedule is open already, the command does nothing.

    With --json, the keys are:

    \b
    account, total        as the file states them; a total has epsilon and delta
    releases              the number of releases
    schedule              the digest of what the ledger keeps of the file
    already_done          whether the same schedule was open before
    """
    from dpbayes_cli.ledger.schedule_budget import text_digest
    from dpbayes_cli.spec.schedule_file import read_schedule
    from dpbayes_cli.workflow.schedule import open_schedule

    if separate_population != bool(reason.strip()):
        raise click.UsageError("--separate-population and --reason go together")
    schedule = read_schedule(file)
    account, is_new = open_schedule(schedule, open_ledger(ledger_place), reason if separate_population else None)
    if not is_new:
        say_already_done()
    total = {"epsilon": decimal_text(schedule.epsilon), "delta": decimal_text(schedule.delta)}
    n_releases = sum(len(entry.labels) for entry in schedule.entries)
    document = {
        "account": account.name,
        "total": total,
        "releases": n_releases,
        "schedule": text_digest(schedule.text),
        "already_done": not is_new,
    }
    text = (
        f"account {account.name}: epsilon {total['epsilon']} at delta {total['delta']} is charged for "
        f"{_number(n_releases, 'release')} together; dpbayes schedule run {file} releases what is due"
    )
    emit_result(document, text, as_json=as_json)


@command.command("run")
@_file
@click.argument("data", nargs=-1)
@click.option("--name", metavar="NAME", help="Release only this label, or what is due of this name.")
@click.option("--date", "day", metavar="DATE", help="Release what is due on this day, such as 2026-11-23 [today].")
@click.option("--out", type=PATH, metavar="DIR", help="Directory of the bundles, one for each label [./ACCOUNT].")
@ledger_options
def run(
    file: Path,
    data: tuple[str, ...],
    name: str | None,
    day: str | None,
    out: Path | None,
    ledger_place: str | None,
    as_json: bool,
) -> None:
    """Release what is due of the schedule in FILE.

    The data are DATA or, without DATA, what the file or its specs name. Due are the releases with a date up to today,
    the next release of each name that has no dates, and releases that were interrupted. A second run on the same day
    shows the same results, at no cost.

    With --json, the keys are:

    \b
    account, date
    releases              a list; each item has these keys:
      label, release_id
      bundle              the directory of the bundle
      replayed            whether an earlier result was shown again
      receipt             the sequence number and the hash of the ledger's last entry
    """
    interruption.explain_with(lambda: interruption.NOT_CHARGED)
    check_address_space()
    from dpbayes_cli.bundle.report.result_sentence import warnings_before
    from dpbayes_cli.spec.schedule_file import read_schedule
    from dpbayes_cli.workflow.schedule import appointments, choose_by_name, opened_account, release_listed

    disable_core_dumps()
    today = _parse_day(day)
    schedule = read_schedule(file)
    ledger = open_ledger(ledger_place)
    listed = appointments(schedule, opened_account(schedule, ledger))
    chosen = choose_by_name(listed, name, today)
    if not chosen:
        say(f"nothing is due on {today.isoformat()}")

    def explain(charge: Charge) -> None:
        interruption.explain_with(lambda: interruption.explain_release(ledger, charge))

    results = []
    for each in chosen:
        place = (out or Path(schedule.account)) / each.label
        outcome = release_listed(each, data, today, place, ledger, say_detail, explain)
        results.append({"label": each.label, **_outcome_document(outcome)})
        if not as_json:
            shown = "shown again" if outcome.replayed else "released"
            emit(f"{each.label}: {shown}, in {outcome.bundle}")
        if outcome.is_stale:
            say(f"{each.label}: the data were saved again after this release was drawn; this is the earlier result")
        for line in warnings_before(outcome.document):
            if line.startswith("WARNING"):
                print_message(f"{each.label}: {line.replace('`', '')}")
    if as_json:
        emit_json({"account": schedule.account, "date": today.isoformat(), "releases": results})


@command.command("show")
@_file
@click.option("--date", "day", metavar="DATE", help="Show what is due on this day [today].")
@ledger_options
def show(file: Path, day: str | None, ledger_place: str | None, as_json: bool) -> None:
    """Show what is done, due and open; all rows with -v.

    With --json, the keys are:

    \b
    account, total        as the file states them; a total has epsilon and delta
    done, due, open       the number of releases in each state
    releases              a list; each item has these keys:
      label, state
      begun, release_id   when it was begun, and its ID; empty if it was not begun
    """
    from dpbayes_cli.commands.output import verbosity
    from dpbayes_cli.spec.schedule_file import read_schedule
    from dpbayes_cli.workflow.schedule import appointments, opened_account, release_states

    schedule = read_schedule(file)
    account = opened_account(schedule, open_ledger(ledger_place))
    listed = appointments(schedule, account)
    shown_states = release_states(listed, _parse_day(day))
    rows = []
    for each in listed:
        record = each.record
        begun, release_id = ("", "") if record is None else (record.time, record.release_id)
        rows.append([each.label, shown_states[each.label], begun, release_id])
    counts = Counter(shown_states.values())
    if as_json:
        keys = ("label", "state", "begun", "release_id")
        document = {
            "account": account.name,
            "total": {"epsilon": decimal_text(schedule.epsilon), "delta": decimal_text(schedule.delta)},
            **{state: counts[state] for state in ("done", "due", "open")},
            "releases": [dict(zip(keys, row, strict=True)) for row in rows],
        }
        emit_json(document)
        return
    shown = rows
    if len(rows) > _MAX_ROWS and verbosity() < 1:
        shown = [row for row in rows if row[1] == "due"][:_MAX_ROWS]
    if shown:
        emit_table(["release", "state", "begun", "id"], shown, optional=("id",))
    emit(
        f"account {account.name}: {counts['done']} done, {counts['due']} due, {counts['open']} open; "
        f"epsilon {decimal_text(schedule.epsilon)} at delta {decimal_text(schedule.delta)} is charged for all of them"
    )
    if len(shown) < len(rows):
        say(f"{len(rows) - len(shown)} rows are not shown; -v shows all")


def _cost_sentences(priced: PricedSchedule) -> list[str]:
    schedule, cost = priced.schedule, priced.cost
    counts = ", ".join(f"{len(entry.labels)} of {entry.name}" for entry in schedule.entries)
    n_releases = sum(len(entry.labels) for entry in schedule.entries)
    delta = decimal_text(schedule.delta)
    return [
        f"{_number(n_releases, 'release')} ({counts}) cost epsilon {decimal_text(cost.epsilon)} at delta {delta} "
        "together.",
        f"Charged one by one to an (epsilon, delta) account, they would cost "
        f"{_epsilon_text(priced.one_by_one)} at the same delta.",
        f"The cost is an upper bound: privacy losses are rounded up on a grid of {cost.interval:.2g}.",
        f"The schedule states a total of epsilon {decimal_text(schedule.epsilon)}, which "
        f"{'is enough' if priced.fits else 'is not enough'}.",
    ]


def _cost_document(priced: PricedSchedule) -> dict[str, Any]:
    from dpbayes_cli.ledger.budgets import component_texts

    schedule = priced.schedule
    return {
        "account": schedule.account,
        "total": {"epsilon": decimal_text(schedule.epsilon), "delta": decimal_text(schedule.delta)},
        "releases": {entry.name: len(entry.labels) for entry in schedule.entries},
        "epsilon": decimal_text(priced.cost.epsilon),
        "delta": decimal_text(priced.cost.delta),
        "discretization": priced.cost.interval,
        **component_texts({"epsilon_one_by_one": priced.one_by_one}),
        "fits": priced.fits,
    }


def _outcome_document(outcome: PublishedRelease) -> dict[str, Any]:
    return {
        "release_id": outcome.document.release_id,
        "bundle": str(outcome.bundle),
        "replayed": outcome.replayed,
        "receipt": {"sequence": outcome.sequence, "head": outcome.head},
    }


def _parse_day(text: str | None) -> date:
    try:
        return date.today() if text is None else date.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"--date takes a day such as 2026-11-23; it is {text!r}") from None


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _epsilon_text(epsilon: Decimal) -> str:
    if not epsilon.is_finite():
        return "no finite epsilon"
    return f"epsilon {decimal_text(Context(prec=6, rounding=ROUND_CEILING).create_decimal(epsilon))}"
