"""Assemble a release document from its public parts."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from dpbayes_cli import __version__
from dpbayes_cli.base import duck
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.assumptions import assumptions
from dpbayes_cli.bundle.document import ReleaseDocument, SealedDraw
from dpbayes_cli.bundle.document_parts import (
    EffectSummary,
    InferenceReport,
    Kind,
    LedgerReference,
    Noise,
    ParameterSummary,
    ReleasedBounds,
    ReleasedGroups,
    ReleasedGuarantee,
    ReleasedStatistic,
    ReportedMethod,
    ValidRecords,
    Width,
)
from dpbayes_cli.bundle.files import GroupKey, keys_of, rounded_states
from dpbayes_cli.bundle.group_table import larger_names
from dpbayes_cli.bundle.report.group_results import extreme_groups
from dpbayes_cli.bundle.report.report_tables import AVERAGE
from dpbayes_cli.bundle.report.result_sentence import stated_results
from dpbayes_cli.bundle.report.wording import meanings
from dpbayes_cli.bundle.stated_request import remember
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.private_choice import Chosen, bounds_in, parents_in
from dpbayes_cli.core.registry import plug_ins_of
from dpbayes_cli.core.released import Draws, Payload
from dpbayes_cli.core.statistic import GroupNames
from dpbayes_cli.inference.posterior import QUANTILES, Marginal
from dpbayes_cli.privacy.composition import Composition
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.release_spec import ReleaseSpec


def sealed_draw(created: datetime, record_unit: str, n_records: int | None, payload: Payload | Draws) -> SealedDraw:
    """Return the output of a mechanism in the form that the ledger seals."""
    moment = created.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(payload, Draws):
        return SealedDraw(
            created=moment,
            record_unit=record_unit,
            n_records=n_records,
            draws=[list(point) for point in payload.values],
            drawn_states=[list(states) for states in payload.states] or UNSET,
            log_weight=UNSET if payload.log_weight is None else payload.log_weight,
        )
    if isinstance(payload.names, GroupNames):
        groups = ReleasedGroups(
            components=list(payload.names.components),
            values=list(payload.values),
            noise_scale=payload.noise.scale,
            keys=UNSET if payload.keys is None else list(payload.keys),
        )
        noise = Noise(**payload.noise.serialize())
        return SealedDraw(created=moment, record_unit=record_unit, n_records=n_records, groups=groups, noise=noise)
    return SealedDraw(
        created=moment,
        record_unit=record_unit,
        n_records=n_records,
        statistics=[ReleasedStatistic(**described) for described in payload.described()],
        noise=Noise(**payload.noise.serialize()),
        points=list(map(list, payload.points)) or UNSET,
        **_choice_parts(payload.chosen),
    )


def _choice_parts(chosen: Chosen | None) -> dict[str, Any]:
    """Return what was found privately, under its key in the document; see ``chosen_in``."""
    if chosen is None:
        return {}
    bounds = bounds_in(chosen)
    if bounds is not None:
        return {"bounds": ReleasedBounds(lower=bounds[0], upper=bounds[1])}
    return {"structure": {name: list(parents) for name, parents in parents_in(chosen)}}


def assemble(
    draw: SealedDraw,
    analysis: Analysis,
    spec: ReleaseSpec,
    mechanism: Mechanism,
    plan: Plan,
    *,
    release_id: str,
    account: str,
    account_delta: Decimal,
    ledger: LedgerReference,
    title: str | UnsetType = UNSET,
) -> ReleaseDocument:
    """Return the release document, which holds no exact value of the data.

    ``account_delta`` is the account's delta, at which the document states epsilon; it is 0 if the account has no delta.
    ``ledger`` is the entry that charged the account.
    """
    model, final_step = analysis.model, plan.final_step
    stated_delta = account_delta or spec.stated_delta or Decimal(0)
    summaries = list(zip(analysis.parameters, analysis.marginals, strict=True))
    report, valid = inference_report(spec, analysis), analysis.valid_records
    plug_ins = plug_ins_of(model.name, mechanism.name, None if draw.noise is None else draw.noise.law)
    document = ReleaseDocument(
        release_id=release_id,
        title=title,
        account=account,
        created=draw.created,
        model=model.name,
        mechanism=mechanism.name,
        spec=spec.stated_in_full,
        record_unit=draw.record_unit,
        privacy_unit=_privacy_unit(spec, draw.record_unit),
        n_records=draw.n_records,
        statistics=draw.statistics,
        groups=draw.groups,
        meanings={} if draw.draws else meanings(final_step.statistic, model.columns, spec.policy),
        noise=draw.noise,
        draws=draw.draws,
        drawn_states=draw.drawn_states,
        log_weight=draw.log_weight,
        parameters=dict(plan.parameters),
        sensitivity_l1=None if final_step.rows else final_step.statistic.sensitivity_l1,
        bounds=draw.bounds,
        structure=draw.structure,
        points=draw.points,
        guarantee=guarantee_part(plan.guarantee, spec.privacy.neighbors, stated_delta),
        posterior={name: summary(marginal) for name, marginal in summaries},
        effects=effects(analysis),
        width={name: Width(sd_data=m.sd_data, sd_noise=m.sd_noise) for name, m in summaries if m.sd_data or m.sd_noise},
        posterior_predictive=analysis.predictive,
        inference=msgspec.structs.replace(
            report,
            how=f"{report.how}: {plan.how}" if plan.how else report.how,
            exact=report.exact and final_step.law.draws_exactly,
            warnings=list(dict.fromkeys([*report.warnings, *plan.all_warnings(model, draw.n_records)])),
        ),
        valid_records=None if valid is None else ValidRecords(mean=valid.mean, q05=valid.q05, q95=valid.q95),
        **differing_groups(keys_of(draw, spec.stated_in_full), analysis),
        tables=analysis.how_counted or UNSET,
        states=rounded_states(analysis.states) or UNSET,
        assumptions=assumptions(spec, model.columns, plan, draw.record_unit, plug_ins),
        corrections=[model.info.corrections, mechanism.info.corrections],
        ledger=ledger,
        software={**dict(plug_ins.keys()), **_software()},
    )
    remember(document, spec, model)
    stated = msgspec.structs.replace(document, results=stated_results(document, analysis.samples))
    return remember(stated, spec, model)


def effects(analysis: Analysis) -> dict[str, EffectSummary] | UnsetType:
    """Return the effects that a document states; released draws are too few for intervals, and have none."""
    if analysis.drawn:
        return UNSET
    summaries = {}
    draws = {effect.name: effect.of_samples(analysis.samples) for effect in analysis.model.effects}
    draws |= {f"{AVERAGE}{name}": values for name, values in analysis.posterior.effects.items()}
    for name, values in draws.items():
        quantiles = dict(zip(QUANTILES, map(float, np.quantile(values, list(QUANTILES.values()))), strict=True))
        width: Width | UnsetType = UNSET
        if (without_noise := analysis.posterior.contrast_sds.get(name)) is not None:
            variance = float(np.log(values).var())
            known = min(without_noise**2, variance)
            width = Width(sd_data=known**0.5, sd_noise=(variance - known) ** 0.5)
        of_draws = summary(Marginal(float(values.mean()), float(values.std()), quantiles, 0.0, 0.0))
        summaries[name] = EffectSummary(**msgspec.structs.asdict(of_draws), log_width=width)
    return summaries or UNSET


def differing_groups(keys: Sequence[GroupKey], analysis: Analysis) -> dict[str, Any]:
    """Return what the document says about the groups that differ from the mean of all groups; empty without groups."""
    groups = analysis.groups
    if groups is None:
        return {}
    parameters, sizes = analysis.model.group_parameters, groups.sizes[:, 0]
    stated = {"extreme_groups": extreme_groups(keys, parameters, groups, sizes)}
    if groups.larger is not None:
        names, index = larger_names(keys)
        records = np.asarray(np.bincount(index, weights=sizes), dtype=np.float64)
        stated["extreme_larger_groups"] = extreme_groups(names, parameters, groups.larger, records)
    return stated


def guarantee_part(guarantee: Guarantee, neighbors: Neighbors, delta: Decimal) -> ReleasedGuarantee:
    """Return a guarantee as the document states it: its pure epsilon, or its epsilon at ``delta`` (0 for no delta)."""
    statement = guarantee.statement(max(delta, guarantee.delta)) if not guarantee.epsilon.is_finite() else None
    parts = guarantee.parts if isinstance(guarantee, Composition) else ()
    has_gaussian_part = any(part.kind == "gdp" for part in parts or (guarantee,))
    points = getattr(guarantee, "points", ())
    priced_by_law = not parts and guarantee != guarantee.former
    states_rho = priced_by_law or (statement is not None and guarantee.kind in {"zcdp", "composition"})
    return ReleasedGuarantee(
        kind=cast(Kind, guarantee.kind),
        epsilon=_finite(statement.epsilon if statement else guarantee.epsilon),
        delta=_not_below(statement.delta if statement and statement.epsilon.is_finite() else guarantee.delta),
        neighbors=neighbors,
        rho=_finite(guarantee.rho) if states_rho else None,
        mu=_finite(guarantee.mu) if has_gaussian_part else None,
        rdp=[[float(order), _not_below(value)] for order, value in points] or None,
        order_max=_finite(guarantee.order_max),
        parts=[guarantee_part(part, neighbors, delta) for part in parts],
    )


def at_stated_cost(plan: Plan, stated: ReleasedGuarantee) -> Plan:
    """Return a plan at the cost that its document states; an earlier version stated and charged pure epsilon alone."""
    return plan if _states_cost(stated) else plan.at_cost(plan.guarantee.former)


def _states_cost(guarantee: ReleasedGuarantee) -> bool:
    """Return whether a pure or bounded-range guarantee, or one of its parts, also states a rho."""
    states_rho = guarantee.kind in {"pure", "bounded-range"} and guarantee.rho is not None
    return states_rho or any(map(_states_cost, guarantee.parts))


def _finite(value: Decimal) -> float | None:
    return _not_below(value) if value.is_finite() else None


def _not_below(value: Decimal) -> float:
    """Return a float whose shortest decimal form, which JSON shows, is the value or slightly above it."""
    nearest = float(value)
    return nearest if Decimal(repr(nearest)) >= value else math.nextafter(nearest, math.inf)


def summary(marginal: Marginal) -> ParameterSummary:
    """Return the summary of one parameter; quantities that are not finite become None."""
    known = {name: value if math.isfinite(value) else None for name, value in marginal.quantiles.items()}
    return ParameterSummary(mean=marginal.mean, sd=marginal.sd if math.isfinite(marginal.sd) else None, **known)


def inference_report(spec: ReleaseSpec, analysis: Analysis) -> InferenceReport:
    """Return how the posterior was computed."""
    posterior = analysis.posterior
    method: ReportedMethod = "noise-aware"
    if analysis.groups is None:
        method = spec.inference_options.value("method")
    if analysis.drawn:
        method = "estimates" if analysis.estimates else "posterior-draws"
    return InferenceReport(
        method=method,
        how=posterior.method,
        exact=posterior.exact,
        monte_carlo_error=posterior.monte_carlo,
        diagnostics={name: None if math.isinf(value) else value for name, value in posterior.diagnostics.items()},
        warnings=list(posterior.warnings),
        samples=len(analysis.samples),
        samples_format=spec.inference.format,
    )


def _privacy_unit(spec: ReleaseSpec, record_unit: str) -> str:
    unit = spec.privacy.unit
    if unit is None:
        return f"one record ({record_unit})"
    counted = "one is" if unit.max_contributions == 1 else f"at most {unit.max_contributions:,} are"
    return f"all records with one value of the column {unit.column!r}, of which {counted} counted"


def _software() -> dict[str, str]:
    from opendp.mod import get_opendp_version

    return {
        "dpbayes": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "numpy": np.__version__,
        "opendp": get_opendp_version(),
        "duckdb": duck.version(),
    }
