"""Prepare a release: parse, build and price it once, and find its account, before any record is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dpbayes_cli.base.errors import BudgetError, SpecError
from dpbayes_cli.base.version_order import is_before
from dpbayes_cli.bundle.document import parse_draw
from dpbayes_cli.bundle.samples import check_format
from dpbayes_cli.core.columns import has_stand_in
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.registry import mechanism_type, model_type
from dpbayes_cli.ledger.charging import Charge
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import Location
from dpbayes_cli.spec.account_name import check_name
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec
from dpbayes_cli.spec.stored_spec import former_spec
from dpbayes_cli.workflow.pricing import PlannedRelease, price
from dpbayes_cli.workflow.release_data import ReleaseData

_TODAYS_DEFAULTS = (0, 4)
"""The first version of dpbayes with today's default priors and mechanisms."""


@dataclass(frozen=True)
class ReleaseOptions:
    """How a release is named and paid for, and where it is written.

    Attributes:
        label: the user's name for the release, or None.
        fresh: whether to pay for a new draw, even if the request was released before.
        same_data: whether the user states that another path holds the same data.
        open_account: whether to open the account if it does not exist.
        purpose: the reason for the release, which the ledger records.
        out: the directory of the bundle; if None, ``dpbayes-<id>`` in the working directory.
        analyst: who asks for the release; an account may have a limit for each analyst.
        title: the title of a new bundle; it is no part of the request.
        as_planned: whether the request was planned and keeps its mechanism; otherwise, a request without a mechanism
            gets the model's default for the account.
    """

    label: str | None = None
    fresh: bool = False
    same_data: bool = False
    open_account: bool = True
    purpose: str = ""
    out: Path | None = None
    analyst: str | None = None
    title: str | None = None
    as_planned: bool = False

    def charge(self, spec: ReleaseSpec, location: Location, account: str, guarantee: Guarantee) -> Charge:
        """Return the charge of a release for the ledger."""
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
            delta=spec.stated_delta,
        )


@dataclass(frozen=True, kw_only=True)
class PreparedRelease(PlannedRelease):
    """Everything that a release needs; no later step parses, builds, plans or opens anything again.

    It is a context manager that closes the data.

    Attributes:
        charge: the account, the request and its privacy cost.
        data: the data; they are open already if their records had to be counted.
        out: the directory of the bundle; if None, ``dpbayes-<id>`` in the working directory.
        title: the title of the bundle, or None.
        has_former_defaults: whether what the request does not state has the defaults of a version before 0.4.
    """

    charge: Charge
    data: ReleaseData
    out: Path | None = None
    title: str | None = None
    has_former_defaults: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.data.close()


def prepare(spec: ReleaseSpec, location: Location, options: ReleaseOptions, ledger: Ledger) -> PreparedRelease:
    """Return a priced release and its charge, computed from public inputs alone.

    If the mechanism needs the number of records, it gets the number of an earlier draw of the same request, the number
    that the request states, or the count of a regular file, in this order. Under replace-one neighbors, this count is
    public.

    Raises:
        SpecError: the spec is wrong, or no guarantee can be given for it.
        SourceError: the records must be counted, but the data cannot be used.
    """
    account = _account(spec, location)
    check_format(spec.inference.format)
    kind, model = mechanism_type(spec.mechanism), spec.build_model()
    data, n_records = ReleaseData(spec, location, model), None
    try:
        if kind.needs_n and _has_public_count(spec, model):
            sealed = ledger.sealed(options.charge(spec, location, account, PureDP()))  # the cost follows from the count
            sealed_count = None if sealed is None else parse_draw(sealed).n_records
            n_records = spec.records if sealed_count is None else sealed_count
            if n_records is None:
                n_records = data.open_source().count()
        planned = price(spec, n_records, model)
        spec.check_samples(model)
        if planned.plan.steps[0].rows is not None and not data.hands_over_records:
            raise SpecError(
                f"{spec.mechanism} reads single records, but this engine gives out only statistics",
                where="mechanism",
                hint="export the columns to Parquet files for the embedded engine, or choose a mechanism on statistics",
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
        charge=options.charge(spec, location, account, planned.plan.guarantee),
        data=data,
        out=options.out,
        title=options.title,
    )


def prepare_with_defaults(
    stated: dict[str, Any], spec: ReleaseSpec, location: Location, options: ReleaseOptions, ledger: Ledger
) -> PreparedRelease:
    """Prepare a release, with the defaults under which the same request was charged before, or those of its account.

    Versions before 0.4 had other default priors and mechanisms. A release that such a version charged is shown again or
    finished under its defaults; any other request gets today's defaults. If the account has a delta, the model's
    default mechanism may be another one, which has this delta; it is used if the account can pay for it.

    Args:
        stated: the request as the user stated it.
        spec: the request with today's defaults.

    Raises:
        SpecError, SourceError: see ``prepare``.
    """
    former = former_spec(stated, spec)
    if former is not None:
        account = _account(spec, location)
        today, then = (
            ledger.charged_before(options.charge(each, location, account, PureDP())) for each in (spec, former)
        )
        costs = [] if today else [each.guarantee for each in then if is_before(each.version, _TODAYS_DEFAULTS)]
        if costs:
            prepared = prepare(former, location, options, ledger)
            guarantee = prepared.charge.guarantee
            if not options.fresh or {guarantee, guarantee.former} & set(costs):
                return replace(prepared, has_former_defaults=True)
            prepared.data.close()  # at another cost, the ledger would charge a new draw
    if not options.as_planned and (with_delta := _with_delta_of_account(stated, spec, location, ledger)) is not None:
        prepared = prepare(with_delta, location, options, ledger)
        if _is_for(prepared.charge, options.charge(spec, location, prepared.charge.account, PureDP()), ledger):
            return prepared
        prepared.data.close()
    return prepare(spec, location, options, ledger)


def _with_delta_of_account(
    stated: dict[str, Any], spec: ReleaseSpec, location: Location, ledger: Ledger
) -> ReleaseSpec | None:
    """Return the request with the account's first delta, if it names no mechanism and this changes the default."""
    named = stated.get("mechanism") is not None
    if named or spec.stated_delta is not None or not model_type(spec.model).default_with_delta:
        return None
    delta = ledger.first_delta(_account(spec, location))
    return (
        None if delta is None else build_spec({**stated, "privacy": {**(stated.get("privacy") or {}), "delta": delta}})
    )


def _is_for(with_delta: Charge, without: Charge, ledger: Ledger) -> bool:
    """Return whether a request means the charge with the account's delta.

    The charge that was made first decides, so that the same command remains the same release, whatever is released or
    amended later. If none was made, it is the one with a delta, unless the account cannot pay for it.
    """
    made = [(ledger.charged_before(each), each is with_delta) for each in (with_delta, without)]
    first = min(((record.sequence, is_it) for records, is_it in made for record in records), default=None)
    if first is not None:
        return first[1]
    try:
        ledger.preview(with_delta)
    except BudgetError:
        return False
    return True


def _account(spec: ReleaseSpec, location: Location) -> str:
    account = spec.dataset or location.dataset
    if account is None:
        raise SpecError(
            "the data set has no name, because it is a data frame, a stream or several files",
            where="dataset",
            hint="name the account that pays: --dataset NAME, or account=NAME in Python",
        )
    if spec.dataset is None:
        try:
            check_name(account)
        except ValueError as error:
            raise SpecError(str(error), where="dataset", hint="name the account that pays: --dataset NAME") from None
    return account


def _has_public_count(spec: ReleaseSpec, model: Model) -> bool:
    """Return whether the number of valid records is public; if not, mechanisms that need this number refuse the
    request."""
    complete = model.counts_incomplete_records or all(has_stand_in(spec.policy, c) for c in model.columns)
    return spec.privacy.neighbors is Neighbors.REPLACE_ONE and complete
