"""``dpbayes release``: release a private posterior of data, as a bundle on disk."""

from __future__ import annotations

import json
import re
import shlex
from decimal import Decimal
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.base.address_space import check_address_space
from dpbayes_cli.base.errors import SpecError, amounts_text
from dpbayes_cli.base.process_hardening import disable_core_dumps
from dpbayes_cli.commands import interruption
from dpbayes_cli.commands.options import PATH, interval_option, ledger_option, open_ledger
from dpbayes_cli.commands.output import (
    emit,
    emit_json,
    emit_posterior,
    output_options,
    print_message,
    printable,
    say,
    say_detail,
    shows_both_streams,
)
from dpbayes_cli.commands.progress import has_terminal, reading_shown
from dpbayes_cli.commands.request_command import RequestCommand, pop_request, request_options, spec_option

if TYPE_CHECKING:
    from dpbayes_cli.core.plan import Plan
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.sources.location import Location
    from dpbayes_cli.spec.release_spec import ReleaseSpec
    from dpbayes_cli.workflow.prepare import PreparedRelease
    from dpbayes_cli.workflow.release import PublishedRelease

_MAX_TITLE = 200
_PAUSE_SECONDS = 10  # before a charge for a result that is expected to be worth nothing
_RELEASE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", re.ASCII)


@click.command("release", cls=RequestCommand)
@click.argument("data", nargs=-1)
@spec_option
@request_options()
@click.option("--out", type=PATH, metavar="DIR", help="Directory of the bundle [./dpbayes-ID].")
@ledger_option
@click.option("--release-id", metavar="NAME", help="Name of this release; each name is charged only once.")
@click.option("--fresh", is_flag=True, help="Draw again, and pay again, for an earlier release.")
@click.option("--same-data", is_flag=True, help="DATA were moved, not changed: show the old release.")
@click.option("--no-open-account", is_flag=True, help="Fail if the account is not open yet (for scheduled jobs).")
@click.option("--analyst", metavar="NAME", help="Analyst to charge, if the account has limits per analyst.")
@click.option("--purpose", default="", metavar="TEXT", help="Purpose of the release; kept in the history.")
@click.option("--title", metavar="TEXT", help="Title of the result and of its reports.")
@interval_option
@click.option("--dry-run", is_flag=True, help="Only show the cost; exit 5 if the account cannot pay.")
@output_options
def command(
    data: tuple[str, ...],
    spec_path: Path | None,
    out: Path | None,
    ledger_place: str | None,
    release_id: str | None,
    fresh: bool,
    same_data: bool,
    no_open_account: bool,
    analyst: str | None,
    purpose: str,
    title: str | None,
    interval: float,
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Release a private posterior of DATA, in a bundle to publish.

    \b
    dpbayes release data.csv --model beta-bernoulli --eps 1
    dpbayes release postgresql://ada@db/clinic/patients --spec clinic.yaml

    DATA: files, globs, - (standard input) or a PostgreSQL table. The same command finishes a killed run, and shows a
    finished one again, at no cost.
    """
    interruption.explain_with(lambda: interruption.NOT_CHARGED)
    check_address_space()  # before OpenDP and DuckDB are loaded, and before anything is charged
    from dpbayes_cli.bundle.report.validity import prior_outside_bounds
    from dpbayes_cli.workflow.assumed import assumed_values
    from dpbayes_cli.workflow.prepare import ReleaseOptions, prepare_with_defaults
    from dpbayes_cli.workflow.release import release

    if release_id is not None and not _RELEASE_NAME.fullmatch(release_id):
        raise click.UsageError("--release-id takes at most 128 letters, digits, '.', '_', ':' and '-'")
    if purpose != printable(purpose):
        raise click.UsageError("--purpose holds a control character")
    if title is not None and (not title.strip() or title != printable(title) or len(title) > _MAX_TITLE):
        raise click.UsageError(f"--title takes 1 to {_MAX_TITLE} characters, and no control characters")
    if fresh and release_id is not None:
        raise click.UsageError("--fresh and --release-id exclude each other: a new --release-id is a new draw")
    disable_core_dumps()
    stated = pop_request(spec_path, flags)
    spec, location = _read_request(data, spec_path, stated)
    options = ReleaseOptions(release_id, fresh, same_data, not no_open_account, purpose, out, analyst, title)
    ledger = open_ledger(ledger_place)
    with prepare_with_defaults(stated, spec, location, options, ledger) as prepared:
        say_detail(f"ledger: {ledger.location}")
        if stated.get("prior") and (outside := prior_outside_bounds(prepared.model, prepared.policy)):
            print_message(f"warning: {outside}")  # also with -q
        say(f"assumed: {'; '.join(assumed_values(prepared, stated))}")
        in_vain = _warn_of_plan(prepared, ledger)
        if dry_run:
            _show_cost(prepared, ledger, as_json=as_json)
            return
        if in_vain and has_terminal():
            say(f"nothing is charged yet: to stop, press Ctrl-C within {_PAUSE_SECONDS} seconds")
            sleep(_PAUSE_SECONDS)
        interruption.explain_with(lambda: interruption.explain_release(ledger, prepared.charge))
        if has_terminal() and prepared.data.can_be_checked and not ledger.has_paid(prepared.charge):
            words = ["dpbayes", "check", str(location.paths[0])]
            if spec_path is not None:
                words += ["--spec", str(spec_path)]
            else:
                words += ["--model", spec.model, *(["--column", spec.column] if spec.column else [])]
            say(
                "the account has not paid for these data before; to look at them before the charge: "
                f"{shlex.join(words)}"
            )
        with reading_shown():
            outcome = release(prepared, ledger, say)
    _print(outcome, interval, as_json=as_json)


def _read_request(
    data: tuple[str, ...], spec_path: Path | None, stated: dict[str, Any]
) -> tuple[ReleaseSpec, Location]:
    """Check the stated request and find the data; a path in a spec file is relative to the file."""
    from dpbayes_cli.sources.location import is_remote
    from dpbayes_cli.spec.release_spec import build_spec
    from dpbayes_cli.workflow.release_data import locate_data

    spec = build_spec(stated, needs_cost=True)
    if not data and spec.data is None:
        raise SpecError("no data set is named", where="data", hint="dpbayes release DATA, or data: FILE in the spec")
    if not data:
        base = spec_path.parent if spec_path is not None else Path()
        named = (spec.data,) if isinstance(spec.data, str) else spec.data or ()
        data = tuple(name if name == "-" or is_remote(name) else str(base / name) for name in named)
    return spec, locate_data(spec.source, *data)


def _warn_of_plan(prepared: PreparedRelease, ledger: Ledger) -> bool:
    """Print the warnings of the plan, and one if simulated answers tell no more than the prior; return whether so.

    Only public values are used; a paid release is not simulated, and its result has the warnings.

    Raises:
        BudgetError: the account cannot pay.
    """
    from dpbayes_cli.workflow.plan_sentences import worthless_answer
    from dpbayes_cli.workflow.planning import glance

    if ledger.preview(prepared.charge).known is not None:
        return False
    n_records = _public_count(prepared)
    for warning in _plan_at(prepared, n_records).all_warnings(prepared.model, n_records):
        print_message(f"warning: {warning}")  # also with -q
    expected = glance(prepared, n_records) if n_records else None
    if expected is None or not expected.intervals[expected.main].is_surely_worthless:
        return False
    if warning := worthless_answer(prepared.model, expected):
        print_message(f"WARNING: in a quick simulation with {n_records:,} records, {warning}")  # also with -q
    return bool(warning)


def _public_count(prepared: PreparedRelease) -> int | None:
    """Return the number of records if it is stated or, up to a limit, public; otherwise None."""
    return prepared.known_records or prepared.data.public_count()


def _plan_at(prepared: PreparedRelease, n_records: int | None) -> Plan:
    """Return the plan for a number of records, on which the rounds of some mechanisms depend."""
    from dpbayes_cli.workflow.pricing import price

    step = prepared.plan.final_step
    if n_records is None or step.rows is None or not step.law.adds_noise:
        return prepared.plan
    return price(prepared.spec, n_records, prepared.model).plan


def _show_cost(prepared: PreparedRelease, ledger: Ledger, *, as_json: bool) -> None:
    """Print what a release would cost; only the header of the data is read, and nothing is charged."""
    import msgspec

    from dpbayes_cli.bundle.assemble import guarantee_part
    from dpbayes_cli.ledger.budgets import component_texts
    from dpbayes_cli.ledger.charge_text import charge_text, charged_text

    preview = ledger.preview(prepared.charge)
    if preview.known is None:
        prepared.data.open_source()
    step, private = prepared.plan.final_step, prepared.plan.choice
    if preview.known is None:
        step = _plan_at(prepared, _public_count(prepared)).final_step
    names = step.statistic.names
    is_known = private is None or private.keeps_parameters  # the names of statistics follow from a private structure
    scales = {} if step.draws or not is_known else dict(zip(names, step.noise.scales(len(names)), strict=True))
    document = {
        "release_id": preview.release_id,
        "account": prepared.charge.account,
        "model": prepared.model.name,
        "mechanism": prepared.mechanism.name,
        "statistics": [{"name": name, "noise_scale": scale} for name, scale in scales.items()],
        "parameters": dict(prepared.plan.parameters),
        "sensitivity_l1": None if step.rows else step.statistic.sensitivity_l1,
        "guarantee": msgspec.to_builtins(
            guarantee_part(prepared.plan.guarantee, prepared.spec.privacy.neighbors, Decimal(0))
        ),
        "already_charged": preview.known is not None,
        "remaining": component_texts(preview.remaining),
    }
    if as_json:
        emit_json(document)
        return
    cost = "nothing: it is charged already" if preview.known else charged_text(prepared.plan.guarantee, preview.budget)
    emit(f"would cost {cost}, from account {prepared.charge.account}{' (to be opened)' if preview.opened else ''}")
    if private is not None and preview.known is None:
        noise = "; the noise scale is for the widest bounds" if private.keeps_parameters else ""
        emit(f"private {private.key} cost{'s' * (not noise)} {charge_text(private.guarantee)} of this{noise}")
    if step.draws:
        noun = "estimates of the posterior's mode" if prepared.mechanism.estimates else "posterior draws"
        emit(f"{step.draws} {noun}: {amounts_text(prepared.plan.parameters)}")
    elif step.statistic.largest_change:
        on = f", on {len(names)} statistic{'s' * (len(names) != 1)}" if is_known else " on every statistic"
        emit(f"noise scale {_scale_text(step.noise.scale, step.statistic.largest_change)}{on}")
    emit(f"would remain: {amounts_text(document['remaining'], up=False)}")


def _scale_text(scale: float, largest_change: int) -> str:
    """Return a noise scale in counts or, if records add other integers, in words that need no knowledge of these."""
    if largest_change == 1:
        return f"{scale:.6g} counts"
    return f"{scale / largest_change:.4g} times the largest change of a statistic by one record"


def _document(outcome: PublishedRelease) -> dict[str, Any]:
    """Return the JSON document of a release; its keys are stable."""
    from dpbayes_cli.ledger.budgets import component_texts

    public = json.loads(outcome.document.payload())
    copied = "release_id account model mechanism statistics bounds structure guarantee results posterior valid_records "
    copied += "extreme_groups extreme_larger_groups effects"
    return {
        **{key: public[key] for key in copied.split() if key in public},
        "bundle": str(outcome.bundle),
        "remaining": component_texts(outcome.remaining),
        "replayed": outcome.replayed,
        "receipt": {"sequence": outcome.sequence, "head": outcome.head},
    }


def _print(outcome: PublishedRelease, interval: float, *, as_json: bool) -> None:
    """Print the result; warnings go to standard error, too, unless both go to one place, such as a terminal."""
    from dpbayes_cli.bundle.report.result_sentence import warnings_before

    if outcome.is_stale:
        drawn = f"release {outcome.document.release_id} was drawn on {outcome.document.created}"
        print_message(
            f"WARNING: the data were saved again after {drawn}: this is the earlier result; --fresh or --release-id "
            "NAME makes a new draw, which is charged"
        )
    if as_json:
        emit_json(_document(outcome))
    else:
        _show(outcome, interval)
    # a script may discard the result, but it should not discard the warnings
    if as_json or not shows_both_streams():
        for line in warnings_before(outcome.document):
            if as_json or line.startswith("WARNING"):
                print_message(line.replace("`", ""))


def _show(outcome: PublishedRelease, level: float) -> None:
    from dpbayes_cli.bundle.report.validity import records_valid_text
    from dpbayes_cli.bundle.report.wording import choice_text, guarantee_text
    from dpbayes_cli.bundle.samples import intervals_of_bundle
    from dpbayes_cli.bundle.stated_request import spec_of
    from dpbayes_cli.ledger.budgets import component_texts

    document = outcome.document
    guarantee = document.guarantee
    if document.title:
        emit(document.title)
    emit_posterior(document, intervals_of_bundle(outcome.bundle, document, level))
    emit(f"release   {document.release_id}")
    emit(f"bundle    {outcome.bundle}")
    emit(f"guarantee {guarantee_text(guarantee)}, {guarantee.neighbors} ({guarantee.kind})")
    if spec_of(document).privacy.unit is not None:
        emit(f"unit      {document.privacy_unit}")
    key, choice = choice_text(document)
    if key:
        emit(f"{key:9} {choice}")
    if valid := records_valid_text(document):
        emit(f"valid     {valid}")
    pays = "" if outcome.more is None else f"; together, {outcome.more:,} more like this one fit"
    emit(f"remaining {amounts_text(component_texts(outcome.remaining), up=False)} in account {document.account}{pays}")
    emit(f"receipt   entry {outcome.sequence}")
    emit(f"head      {outcome.head}")
