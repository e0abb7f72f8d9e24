"""The only way from data to disk: reserve, compute, seal, publish.

A charge is durable before a record is read, a draw is final before anything is computed from it, and what is written is
a function of the draw. Killed anywhere, the same call finishes the same release.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from dpbayes_cli.base.address_space import check_address_space
from dpbayes_cli.base.errors import BudgetError, DpbayesError, LedgerError, SourceError
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.assemble import Parts, assemble, sealed_draw
from dpbayes_cli.bundle.document import LedgerReference, ReleaseDocument, parse_document, parse_draw
from dpbayes_cli.bundle.files import analysis_of_draw, bounds_of
from dpbayes_cli.bundle.place import check_place, place_bundle
from dpbayes_cli.bundle.read import analysis_of, bundle_of
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.private_quantile import PrivateBounds
from dpbayes_cli.core.released import Draws, Payload
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import Statistics, evaluate_codes
from dpbayes_cli.ledger.charging import Reservation, price_text
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.limits import notices
from dpbayes_cli.ledger.records import ReleaseRecord
from dpbayes_cli.privacy.measurements import no_randomness_error
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.packed_codes import CodeReader
from dpbayes_cli.sources.source import Source
from dpbayes_cli.workflow.prepare import PreparedRelease
from dpbayes_cli.workflow.pricing import PlannedRelease
from dpbayes_cli.workflow.release_data import check_count

Say = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """A published release.

    Attributes:
        document: the release document.
        bundle: where it is.
        remaining: what the account has left, by component.
        replayed: whether it was answered from the ledger, without opening the data.
        sequence, head: the end of the ledger's chain: the receipt.
    """

    document: ReleaseDocument
    bundle: Path
    remaining: dict[str, Decimal]
    replayed: bool
    sequence: int
    head: str


def release(prepared: PreparedRelease, ledger: Ledger, say: Say) -> Outcome:
    """Release a posterior, or find it released already.

    Args:
        prepared: what is asked, of which data, at what price; its context closes the data.
        ledger: the account book.
        say: where to tell the user what happens.

    Raises:
        BudgetError, LedgerError, SourceError, OutputError: see ``errors``; a charge that was made stays, and the same
            call finishes the release.

    Privacy: the guarantee of the plan. The charge is durable before the first record is read; exact statistics live in
        this process alone, from the engine to the mechanism; everything written is a function of the sealed payload.
    Source: architecture, the ledger's protocol.
    """
    check_address_space()
    charge = prepared.charge
    preview = ledger.preview(charge)
    answered = preview.known is not None and preview.known.stage != "reserved"
    check_place(prepared.out or _default_target(preview.release_id), sealed=answered)
    if not answered:
        prepared.data.opened()
    reservation = ledger.reserve(charge)
    record = reservation.release
    if reservation.opened:
        say(
            f"opened account {charge.account!r} with the default total of epsilon 3 under "
            f"{charge.neighbors} neighbors; to state another: dpbayes budget open or amend"
        )
    sealed = reservation.payload
    replayed = sealed is not None
    if reservation.document is None:
        _check_price(prepared, record)
    if sealed is None:
        source = prepared.data.opened()
        say(f"charged {price_text(record.guarantee)} to account {charge.account!r}")
        drawn = _draw(prepared, source)
        sealed = ledger.seal(record, charge.account, drawn)  # another process may have been first
    else:
        say(f"release {record.release_id} was drawn on {record.time}: shown again, the data were not opened")
    document, analyse = _described(prepared, reservation, sealed)
    target = prepared.out or _default_target(record.release_id)
    digests = place_bundle(document, analyse, target, record.published, say)
    record, state = ledger.publish(record, charge.account, digests, document.payload())
    last = state.last
    if last is None:
        raise LedgerError("the ledger is empty after a release")
    account = state.accounts[charge.account]
    if not replayed:
        for notice in notices(account, charge.analyst):
            say(notice)
    remaining = account.remaining
    return Outcome(document, target, remaining, replayed, last.sequence, last.hash)


def _check_price(prepared: PreparedRelease, record: ReleaseRecord) -> None:
    """Refuse to draw at another price than the one that was charged, as for another number of records.

    Raises:
        BudgetError: the plan's guarantee is not that of the reservation.
    """
    if prepared.plan.guarantee != record.guarantee:
        raise BudgetError(
            f"release {record.release_id} was begun and charged at another price: "
            f"{price_text(record.guarantee)}, and not {price_text(prepared.plan.guarantee)}; nothing is drawn",
            hint="is the number of records another? give the original command, or pay for a new draw: --fresh, or "
            "another --release-id",
        )


def _draw(prepared: PreparedRelease, source: Source) -> bytes:
    """Read the data and privatize; return what is to be sealed. Exact statistics do not outlive this call."""
    stated, opened = prepared.spec.records, datetime.now(UTC)  # the clock is read before anything depends on the data
    with closing(source):
        evidence = read_evidence(prepared, source)
    n_records = evidence.n_records if prepared.policy.neighbors is Neighbors.REPLACE_ONE else None
    if prepared.policy.contributions > 1:  # the number of their records is private; that of units is known where stated
        n_records = stated
    elif stated is not None:
        check_count(stated, n_records, "; the charge stands")
    needed = prepared.n_records
    if needed is not None and evidence.n_records != needed:
        raise SourceError("the number of records changed after it was counted; nothing is released, the charge stands")
    return sealed_draw(opened, source.record_unit, n_records, privatized(prepared, evidence)).payload()


def privatized(planned: PlannedRelease, evidence: Statistics) -> Payload | Draws:
    """Draw what a release lets out from exact evidence.

    Privacy: the guarantee of the plan, once: an audit draws again and again, from data that it made up.
    Source: see the mechanism.

    Raises:
        DpbayesError: the operating system gives no randomness.
    """
    law = planned.plan.bounds
    try:
        if law is not None:
            return _between_private_bounds(planned, law, evidence)
        return planned.mechanism.release(planned.plan, evidence)
    except OSError:  # a mechanism asks the operating system for nothing but randomness
        raise no_randomness_error() from None


def read_evidence(planned: PlannedRelease, source: Source) -> Statistics:
    """Read what the plan's first step asks for: the exact statistic, the rows of a design, or the codes of records."""
    step, policy = planned.plan.steps[0], planned.policy
    if step.rows is None:
        return source.statistics(step.statistic, policy)
    held = step.rows.hold(planned.n_records or 0)
    source.read(CodeReader(step.rows.columns, policy, held.take))
    return Statistics((), held.n_records, design=held)


def _between_private_bounds(planned: PlannedRelease, law: PrivateBounds, evidence: Statistics) -> Payload:
    """Draw the bounds from a histogram, then privatize the statistic between them, computed from the same histogram.

    Privacy: the guarantee of the plan, which is that of both steps together: the second knows the first, and has its
        own guarantee whatever the first was.
    Source: Smith 2011; mechanisms, composition of what is fixed in advance.
    """
    lower, upper = law.choose(evidence.histogram)
    bounds = law.grid.value(lower), law.grid.value(upper)
    narrowed = planned.at(bounds)
    column, step = require_type(narrowed.model.columns[0], NumericColumn), narrowed.plan.final_step
    codes = law.codes(evidence.histogram, lower, upper, column)
    exact = Statistics(evaluate_codes(step.statistic, column, codes), evidence.n_records)
    second = Plan((step,), step.guarantee, narrowed.plan.parameters)
    return replace(require_type(narrowed.mechanism.release(second, exact), Payload), bounds=bounds)


def _described(
    prepared: PreparedRelease, reservation: Reservation, sealed: bytes
) -> tuple[ReleaseDocument, Callable[[], Analysis]]:
    """Return the document of a sealed draw, and what gives its posterior: functions of the draw and of what is public.

    A document that was published stands as it is, and is read like any other where its files are written again.
    """
    if reservation.document is not None:
        document = parse_document(reservation.document)
        return document, lambda: analysis_of(bundle_of(document))
    draw, record = parse_draw(sealed), reservation.release
    narrowed = prepared.at(bounds_of(draw))
    names = narrowed.plan.final_step.statistic.names
    if draw.statistics and tuple(item.name for item in draw.statistics) != names:
        raise DpbayesError("the sealed statistics are not those of the question; nothing is written")
    analysis = analysis_of_draw(narrowed.spec, narrowed.model, narrowed.mechanism, record.release_id, draw)
    document = assemble(
        Parts(
            release_id=record.release_id,
            account=prepared.charge.account,
            draw=draw,
            spec=narrowed.spec,
            mechanism=narrowed.mechanism,
            plan=narrowed.plan,
            analysis=analysis,
            account_delta=reservation.delta,
            ledger=LedgerReference(sequence=record.sequence, hash=record.hash),
        )
    )
    return document, lambda: analysis


def _default_target(release_id: str) -> Path:
    return Path(f"dpbayes-{release_id}")
