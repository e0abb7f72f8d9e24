"""A question before its answer: what is asked, of which data, at what price; and the checks that need no record."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from dpbayes_cli.base.errors import SourceError, SpecError
from dpbayes_cli.bundle.document import parse_draw
from dpbayes_cli.bundle.samples import check_format
from dpbayes_cli.core.columns import has_stand_in
from dpbayes_cli.core.contracts import Mechanism, Model, Plan
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.ledger.charging import Charge
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import Location, locate, locate_for_spark
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source import Source
from dpbayes_cli.sources.source_for import source_for
from dpbayes_cli.sources.unit_bound import UnitBound
from dpbayes_cli.spec.release_spec import ReleaseSpec, check_name
from dpbayes_cli.workflow.pricing import planned_between, price

Say = Callable[[str], None]


@dataclass(frozen=True)
class Question:
    """A priced question: everything that is known before the data are opened.

    Attributes:
        spec: what is asked.
        location: where the data are.
        account: who pays.
        model, mechanism, plan: the parts that answer it, calibrated.
        n_records: the public number of records that the plan rests on, or None.
    """

    spec: ReleaseSpec
    location: Location
    account: str
    model: Model
    mechanism: Mechanism
    plan: Plan
    n_records: int | None = None

    def at(self, bounds: tuple[float, float] | None) -> Question:
        """Return the question as it stands once its bounds are found, at the same price; None: it asks for none.

        Privacy: nothing is refused any more, for a refusal would tell about bounds that were drawn and not sealed, and
            the next attempt would draw again. Where the noise between these bounds cannot be calibrated, that of the
            whole range serves: it was planned before the charge, and no bounds inside have a larger sensitivity.
        Source: mechanisms, integer statistics on a public grid.
        """
        if bounds is None:
            return self
        model, plan = planned_between(self.spec, self.mechanism, self.plan, self.n_records, bounds)
        return replace(self, model=model, plan=plan)


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
        analyst: who asks, where the account has limits of analysts.
    """

    label: str | None = None
    fresh: bool = False
    same_data: bool = False
    open_account: bool = True
    purpose: str = ""
    out: Path | None = None
    analyst: str | None = None

    def charge(self, spec: ReleaseSpec, location: Location, account: str, guarantee: Guarantee) -> Charge:
        """Return what the ledger is asked."""
        return Charge(
            account=account,
            label=self.label,
            fresh=self.fresh,
            same_data=self.same_data,
            open_account=self.open_account,
            request=spec.request,
            request_digest=spec.request_digest,
            question_digest=spec.question_digest,
            source=location.identity,
            guarantee=guarantee,
            neighbors=spec.privacy.neighbors,
            unit=None if spec.privacy.unit is None else spec.privacy.unit.column,
            purpose=self.purpose,
            analyst=self.analyst,
        )

    def charge_of(self, question: Question) -> Charge:
        """Return what the ledger is asked for a priced question."""
        return self.charge(question.spec, question.location, question.account, question.plan.guarantee)


def prepare(spec: ReleaseSpec, location: Location, wish: Wish, ledger: Ledger) -> Question:
    """Price a question; sees public inputs only.

    A mechanism whose plan rests on the number of records finds it stated, in the draw that answered the same question
    before, or by counting the records of a regular file, which is public under replace-one.

    Raises:
        SpecError: the question is wrong, or no guarantee can be given for it.
    """
    account = _account(spec, location)
    check_format(spec.inference.format)
    n_records = None
    if _needs_count(spec):
        sealed = ledger.sealed(wish.charge(spec, location, account, PureDP()))
        known = None if sealed is None else parse_draw(sealed).n_records  # a draw that is made knows its own number
        n_records = spec.records if known is None else known
        if n_records is None:
            with closing(opened_source(spec, location, spec.build_model())) as source:
                n_records = source.count()
    model, mechanism, plan = price(spec, n_records)
    spec.check_samples(model)
    if plan.steps[0].rows is not None and not source_of(spec, location).hands_over_records:
        raise SpecError(
            f"{spec.mechanism} reads records one by one, and only statistics leave the engine that holds them",
            where="mechanism",
            hint="embedded engine only: export the columns to Parquet files, or take a mechanism on statistics",
        )
    return Question(spec, location, account, model, mechanism, plan, n_records)


def _account(spec: ReleaseSpec, location: Location) -> str:
    """Return the name of the account that pays.

    Raises:
        SpecError: none is stated, and the file's name implies none.
    """
    account = spec.dataset or location.dataset
    if account is None:
        raise SpecError(
            "the data set has no name: it is read from a stream or from several files",
            where="dataset",
            hint="state it with --dataset NAME: it names the account that pays",
        )
    if spec.dataset is None:
        try:
            check_name(account)
        except ValueError as error:
            raise SpecError(str(error), where="dataset", hint="name the account with --dataset NAME") from None
    return account


def _needs_count(spec: ReleaseSpec) -> bool:
    """Return whether the mechanism's plan rests on the number of records; what else it needs, it says itself."""
    kind = mechanism_type(spec.mechanism)
    model = spec.build_model()
    complete = model.counts_incomplete_records or all(has_stand_in(spec.policy, c) for c in model.columns)
    return kind.needs_n and spec.privacy.neighbors is Neighbors.REPLACE_ONE and complete


def check_source(question: Question) -> Source:
    """Open and check the data source by what is public: existence, permissions, header, stated number of records.

    Raises:
        SourceError: it cannot be used.
    """
    return opened_source(question.spec, question.location, question.model)


def source_of(spec: ReleaseSpec, location: Location) -> Source:
    """Return the source that reads a location in the layout of a spec; nothing is opened yet."""
    layout = spec.source
    dialect = Dialect(layout.delimiter, layout.quote, layout.header, layout.columns, layout.quoted_newlines)
    unit = spec.privacy.unit
    bound = None if unit is None else UnitBound(unit.column, unit.max_contributions)
    master = layout.master if layout.engine == "spark" else None
    return source_for(location, dialect, layout.format, bound, master)


def located(spec: ReleaseSpec, *texts: str) -> Location:
    """Find the data that texts name together, for the engine of a spec.

    Raises:
        SourceError: there are none, or they cannot be read.
    """
    return locate_for_spark(*texts) if spec.source.engine == "spark" else locate(*texts)


def opened_source(spec: ReleaseSpec, location: Location, model: Model) -> Source:
    """Open and check the source of a spec.

    Raises:
        SourceError: it cannot be used.
    """
    source = source_of(spec, location)
    try:
        source.check(model.columns, model.column_names or (spec.column,))
        if spec.records is not None:
            counted = source.count()
            if counted is None and spec.policy.contributions > 1:
                raise SourceError(
                    "the number of units in a stream cannot be checked; nothing is released",
                    hint="leave records out, or name a file",
                )
            check_count(spec.records, counted)
    except BaseException:
        source.close()
        raise
    return source


def check_count(stated: int, counted: int | None, charged: str = "") -> None:
    """Refuse a number of records other than the stated one.

    Raises:
        SourceError: they differ.
    """
    if counted is not None and counted != stated:
        raise SourceError(
            f"the data hold {counted} records, but {stated} were stated; nothing is released{charged}",
            hint="state the public number of records, or leave it out",
        )
