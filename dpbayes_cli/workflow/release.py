"""Release a posterior in four steps: reserve, draw, seal, publish.

No other code writes to disk what it computed from records. The charge is durable before a record is read. The draw is
final before anything is computed from it. Everything written depends on the data through the draw alone. If a run is
killed at any point, repeating the call finishes the same release.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import msgspec
from msgspec import UNSET

from dpbayes_cli.base.address_space import check_address_space
from dpbayes_cli.base.errors import BudgetError, DpbayesError, LedgerError, SourceError, amounts_text
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.assemble import assemble, sealed_draw
from dpbayes_cli.bundle.document import ReleaseDocument, parse_document, parse_draw
from dpbayes_cli.bundle.document_parts import LedgerReference
from dpbayes_cli.bundle.files import analysis_of_draw, chosen_in, found_keys
from dpbayes_cli.bundle.place import check_place, place_bundle
from dpbayes_cli.bundle.read import analysis_of, bundle_of
from dpbayes_cli.bundle.stated_request import remember
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.private_choice import PrivateChoice
from dpbayes_cli.core.released import Draws, Payload
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.ledger.admitted_releases import admitted_releases
from dpbayes_cli.ledger.budgets import PureBudget
from dpbayes_cli.ledger.charge_text import charge_text, charged_text
from dpbayes_cli.ledger.charging import Reservation
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.limits import due_notices
from dpbayes_cli.ledger.records import ReleaseRecord
from dpbayes_cli.privacy.measurements import no_randomness_error
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.code_readers import CodeReader
from dpbayes_cli.sources.source import Source
from dpbayes_cli.workflow.account_costs import HALF_OF_DELTA
from dpbayes_cli.workflow.prepare import PreparedRelease
from dpbayes_cli.workflow.pricing import PlannedRelease
from dpbayes_cli.workflow.release_data import check_count

Say = Callable[[str], None]


@dataclass(frozen=True)
class PublishedRelease:
    """A published release.

    Attributes:
        document: the release document.
        bundle: the directory of the bundle.
        remaining: the budget that the account has left, by component.
        more: for how many further releases like this one that pays; None if the remaining epsilon says so itself.
        replayed: whether an earlier release was shown again from the ledger, without opening the data.
        is_stale: whether a file of the data was modified after the shown release was drawn.
        sequence, head: the number and the hash of the ledger's last entry, which are the receipt.
    """

    document: ReleaseDocument
    bundle: Path
    remaining: dict[str, Decimal]
    more: int | None
    replayed: bool
    is_stale: bool
    sequence: int
    head: str


def release(prepared: PreparedRelease, ledger: Ledger, say: Say) -> PublishedRelease:
    """Release a posterior, or show an earlier release of the same request again.

    Args:
        prepared: the priced request, its data and its charge; its context closes the data.
        ledger: the ledger that charges and seals the release.
        say: called with messages for the user.

    Raises:
        BudgetError, LedgerError, SourceError, OutputError: see ``errors``. If the error comes after the charge, the
            charge stays, and repeating the call finishes the release.

    Privacy: the guarantee of the plan. The charge is durable before the first record is read. Between the engine and
        the mechanism, exact statistics exist in this process alone. Everything written depends on the data through the
        sealed payload alone.
    Source: derived here; see the start of this module.
    """
    check_address_space()
    charge = prepared.charge
    preview = ledger.preview(charge)
    is_drawn = preview.known is not None and preview.known.stage != "reserved"
    check_place(prepared.out or _default_target(preview.release_id), sealed=is_drawn)
    if not is_drawn:
        prepared.data.open_source()
    reservation = ledger.reserve(charge)
    record = reservation.release
    if reservation.opened:
        place = " in a new ledger" if record.sequence == 2 else ""  # the first entry opened the account
        total = amounts_text(reservation.budget.stated)
        say(
            f"opened account {charge.account!r}{place} with the default total of {total} under "
            f"{charge.neighbors} neighbors; to change the total: dpbayes budget amend "
            f"{charge.account} --epsilon TOTAL --reason TEXT" + (f"; {HALF_OF_DELTA}" if charge.guarantee.delta else "")
        )
    sealed = reservation.payload
    replayed = sealed is not None
    if reservation.document is None:
        prepared = _at_charged_cost(prepared, record)
    if sealed is None:
        source = prepared.data.open_source()
        say(f"charged {charged_text(record.guarantee, reservation.budget)} to account {charge.account!r}")
        try:
            drawn = _draw(prepared, source)
        except SourceError as error:
            raise _after_the_charge(error) from None
        sealed = ledger.seal(record, charge.account, drawn)  # another process may have been first
    else:
        say(
            f"release {record.release_id} was charged on {record.time}: it is shown again, and the data were not opened"
        )
    document, analyze = _describe(prepared, reservation, sealed)
    target = prepared.out or _default_target(record.release_id)
    digests = place_bundle(document, analyze, target, record.published, say)
    record, state = ledger.publish(record, charge.account, digests, document.payload())
    last = state.last
    if last is None:
        raise LedgerError("the ledger is empty after a release")
    account = state.accounts[charge.account]
    if not replayed:
        for notice in due_notices(account, charge.analyst):
            say(notice)
    is_stale = replayed and not charge.same_data and prepared.data.changed_since(document.created)
    more = None
    if account.budget.kind != PureBudget.kind and account.budget.amounts:
        more = 0 if account.exhausted else admitted_releases(account.budget, record.guarantee, account.charged)
    return PublishedRelease(document, target, account.remaining, more, replayed, is_stale, last.sequence, last.hash)


def _after_the_charge(error: SourceError) -> SourceError:
    """Add to an error in reading the data that the charge stays, and how to finish the release."""
    stays = "; nothing is released, but the charge stays"
    message = error.message if "charge stays" in error.message else f"{error.message.partition('; nothing')[0]}{stays}"
    again = "once the data can be read, the same command finishes the release without a second charge"
    return SourceError(message, hint=f"{error.hint}; {again}" if error.hint else again)


def _at_charged_cost(prepared: PreparedRelease, record: ReleaseRecord) -> PreparedRelease:
    """Return the release at the cost that was charged, which an earlier version may have computed.

    Raises:
        BudgetError: the release now costs more or less than was charged, for example because records were added.
    """
    plan = prepared.plan
    if plan.guarantee == record.guarantee:
        return prepared
    if plan.guarantee.former == record.guarantee:
        return replace(prepared, plan=plan.at_cost(record.guarantee))
    raise BudgetError(
        f"release {record.release_id} is unfinished and was charged {charge_text(record.guarantee)}, "
        f"but now costs {charge_text(plan.guarantee)}; nothing is drawn",
        hint="the number of records may have changed: repeat the original command, or pay for a new draw with "
        "--fresh or another --release-id",
    )


def _draw(prepared: PreparedRelease, source: Source) -> bytes:
    """Read the data and draw; return the payload to seal. Exact statistics do not outlive this call."""
    stated, time = prepared.spec.records, datetime.now(UTC)  # read the clock before anything depends on the data
    with closing(source):
        evidence = read_evidence(prepared, source)
    n_records = evidence.n_records if prepared.policy.neighbors is Neighbors.REPLACE_ONE else None
    if prepared.policy.contributions > 1:  # only the stated number of units is public
        n_records = stated
    elif stated is not None:
        check_count(stated, n_records, ", and the charge stays")
    needed = prepared.n_records
    if needed is not None and evidence.n_records != needed:
        raise SourceError(
            "the number of records has changed since it was counted; nothing is released, but the charge stays"
        )
    return sealed_draw(time, source.record_unit, n_records, privatize(prepared, evidence)).payload()


def privatize(planned: PlannedRelease, evidence: ExactEvidence) -> Payload | Draws:
    """Draw the payload of a release from the exact statistics or records.

    Privacy: the guarantee of the plan, for one call.
    Source: see the mechanism.

    Raises:
        DpbayesError: the operating system provides no randomness.
    """
    law = planned.plan.choice
    try:
        if law is not None:
            return _draw_with_private_choice(planned, law, evidence)
        return planned.mechanism.release(planned.plan, evidence)
    except OSError:  # mechanisms use the operating system for nothing else
        raise no_randomness_error() from None


def privatize_often(planned: PlannedRelease, evidence: ExactEvidence, n_times: int) -> Sequence[Payload | Draws]:
    """Draw the payloads of several releases of the same evidence, as an audit does with made-up data.

    Privacy: the guarantee of the plan for each payload.
    Source: see the mechanism.

    Raises:
        DpbayesError: the operating system provides no randomness.
    """
    if planned.plan.choice is not None:
        return [privatize(planned, evidence) for _ in range(n_times)]
    try:
        return planned.mechanism.release_often(planned.plan, evidence, n_times)
    except OSError:
        raise no_randomness_error() from None


def read_evidence(planned: PlannedRelease, source: Source) -> ExactEvidence:
    """Return what the plan's first step needs: the exact statistic, the rows of a design matrix, or encoded records."""
    step, policy = planned.plan.steps[0], planned.policy
    if step.rows is None:
        return source.statistics(step.statistic, policy)
    rows = step.rows.hold(planned.n_records or 0)
    source.read(CodeReader(step.rows.columns, policy, rows.take))
    return ExactEvidence((), rows.n_records, design=rows)


def _draw_with_private_choice(planned: PlannedRelease, law: PrivateChoice, evidence: ExactEvidence) -> Payload:
    """Draw bounds or a tree, then the noisy statistic that follows from them, computed from the same exact numbers.

    Privacy: the guarantee of the plan, which composes both steps. The second step may depend on the result of the first
        step, because its guarantee holds whatever that result is.
    Source: Smith 2011; the rest is derived here.
    """
    chosen = law.draw(evidence)
    narrowed = planned.at_choice(chosen)
    step = narrowed.plan.final_step
    values = law.final_values(evidence, chosen, narrowed.model.columns, step.statistic)
    second = Plan((step,), step.guarantee, narrowed.plan.parameters)
    released = narrowed.mechanism.release(second, ExactEvidence(values, evidence.n_records))
    return replace(require_type(released, Payload), chosen=chosen)


def _describe(
    prepared: PreparedRelease, reservation: Reservation, sealed: bytes
) -> tuple[ReleaseDocument, Callable[[], Analysis]]:
    """Return the document of a sealed draw and a function that returns its posterior; both use public inputs only.

    If the release is published already, its document is used unchanged, and its posterior is computed as for any
    bundle.
    """
    if reservation.document is not None:
        document = parse_document(reservation.document)
        narrowed = prepared.at_choice(chosen_in(document)).at_keys(found_keys(document))
        remember(document, narrowed.spec, narrowed.model)
        return document, lambda: analysis_of(bundle_of(document))
    draw, record = parse_draw(sealed), reservation.release
    narrowed = prepared.at_choice(chosen_in(draw)).at_keys(found_keys(draw))
    points = () if isinstance(draw.points, msgspec.UnsetType) else draw.points
    names = narrowed.mechanism.released_names(narrowed.model, narrowed.policy, points) if draw.statistics else ()
    if [item.name for item in draw.statistics] != list(names):
        raise DpbayesError("the sealed statistics are not those of the release request; nothing is written")
    analysis = analysis_of_draw(narrowed.spec, narrowed.model, narrowed.mechanism, record.release_id, draw)
    document = assemble(
        draw,
        analysis,
        narrowed.spec,
        narrowed.mechanism,
        narrowed.plan,
        release_id=record.release_id,
        account=prepared.charge.account,
        account_delta=reservation.budget.total.get("delta", Decimal(0)),
        ledger=LedgerReference(sequence=record.sequence, hash=record.hash),
        title=prepared.title or UNSET,
    )
    return document, lambda: analysis


def _default_target(release_id: str) -> Path:
    return Path(f"dpbayes-{release_id}")
