"""Assemble a release document from its public parts."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import cast

import msgspec
from msgspec import UNSET

from dpbayes_cli import __version__
from dpbayes_cli.base import duck
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.document import (
    InferenceReport,
    Kind,
    LedgerReference,
    Noise,
    ParameterSummary,
    ReleasedBounds,
    ReleasedGuarantee,
    ReleaseDocument,
    ReleasedStatistic,
    SealedDraw,
    Width,
)
from dpbayes_cli.bundle.report.wording import meanings
from dpbayes_cli.bundle.states_file import rounded_states
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.released import Draws, Payload
from dpbayes_cli.inference.posterior import Marginal
from dpbayes_cli.privacy.composition import Composition
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.release_spec import ReleaseSpec

_MAX_LISTED = 20


@dataclass(frozen=True)
class ReleaseParts:
    """The parts of a document; none holds an exact value of the data."""

    release_id: str
    account: str
    draw: SealedDraw
    spec: ReleaseSpec
    mechanism: Mechanism
    plan: Plan
    analysis: Analysis
    account_delta: Decimal
    ledger: LedgerReference

    @property
    def model(self) -> Model:
        """The model that was released, between its bounds."""
        return self.analysis.model


def sealed_draw(created: datetime, record_unit: str, n_records: int | None, payload: Payload | Draws) -> SealedDraw:
    """Return a mechanism's output as the ledger seals it."""
    blank = SealedDraw(created=created.strftime("%Y-%m-%dT%H:%M:%SZ"), record_unit=record_unit, n_records=n_records)
    if isinstance(payload, Draws):
        states = [list(sequence_states) for sequence_states in payload.states]
        return msgspec.structs.replace(
            blank,
            draws=[list(point) for point in payload.values],
            drawn_states=states or UNSET,
            log_weight=UNSET if payload.log_weight is None else payload.log_weight,
        )
    return msgspec.structs.replace(
        blank,
        statistics=[ReleasedStatistic(**described) for described in payload.described()],
        noise=Noise(**payload.noise.serialize()),
        bounds=UNSET if payload.bounds is None else ReleasedBounds(lower=payload.bounds[0], upper=payload.bounds[1]),
    )


def assemble(parts: ReleaseParts) -> ReleaseDocument:
    """Return the release document."""
    spec, analysis, guarantee = parts.spec, parts.analysis, parts.plan.guarantee
    summaries = list(zip(analysis.parameters, analysis.marginals, strict=True))
    return ReleaseDocument(
        release_id=parts.release_id,
        account=parts.account,
        created=parts.draw.created,
        model=parts.model.name,
        mechanism=parts.mechanism.name,
        spec=spec.stated_in_full,
        record_unit=parts.draw.record_unit,
        privacy_unit=_privacy_unit(parts),
        n_records=parts.draw.n_records,
        statistics=parts.draw.statistics,
        meanings={}
        if parts.draw.draws
        else meanings(parts.plan.final_step.statistic, parts.model.columns, spec.policy),
        noise=parts.draw.noise,
        draws=parts.draw.draws,
        drawn_states=parts.draw.drawn_states,
        log_weight=parts.draw.log_weight,
        parameters=dict(parts.plan.parameters),
        sensitivity_l1=None if parts.plan.final_step.rows else parts.plan.final_step.statistic.sensitivity_l1,
        bounds=parts.draw.bounds,
        guarantee=guarantee_part(guarantee, spec.privacy.neighbors, _stated_delta(parts)),
        posterior={name: summary(marginal) for name, marginal in summaries},
        width={}
        if parts.draw.draws
        else {name: Width(sd_data=m.sd_data, sd_noise=m.sd_noise) for name, m in summaries},
        posterior_predictive=analysis.predictive,
        inference=_with_notes(inference_report(spec, analysis), parts.plan),
        tables=analysis.counted or UNSET,
        states=UNSET if analysis.states is None else rounded_states(analysis.states),
        assumptions=_assumptions(parts),
        corrections=[parts.model.info.corrections, parts.mechanism.info.corrections],
        ledger=parts.ledger,
        software=_software(),
    )


def _stated_delta(parts: ReleaseParts) -> Decimal:
    """Return the delta at which a curve is stated: the account's, or that of the request if the account has none."""
    return parts.account_delta or parts.spec.options.value("delta") or Decimal(0)


def guarantee_part(guarantee: Guarantee, neighbors: Neighbors, delta: Decimal) -> ReleasedGuarantee:
    """Return a guarantee as the document states it.

    Args:
        guarantee: the privacy guarantee.
        neighbors: the neighboring relation that it holds for.
        delta: the delta at which a guarantee without pure epsilon is stated; 0 if the account has none.
    """
    statement = guarantee.statement(max(delta, guarantee.delta)) if not guarantee.epsilon.is_finite() else None
    points = getattr(guarantee, "points", ())
    return ReleasedGuarantee(
        kind=cast(Kind, guarantee.kind),
        epsilon=_finite(statement.epsilon if statement else guarantee.epsilon),
        delta=_not_below(statement.delta if statement and statement.epsilon.is_finite() else guarantee.delta),
        neighbors=neighbors,
        rho=_finite(guarantee.rho) if statement and guarantee.kind in {"zcdp", "composition"} else None,
        mu=_finite(guarantee.mu),
        rdp=[[float(order), _not_below(value)] for order, value in points] or None,
        order_max=_finite(guarantee.order_max),
        parts=[
            guarantee_part(part, neighbors, delta)
            for part in (guarantee.parts if isinstance(guarantee, Composition) else ())
        ],
    )


def _finite(value: Decimal) -> float | None:
    return _not_below(value) if value.is_finite() else None


def _not_below(value: Decimal) -> float:
    """Return the nearest float whose shortest decimal form, which is what JSON shows, does not understate a cost."""
    near = float(value)
    return near if Decimal(repr(near)) >= value else math.nextafter(near, math.inf)


def summary(marginal: Marginal) -> ParameterSummary:
    """Return the summary of one parameter."""
    known = {name: value if math.isfinite(value) else None for name, value in marginal.quantiles.items()}
    return ParameterSummary(mean=marginal.mean, sd=marginal.sd if math.isfinite(marginal.sd) else None, **known)


def inference_report(spec: ReleaseSpec, analysis: Analysis) -> InferenceReport:
    """Return how the posterior was computed."""
    posterior = analysis.posterior
    finite = {name: value if abs(value) != float("inf") else None for name, value in posterior.diagnostics.items()}
    return InferenceReport(
        method="estimates"
        if analysis.estimates
        else "posterior-draws"
        if analysis.drawn
        else spec.inference_options.value("method"),
        how=posterior.method,
        exact=posterior.exact,
        monte_carlo_error=posterior.monte_carlo,
        diagnostics=finite,
        warnings=list(posterior.warnings),
        samples=len(analysis.samples),
        samples_format=spec.inference.format,
    )


def _with_notes(report: InferenceReport, plan: Plan) -> InferenceReport:
    """Return a report completed by what the plan says about how draws are made and how exact they are."""
    how = f"{report.how}: {plan.how}" if plan.how else report.how
    exact = report.exact and plan.final_step.law.draws_exactly
    return msgspec.structs.replace(report, how=how, exact=exact, warnings=[*report.warnings, *plan.warnings])


def _assumptions(parts: ReleaseParts) -> list[str]:
    """Return the assumptions of the guarantee and of the posterior, in sentences."""
    spec = parts.spec
    neighbors = spec.privacy.neighbors
    unit = parts.draw.record_unit
    whole = spec.privacy.unit is not None
    relation = {
        Neighbors.REPLACE_ONE: f"Neighboring data sets differ in the content of one {unit}; "
        "the number of records is public.",
        Neighbors.ADD_REMOVE: f"Neighboring data sets differ by one added or removed {unit}; the number of "
        "records is private, and this bundle depends on it only through the noisy statistics.",
    }[neighbors]
    if whole:
        relation = {
            Neighbors.REPLACE_ONE: "Neighboring data sets differ in the records of one privacy unit, up to all of "
            "them; the number of units is public, and the number of records of each unit is private.",
            Neighbors.ADD_REMOVE: "Neighboring data sets differ by one added or removed privacy unit, with all its "
            "records; the numbers of units and of records are private, and this bundle depends on them only through "
            "the noisy statistics.",
        }[neighbors]
    invalid = _about_invalid(parts)
    lines = ["A line ends at a line feed; any text after the last line feed is a record too."]
    return [
        relation,
        *(lines if unit == "physical line" else []),
        *_about_units(parts),
        "The guarantee covers this one release; the account's ledger adds up all releases.",
        "The header, the declared domain, the prior and every option were chosen without looking at the records.",
        *_about_bounds(parts),
        invalid,
        *_about_outside(parts),
        "The operating system's random numbers are secret and unpredictable, and nobody observes the "
        "custodian's machine, its memory or the time that the computation takes.",
        *parts.plan.final_step.law.assumptions,
        "The posterior (not the privacy) assumes the model: records are independent given the parameters.",
    ]


def _privacy_unit(parts: ReleaseParts) -> str:
    unit, record = parts.spec.privacy.unit, parts.draw.record_unit
    if unit is None:
        return f"one record ({record})"
    counted = "one record" if unit.max_contributions == 1 else f"at most {unit.max_contributions:,} records"
    return f"one value of the column {unit.column!r}, with {counted} counted"


def _about_units(parts: ReleaseParts) -> list[str]:
    unit = parts.spec.privacy.unit
    if unit is None:
        return [f"Each person has at most one record. {_about_several(parts.plan.guarantee.kind)}"]
    limit = unit.max_contributions
    kept = "one record was" if limit == 1 else f"at most {limit:,} records were"
    return [
        f"Each person has one value in the column {unit.column!r}, which nobody else has, and all of their records "
        f"carry it and are well-formed. For each value {kept} kept, chosen by a hash with a secret key and not by the "
        "order of the records; malformed records, and those without a value, form one unit together. A value means "
        "the same person in all data that is charged to the account."
    ]


def _about_several(kind: str) -> str:
    """Return how the guarantee weakens for a person with several records."""
    if kind == "rdp":
        return "For a person with more records the Renyi curve guarantees nothing."
    weakened = {
        "gdp": "k mu",
        "zcdp": "k^2 rho",
        "composition": "k epsilon for the pure parts, k^2 rho for the rest",
    }.get(kind, "k epsilon")
    return f"A person with k records has a weaker guarantee: {weakened}."


def _about_invalid(parts: ReleaseParts) -> str:
    policy = parts.spec.policy
    stand_ins = {column.role: column.impute for column in parts.model.columns if column.impute is not None}
    if policy.impute is not None and not stand_ins:
        return (
            f"Missing, malformed and undeclared values counted as {policy.impute!r}. The custodian states that "
            "this is a fair stand-in; if many values are missing, it biases the posterior."
        )
    if not stand_ins:
        dropped = "Missing, malformed and undeclared values contributed nothing; how many there were is private."
        if parts.plan.final_step.rows is not None:
            return f"{dropped} A record with such a value does not count at all."
        return f"{dropped} The posterior averages over the number of valid records, with a uniform prior."
    listed = ", ".join(f"{role}: {value!r}" for role, value in list(stand_ins.items())[:_MAX_LISTED])
    more = f" and {len(stand_ins) - _MAX_LISTED} more, see the spec" if len(stand_ins) > _MAX_LISTED else ""
    rest = f"{policy.impute!r}" if policy.impute is not None else "nothing; how many there were is private"
    others = "" if len(stand_ins) == len(parts.model.columns) else f" Such values in other columns counted as {rest}."
    return (
        f"Missing, malformed and undeclared values counted as public ones ({listed}{more}). The custodian states "
        f"that these are fair stand-ins; if many values are missing, they bias the posterior.{others}"
    )


def _about_outside(parts: ReleaseParts) -> list[str]:
    if not any(isinstance(column, NumericColumn) and column.outside == "drop" for column in parts.model.columns):
        return []
    return ["Records with a number out of bounds did not count; the posterior takes this into account."]


def _about_bounds(parts: ReleaseParts) -> list[str]:
    if isinstance(parts.draw.bounds, msgspec.UnsetType):
        return []
    return [
        "The bounds are quantiles of the data, found privately at a cost of their own; the range to search was chosen "
        "without looking at the records.",
        "The posterior treats the bounds as fixed in advance: it ignores the little that the bounds themselves reveal "
        "about the data.",
    ]


def _software() -> dict[str, str]:
    import numpy as np
    from opendp.mod import get_opendp_version

    return {
        "dpbayes": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "numpy": np.__version__,
        "opendp": get_opendp_version(),
        "duckdb": duck.version(),
    }
