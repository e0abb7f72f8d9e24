"""What a question costs: model, mechanism and calibrated plan, from the spec alone."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from dpbayes_cli.base.errors import DpbayesError, SpecError
from dpbayes_cli.core.contracts import Mechanism, Model, Plan, Step
from dpbayes_cli.core.registry import check_serves, mechanism_type
from dpbayes_cli.core.request import Request
from dpbayes_cli.privacy.composition import compose
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.imputation import impute_code
from dpbayes_cli.spec.release_spec import ReleaseSpec

_MOST_DRAWN = 4_000_000
"""Numbers that one release may draw. Written out they stay below what the ledger seals, whatever they are: nothing that
depends on a draw may refuse it before it is sealed."""


def planned_between(
    spec: ReleaseSpec, mechanism: Mechanism, whole: Plan, n_records: int | None, bounds: tuple[float, float]
) -> tuple[Model, Plan]:
    """Return model and plan as they stand once the bounds are found; see ``Question.at``.

    Args:
        spec: the question.
        mechanism: what answers it.
        whole: the plan for the whole range.
        n_records: the public number of records that the plan rests on, or None.
        bounds: what was found.
    """
    model = spec.build_model(bounds)
    try:
        _, _, plan = price(spec, n_records, bounds)
    except DpbayesError:
        plan = None
    if plan is None or plan.guarantee != whole.guarantee:
        statistic = mechanism.statistic(model, spec.policy)
        steps = (*whole.steps[:-1], replace(whole.answer, statistic=statistic))
        plan = replace(whole, steps=steps)
    return model, plan


def price(
    spec: ReleaseSpec, n_records: int | None = None, bounds: tuple[float, float] | None = None
) -> tuple[Model, Mechanism, Plan]:
    """Build and price what a spec asks for, without any data.

    Args:
        spec: the question.
        n_records: the public number of records, where the mechanism needs it and the spec does not state it.
        bounds: the bounds that were found privately; None: they are stated, or not found yet.

    Raises:
        SpecError: the question is wrong, or no guarantee can be given for it.
    """
    model = spec.build_model(bounds)
    if model.column_names and spec.column is not None:
        raise SpecError("the domain names the columns", where="column", hint="leave it out: see domain.columns")
    kind = mechanism_type(spec.mechanism)
    check_serves(kind, type(model))
    for column in spec.build_model().columns:
        impute_code(column, spec.policy)
    mechanism, law = kind(), spec.private_bounds
    if law is not None and not kind.post_processing:
        raise SpecError(
            f"{kind.name} draws from a posterior whose bounds must be known beforehand",
            where="bounds",
            hint="state them in the domain, or have them found privately for a mechanism that adds noise: laplace",
        )
    if spec.privacy.unit is not None and spec.privacy.neighbors is Neighbors.ADD_REMOVE and spec.sampling.n_max:
        raise SpecError(
            "which records are the first ones depends on all units' lots, where only so many are read",
            where="privacy.unit",
            hint="replace-one neighbours: then the number of units is public",
        )
    request = request_of(spec, n_records)
    plan = mechanism.plan(model, request)
    drawn = len(model.parameters) + plan.answer.n_states
    if plan.answer.draws * drawn > _MOST_DRAWN:
        raise SpecError(
            f"{plan.answer.draws} draws of {drawn} numbers are more than the ledger seals at once",
            where="sampling.draws",
            hint=f"at most {_MOST_DRAWN:,} numbers together",
        )
    if law is None:
        return model, mechanism, plan
    last = law.grid.last
    lowest = {0} if law.lower is None else {0, last - 1}
    for lower in lowest:  # with the widest, the narrowest at both ends, before a charge
        narrow = spec.build_model((law.grid.value(lower), law.grid.value(lower + 1)))
        if mechanism.plan(narrow, request).guarantee != plan.guarantee:
            raise DpbayesError("the price of the statistics depends on the bounds; nothing is released")
    (column,) = model.columns
    first = Step(law.statistic(column.role, spec.policy), law, law.guarantee)
    return model, mechanism, Plan((first, *plan.steps), compose([law.guarantee, plan.guarantee]), plan.parameters)


def request_of(spec: ReleaseSpec, n_records: int | None) -> Request:
    """Return what a spec asks of a mechanism.

    Raises:
        SpecError: a kernel is stated, and the mechanism runs no chain of that kind.
    """
    privacy, sampling = spec.privacy, spec.sampling
    if sampling.kernel != "gibbs" and spec.mechanism != "gibbs":
        raise SpecError(
            f"mechanism {spec.mechanism!r} has no kernel {sampling.kernel!r}",
            where="sampling.kernel",
            hint="mechanism: gibbs, or leave it out",
        )
    return Request(
        policy=spec.policy,
        epsilon=privacy.exact("epsilon"),
        delta=privacy.exact("delta"),
        rho=privacy.exact("rho"),
        order=privacy.exact("order") or Decimal(2),
        n_records=spec.records if n_records is None else n_records,
        draws=sampling.draws,
        temper=sampling.temper,
        support=sampling.support,
        selection=sampling.selection,
        mu=privacy.exact("mu"),
        calibration=sampling.calibration,
        temperature=sampling.temperature,
        step=sampling.step,
        steps=sampling.steps,
        n_max=sampling.n_max,
        gamma=sampling.gamma if sampling.certificate else None,
        kernel=sampling.kernel,
        sweeps=sampling.sweeps,
        log_weight_epsilon=sampling.exact_log_weight_epsilon,
    )
