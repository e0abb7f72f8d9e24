"""Price a release: build the model, the mechanism and the calibrated plan from the spec alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from dpbayes_cli.base.errors import DpbayesError, SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.design import DesignRows
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.plan import Plan, Step
from dpbayes_cli.core.private_choice import Chosen
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.privacy.composition import Failure, compose
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.imputation import impute_code
from dpbayes_cli.spec.release_spec import ReleaseSpec

_MAX_DRAWN_NUMBERS = 4_000_000
"""A release draws at most this many numbers, so that the ledger can seal them whatever their values. The limit is
checked before the draw, because a later refusal would depend on the drawn values."""


@dataclass(frozen=True)
class PlannedRelease:
    """A priced release request with its model and mechanism, without data or account.

    Attributes:
        spec: the release request.
        model: the model of the spec. Before a private choice is drawn, it has the whole range of values, or a
            star as its tree.
        mechanism: the mechanism that releases the model's statistic or posterior draws.
        policy: the neighbor relation, and how invalid records count.
        plan: the calibrated and priced steps.
        n_records: the public number of records if the plan needs it; otherwise None.
    """

    spec: ReleaseSpec
    model: Model
    mechanism: Mechanism
    policy: RecordPolicy
    plan: Plan
    n_records: int | None = None
    _last: dict[Chosen, Self] = field(init=False, repr=False, compare=False, default_factory=dict)

    @property
    def known_records(self) -> int | None:
        """The public number of records: of the plan or, failing that, of the spec; None if neither states it."""
        return self.spec.records if self.n_records is None else self.n_records

    def at_choice(self, chosen: Chosen | None) -> Self:
        """Return the release with the private choice that was drawn; its privacy cost does not change.

        If ``chosen`` is None, the release itself is returned. Two calls in a row with the same choice return the same
        object, so that model and plan are built only once.

        Raises:
            SpecError: the first step cannot return this choice.
        """
        if chosen is None:
            return self
        if chosen not in self._last:
            narrowed = self.with_chosen_model(self.spec.build_model(chosen))
            self._last.clear()
            self._last[chosen] = narrowed
        return self._last[chosen]

    def at_keys(self, keys: tuple[str, ...] | None) -> Self:
        """Return the release with the keys of groups that were published; its privacy cost does not change.

        If ``keys`` is None, the release itself is returned.
        """
        if keys is None:
            return self
        model = self.spec.build_model(keys=keys)
        final_step = replace(self.plan.final_step, statistic=self.mechanism.statistic(model, self.policy))
        return replace(self, model=model, plan=replace(self.plan, steps=(final_step,)))

    def with_chosen_model(self, model: Model) -> Self:
        """Return the release with a model that has private bounds or a private tree; the cost does not change.

        Privacy: this method refuses no choice. A refusal would reveal something about bounds that were drawn but not
            sealed, and the next attempt would draw again. If the noise cannot be calibrated to these bounds, the noise
            for the whole range is used. It was planned before the charge, and the sensitivity between narrower bounds
            is never larger.
        Source: derived here.
        """
        choice, whole = self.plan.steps[0], self.plan
        try:
            plan = self.mechanism.plan(model, self.policy, self.spec.options, self.known_records)
        except DpbayesError:
            plan = None
        paid = whole.final_step.guarantee
        if plan is None or paid not in (plan.guarantee, plan.guarantee.former):
            statistic = self.mechanism.statistic(model, self.policy)
            steps = (*whole.steps[:-1], replace(whole.final_step, statistic=statistic))
            return replace(self, model=model, plan=replace(whole, steps=steps))
        steps = (choice, *plan.steps)
        return replace(self, model=model, plan=replace(whole, steps=steps, parameters=plan.parameters))


def with_threshold(plan: Plan, model: Model, policy: RecordPolicy) -> Plan:
    """Return the plan; if keys are to be found in the data, with their threshold and its cost.

    Privacy: see ``KeyThreshold``: outside an event of probability delta, the output has the guarantee of the noise.
    Source: see ``KeyThreshold`` and ``Failure``.
    """
    threshold = model.key_threshold(plan.final_step.noise, policy) if plan.final_step.law.adds_noise else None
    if threshold is None:
        return plan
    total = compose([plan.guarantee, Failure(threshold.delta)])
    parameters = {**plan.parameters, "key_threshold": threshold.value, "key_records": threshold.records}
    return replace(plan, guarantee=total, parameters=parameters, threshold=threshold)


def price(spec: ReleaseSpec, n_records: int | None = None, model: Model | None = None) -> PlannedRelease:
    """Return the calibrated and priced plan of a release request, without any data.

    Args:
        spec: the release request.
        n_records: the public number of records, if the mechanism needs it and the spec does not state it.
        model: the model of the spec if it is built already; with a drawn tree, but without drawn bounds.

    Raises:
        SpecError: the spec is wrong, or no guarantee can be given for it.
    """
    model = model or spec.build_model()
    if model.column_names and spec.column is not None and spec.by is None:
        raise SpecError(
            "this model names its columns in the domain, so column must not be stated",
            where="column",
            hint="leave out column",
        )
    kind = mechanism_type(spec.mechanism)
    mechanism, policy, law = kind(), spec.policy, spec.private_choice
    for column in model.columns:
        impute_code(column, policy)
    if law is not None and not (kind.post_processing if law.keeps_parameters else kind.takes_private_trees()):
        raise SpecError(
            f"{kind.name} cannot use private {law.key}",
            where=law.key,
            hint=f"state the {law.key} in the domain, or choose a mechanism that can use private {law.key}, such as "
            "laplace",
        )
    options, known = spec.options, spec.records if n_records is None else n_records
    plan = with_threshold(mechanism.plan(model, policy, options, known), model, policy)
    limited = isinstance(plan.final_step.rows, DesignRows) and plan.final_step.rows.max_records is not None
    if spec.privacy.unit is not None and spec.privacy.neighbors is Neighbors.ADD_REMOVE and limited:
        raise SpecError(
            "this mechanism reads only the first records, and a privacy unit could change which ones those are",
            where="privacy.unit",
            hint="--neighbors replace-one: the number of privacy units is then public",
        )
    drawn = len(model.parameters) + plan.final_step.law.n_states
    if plan.final_step.draws * drawn > _MAX_DRAWN_NUMBERS:
        raise SpecError(
            f"{plan.final_step.draws} draws of {drawn} numbers each are too many for one release",
            where="sampling.draws",
            hint=f"at most {_MAX_DRAWN_NUMBERS:,} numbers in all: ask for fewer draws",
        )
    if law is None:
        return PlannedRelease(spec, model, mechanism, policy, plan, n_records)
    others = [spec.build_model(chosen) for chosen in law.extremes()]
    costs = {mechanism.plan(other, policy, options, known).guarantee for other in others}
    if costs != {plan.guarantee}:  # price extreme choices too, before any charge
        plan = plan.at_cost(plan.guarantee.former)
        if {each.former for each in costs} != {plan.guarantee}:
            raise DpbayesError(f"the cost of the statistics depends on the private {law.key}; nothing is released")
    first = Step(law.first_statistic(model.columns, policy), law, law.guarantee)
    total = compose([law.guarantee, plan.guarantee])
    whole = Plan((first, *plan.steps), total, plan.parameters, choice=law)
    return PlannedRelease(spec, model, mechanism, policy, whole, n_records)
