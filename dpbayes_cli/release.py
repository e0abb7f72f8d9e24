"""The only way from data to disk: reserve, compute, seal, publish.

A charge is durable before a record is read, a draw is final before anything is computed from it, and what is written is
a function of the draw. Killed anywhere, the same call finishes the same release.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from dpbayes_cli.bundle.analysis import Analysis, analyse
from dpbayes_cli.bundle.assemble import Parts, assemble, sealed_draw
from dpbayes_cli.bundle.document import ReleaseDocument, parse_document, parse_draw
from dpbayes_cli.bundle.files import released_of, sampling_seed
from dpbayes_cli.bundle.place import check_place, place_bundle
from dpbayes_cli.contracts import BoundedStatistics, Mechanism, Model, Plan, RecordPolicy, Request, Statistics, expect
from dpbayes_cli.errors import LedgerError, SourceError, SpecError
from dpbayes_cli.ledger.charging import Charge, price_text
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.state import ReleaseRecord
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.registry import check_serves, mechanism_type
from dpbayes_cli.sources.location import Location
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source import Source, impute_code, source_for
from dpbayes_cli.spec.release_spec import ReleaseSpec, check_name

Say = Callable[[str], None]


@dataclass(frozen=True)
class Question:
    """A priced question: everything that is known before the data are opened.

    Attributes:
        spec: what is asked.
        location: where the data are.
        account: who pays.
        model, mechanism, plan: the parts that answer it, calibrated.
    """

    spec: ReleaseSpec
    location: Location
    account: str
    model: Model
    mechanism: Mechanism
    plan: Plan


@dataclass(frozen=True)
class Wish:
    """How a release is to be named, paid and placed.

    Attributes:
        label: the user's own name for it, or None.
        fresh: whether a new draw is wanted although the request was answered before.
        same_data: whether another path is said to hold the same data.
        open_account: whether an unknown account may be opened.
        purpose: why, for the history.
        out: the directory of the bundle; None: ``dpbayes-<id>`` here.
    """

    label: str | None = None
    fresh: bool = False
    same_data: bool = False
    open_account: bool = True
    purpose: str = ""
    out: Path | None = None

    def charge(self, question: Question) -> Charge:
        """Return what the ledger is asked."""
        spec = question.spec
        return Charge(
            account=question.account,
            label=self.label,
            fresh=self.fresh,
            same_data=self.same_data,
            open_account=self.open_account,
            request=spec.request,
            request_digest=spec.request_digest,
            question_digest=spec.question_digest,
            source=question.location.identity,
            guarantee=question.plan.guarantee,
            neighbors=spec.privacy.neighbors,
            purpose=self.purpose,
        )


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


def price(spec: ReleaseSpec) -> tuple[Model, Mechanism, Plan]:
    """Build and price what a spec asks for, without any data.

    Raises:
        SpecError: the question is wrong, or no guarantee can be given for it.
    """
    model = spec.build_model()
    kind = mechanism_type(spec.mechanism)
    check_serves(kind, type(model))
    for column in model.columns:
        impute_code(column, spec.policy)
    mechanism = kind()
    return model, mechanism, mechanism.plan(model, Request(spec.policy, spec.privacy.exact_epsilon))


def prepare(spec: ReleaseSpec, location: Location) -> Question:
    """Price a question; sees public inputs only.

    Raises:
        SpecError: the question is wrong, or no guarantee can be given for it.
    """
    model, mechanism, plan = price(spec)
    account = spec.dataset or location.dataset
    if spec.dataset is None and account is not None:
        try:
            check_name(account)
        except ValueError as error:
            raise SpecError(str(error), where="dataset", hint="name the account with --dataset NAME") from None
    if account is None:
        raise SpecError(
            "the data set has no name: it is read from a stream or from several files",
            where="dataset",
            hint="state it with --dataset NAME: it names the account that pays",
        )
    return Question(spec, location, account, model, mechanism, plan)


def check_source(question: Question) -> Source:
    """Open and check the data source by what is public: existence, permissions, header, stated number of records.

    Raises:
        SourceError: it cannot be used.
    """
    return _checked(question.spec, question.location, question.model)


def _checked(spec: ReleaseSpec, location: Location, model: Model) -> Source:
    layout = spec.source
    dialect = Dialect(layout.delimiter, layout.quote, layout.header, layout.columns, layout.quoted_newlines)
    source = source_for(location, dialect, layout.format)
    try:
        (column,) = model.columns
        source.check(column, spec.column)
        if spec.records is not None:
            _check_count(spec.records, source.count_records())
    except BaseException:
        source.close()
        raise
    return source


def release(question: Question, wish: Wish, ledger: Ledger, say: Say) -> Outcome:
    """Release a posterior, or find it released already.

    Args:
        question: what is asked, priced.
        wish: how it is named, paid and placed.
        ledger: the account book.
        say: where to tell the user what happens.

    Raises:
        BudgetError, LedgerError, SourceError, OutputError: see ``errors``; a charge that was made stays, and the same
            call finishes the release.

    Privacy: the guarantee of the plan. The charge is durable before the first record is read; exact statistics live in
        this process alone, from the engine to the mechanism; everything written is a function of the sealed payload.
    Source: architecture, the ledger's protocol.
    """
    charge = wish.charge(question)
    preview = ledger.preview(charge)
    answered = preview.known is not None and preview.known.stage != "reserved"
    check_place(wish.out or _default_target(preview.release_id), sealed=answered)
    source = None if answered else check_source(question)
    try:
        reservation = ledger.reserve(charge)
        record = reservation.release
        if reservation.opened:
            say(
                f"opened account {question.account!r} with the default total of epsilon 3 under "
                f"{question.spec.privacy.neighbors} neighbours; to state another: dpbayes budget open or amend"
            )
        sealed = reservation.payload
        replayed = sealed is not None
        if sealed is None:
            source = source or check_source(question)
            say(f"charged {price_text(record.guarantee)} to account {question.account!r}")
            drawn = _draw(question, source)
            sealed = ledger.seal(record, question.account, drawn)  # another process may have been first
        else:
            say(f"release {record.release_id} was drawn on {record.time}: shown again, the data were not opened")
    finally:
        if source is not None:
            source.close()
    if reservation.document is not None:
        document, analysis = parse_document(reservation.document), None
    else:
        document, analysis = _described(question, record, sealed)
    target = wish.out or _default_target(record.release_id)
    digests = place_bundle(document, analysis, target, record.published, say)
    record, state = ledger.publish(record, question.account, digests, document.payload())
    last = state.last
    if last is None:
        raise LedgerError("the ledger is empty after a release")
    remaining = state.accounts[question.account].remaining
    return Outcome(document, target, remaining, replayed, last.sequence, last.hash)


def count_valid(spec: ReleaseSpec, location: Location) -> dict[str, int]:
    """Count the records of each level, the invalid ones and all of them. NOT PRIVATE: for the custodian alone.

    Raises:
        SourceError: the data cannot be read.
    """
    model = expect(spec.build_model(), BoundedStatistics)
    dropping = RecordPolicy(Neighbors.ADD_REMOVE)  # every level is counted, nothing is imputed
    statistic = model.statistic(dropping)
    with closing(_checked(spec, location, model)) as source:
        evidence = source.statistics(statistic, dropping)
    counted = dict(zip(statistic.names, evidence.values, strict=True))
    return {**counted, "invalid": evidence.n_records - sum(evidence.values), "records": evidence.n_records}


def _draw(question: Question, source: Source) -> bytes:
    """Read the data and privatize; return what is to be sealed. Exact statistics do not outlive this call."""
    (step,) = question.plan.steps
    spec = question.spec
    with closing(source):
        evidence: Statistics = source.statistics(step.statistic, spec.policy)
    public = spec.privacy.neighbors is Neighbors.REPLACE_ONE
    n_records = evidence.n_records if public else None
    if spec.records is not None:
        _check_count(spec.records, n_records, "; the charge stands, and the same command with the right number uses it")
    payload = question.mechanism.release(question.plan, evidence)
    return sealed_draw(datetime.now(UTC), source.record_unit, n_records, payload).payload()


def _described(question: Question, record: ReleaseRecord, sealed: bytes) -> tuple[ReleaseDocument, Analysis]:
    """Analyse a sealed draw; a function of it and of what is public."""
    draw = parse_draw(sealed)
    released = released_of(draw)
    analysis = analyse(question.spec, released, draw.n_records, sampling_seed(record.release_id, released))
    document = assemble(
        Parts(
            release_id=record.release_id,
            account=question.account,
            draw=draw,
            spec=question.spec,
            model=question.model,
            mechanism=type(question.mechanism),
            plan=question.plan,
            analysis=analysis,
            ledger_sequence=record.sequence,
            ledger_hash=record.hash,
        )
    )
    return document, analysis


def _check_count(stated: int, counted: int | None, charged: str = "") -> None:
    if counted is not None and counted != stated:
        raise SourceError(
            f"the data hold {counted} records, but {stated} were stated; nothing is released{charged}",
            hint="state the public number of records, or leave it out",
        )


def _default_target(release_id: str) -> Path:
    return Path(f"dpbayes-{release_id}")
