"""A release, prepared: parsed, built, priced and addressed once, before any record is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.bundle.document import parse_draw
from dpbayes_cli.bundle.samples import check_format
from dpbayes_cli.core.columns import has_stand_in
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.ledger.charging import Charge
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import Location
from dpbayes_cli.spec.release_spec import ReleaseSpec, check_name
from dpbayes_cli.workflow.pricing import PlannedRelease, price
from dpbayes_cli.workflow.release_data import ReleaseData


@dataclass(frozen=True)
class ReleaseOptions:
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


@dataclass(frozen=True, kw_only=True)
class PreparedRelease(PlannedRelease):
    """Everything that a release needs; no later step parses, builds, plans or opens anything again.

    It is a context: with its end the data are closed.

    Attributes:
        charge: what the ledger is asked: whose account, which request, at what price.
        data: what is read, opened already where the plan rests on the number of records.
        out: the directory of the bundle; None: ``dpbayes-<id>`` here.
    """

    charge: Charge
    data: ReleaseData
    out: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.data.close()


def prepare(spec: ReleaseSpec, location: Location, options: ReleaseOptions, ledger: Ledger) -> PreparedRelease:
    """Plan a release and address its charge; sees public inputs only.

    A mechanism whose plan rests on the number of records finds it stated, in the draw that answered the same request
    before, or by counting the records of a regular file, which is public under replace-one.

    Raises:
        SpecError: the spec is wrong, or no guarantee can be given for it.
        SourceError: the records are to be counted, and the data cannot be used.
    """
    account = _account(spec, location)
    check_format(spec.inference.format)
    kind, model = mechanism_type(spec.mechanism), spec.build_model()
    charge = options.charge(spec, location, account, PureDP())  # found by its request; the price follows
    data, n_records = ReleaseData(spec, location, model), None
    try:
        if kind.needs_n and _has_public_count(spec, model):
            sealed = ledger.sealed(charge)
            known = None if sealed is None else parse_draw(sealed).n_records  # a draw that is made knows its own number
            n_records = spec.records if known is None else known
            if n_records is None:
                n_records = data.open_source().count()
        planned = price(spec, n_records, model)
        spec.check_samples(model)
        if planned.plan.steps[0].rows is not None and not data.hands_over_records:
            raise SpecError(
                f"{spec.mechanism} reads records one by one, and only statistics leave the engine that holds them",
                where="mechanism",
                hint="embedded engine only: export the columns to Parquet files, or take a mechanism on statistics",
            )
    except BaseException:
        data.close()
        raise
    return PreparedRelease(
        spec=spec,
        model=model,
        mechanism=planned.mechanism,
        policy=planned.policy,
        plan=planned.plan,
        n_records=n_records,
        charge=replace(charge, guarantee=planned.plan.guarantee),
        data=data,
        out=options.out,
    )


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


def _has_public_count(spec: ReleaseSpec, model: Model) -> bool:
    """Return whether the number of valid records is public; where it is not, a mechanism that needs it says why."""
    complete = model.counts_incomplete_records or all(has_stand_in(spec.policy, c) for c in model.columns)
    return spec.privacy.neighbors is Neighbors.REPLACE_ONE and complete
