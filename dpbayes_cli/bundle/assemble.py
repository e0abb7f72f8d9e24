"""Put a release document together from its public parts."""

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
from dpbayes_cli.bundle.states_file import stated_states
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

_LISTED = 20


@dataclass(frozen=True)
class Parts:
    """What a document is made of; nothing exact about the data is among it."""

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
    """Return what is sealed of a mechanism's output."""
    blank = SealedDraw(created=created.strftime("%Y-%m-%dT%H:%M:%SZ"), record_unit=record_unit, n_records=n_records)
    if isinstance(payload, Draws):
        states = [list(each) for each in payload.states]
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


def assemble(parts: Parts) -> ReleaseDocument:
    """Return the release document."""
    spec, analysis, guarantee = parts.spec, parts.analysis, parts.plan.guarantee
    named = list(zip(analysis.parameters, analysis.marginals, strict=True))
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
        posterior={name: summary(marginal) for name, marginal in named},
        width={} if parts.draw.draws else {name: Width(sd_data=m.sd_data, sd_noise=m.sd_noise) for name, m in named},
        posterior_predictive=analysis.predictive,
        inference=_with_notes(inference_report(spec, analysis), parts.plan),
        tables=analysis.counted or UNSET,
        states=UNSET if analysis.states is None else stated_states(analysis.states),
        assumptions=_assumptions(parts),
        corrections=[parts.model.info.corrections, parts.mechanism.info.corrections],
        ledger=parts.ledger,
        software=_software(),
    )


def _stated_delta(parts: Parts) -> Decimal:
    """Return the delta at which a curve is stated: the account's, or where it has none that of the question."""
    return parts.account_delta or parts.spec.options.value("delta") or Decimal(0)


def guarantee_part(guarantee: Guarantee, neighbors: Neighbors, delta: Decimal) -> ReleasedGuarantee:
    """Return a guarantee as the document states it.

    Args:
        guarantee: the promise.
        neighbors: the relation that it is about.
        delta: the delta at which a guarantee without pure epsilon is stated; 0 where the account has none.
    """
    stated = guarantee.statement(max(delta, guarantee.delta)) if not guarantee.epsilon.is_finite() else None
    points = getattr(guarantee, "points", ())
    return ReleasedGuarantee(
        kind=cast(Kind, guarantee.kind),
        epsilon=_finite(stated.epsilon if stated else guarantee.epsilon),
        delta=_not_below(stated.delta if stated and stated.epsilon.is_finite() else guarantee.delta),
        neighbors=neighbors,
        rho=_finite(guarantee.rho) if stated and guarantee.kind in {"zcdp", "composition"} else None,
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
    """Return the nearest float whose shortest decimal form, which is what JSON shows, does not understate a price."""
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
    """Return a report with what the plan says about how draws are made, and how good they are."""
    how = f"{report.how}: {plan.how}" if plan.how else report.how
    exact = report.exact and plan.final_step.law.draws_exactly
    return msgspec.structs.replace(report, how=how, exact=exact, warnings=[*report.warnings, *plan.warnings])


def _assumptions(parts: Parts) -> list[str]:
    """Return what the guarantee and the posterior rest on, one sentence each."""
    spec = parts.spec
    neighbors = spec.privacy.neighbors
    unit = parts.draw.record_unit
    whole = spec.privacy.unit is not None
    relation = {
        Neighbors.REPLACE_ONE: f"Neighboring data sets differ in the content of one {unit}; "
        "the number of records is public.",
        Neighbors.ADD_REMOVE: f"Neighboring data sets differ by one {unit} more or fewer; the number of "
        "records is private, and nothing in this bundle depends on it but through the noisy statistics.",
    }[neighbors]
    if whole:
        relation = {
            Neighbors.REPLACE_ONE: "Neighboring data sets differ in all records of one privacy unit; the number of "
            "units is public, and how many records each has is private.",
            Neighbors.ADD_REMOVE: "Neighboring data sets differ by one privacy unit more or fewer, with all its "
            "records; how many units and records there are is private, and nothing in this bundle depends on it but "
            "through the noisy statistics.",
        }[neighbors]
    invalid = _about_invalid(parts)
    lines = ["A line ends at a line feed; what follows the last one is a record unless it is empty."]
    return [
        relation,
        *(lines if unit == "physical line" else []),
        *_about_units(parts),
        "The guarantee is that of this one release; the account's ledger adds up all of them.",
        "The header, the declared domain, the prior and every option were chosen without looking at the records.",
        *_about_bounds(parts),
        invalid,
        *_about_outside(parts),
        "The operating system's random numbers are secret and unpredictable, and nobody watches the custodian's "
        "machine, its memory or the time that the computation takes.",
        *parts.plan.final_step.law.assumptions,
        "The posterior (not the privacy) rests on the model: records independent given the parameters.",
    ]


def _privacy_unit(parts: Parts) -> str:
    """Return who is protected."""
    unit, record = parts.spec.privacy.unit, parts.draw.record_unit
    if unit is None:
        return f"one record ({record})"
    several = "one record" if unit.max_contributions == 1 else f"at most {unit.max_contributions:,} records"
    return f"one value of the column {unit.column!r}, of which {several} count"


def _about_units(parts: Parts) -> list[str]:
    """Return what is assumed about who has how many records."""
    unit = parts.spec.privacy.unit
    if unit is None:
        return [f"Each person has at most one record. {_about_several(parts.plan.guarantee.kind)}"]
    most = unit.max_contributions
    kept = "one of its records was" if most == 1 else f"at most {most:,} of its records were"
    return [
        f"Each person has one value in the column {unit.column!r}, nobody else has it, and all of their records carry "
        f"it and are well-formed. Of each value {kept} kept, "
        "by a secret lot that does not depend on the order of the records; malformed records, and those without a "
        "value, belong to one unit together. A value means the same person in all data that the account pays for."
    ]


def _about_several(kind: str) -> str:
    """Return what a guarantee is worth to whoever has several records."""
    if kind == "rdp":
        return "The Renyi curve says nothing about whoever has more."
    worth = {
        "gdp": "k mu",
        "zcdp": "k^2 rho",
        "composition": "k epsilon of what is pure, k^2 rho of the rest",
    }.get(kind, "k epsilon")
    return f"Whoever has k records is protected less: {worth}."


def _about_invalid(parts: Parts) -> str:
    """Return what invalid values counted as."""
    policy = parts.spec.policy
    stated = {column.role: column.impute for column in parts.model.columns if column.impute is not None}
    if policy.impute is not None and not stated:
        return (
            f"Missing, malformed and undeclared values counted as {policy.impute!r}. The custodian promises that "
            "this is a fair stand-in; where many values are missing it biases the posterior."
        )
    if not stated:
        nothing = "Missing, malformed and undeclared values contributed nothing; how many there were is private."
        if parts.plan.final_step.rows is not None:
            return f"{nothing} A record with one of them has no weight at all."
        return f"{nothing} The posterior averages over the number of valid records, uniform a priori."
    listed = ", ".join(f"{role}: {value!r}" for role, value in list(stated.items())[:_LISTED])
    more = f" and {len(stated) - _LISTED} more, see the spec" if len(stated) > _LISTED else ""
    rest = f"{policy.impute!r}" if policy.impute is not None else "nothing; how many of these there were is private"
    others = "" if len(stated) == len(parts.model.columns) else f" Those of other columns counted as {rest}."
    return (
        f"Missing, malformed and undeclared values counted as public ones ({listed}{more}). The custodian promises "
        f"that these are fair stand-ins; where many values are missing they bias the posterior.{others}"
    )


def _about_outside(parts: Parts) -> list[str]:
    """Return what becomes of numbers out of bounds, where records are dropped for them."""
    if not any(isinstance(column, NumericColumn) and column.outside == "drop" for column in parts.model.columns):
        return []
    return ["Records whose number is out of bounds did not count; the posterior takes that into account."]


def _about_bounds(parts: Parts) -> list[str]:
    """Return what follows from bounds that were found privately; nothing where they were stated."""
    if isinstance(parts.draw.bounds, msgspec.UnsetType):
        return []
    return [
        "The bounds are quantiles of the data, found privately, at their own price; the range that they were sought in "
        "was chosen without looking at the records.",
        "The posterior takes the bounds as if they had been fixed beforehand: it ignores the little that the choice of "
        "bounds itself tells about the data.",
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
