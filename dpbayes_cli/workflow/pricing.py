"""What a release costs: model, mechanism and calibrated plan, from the spec alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from dpbayes_cli.base.errors import DpbayesError, SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.design import DesignRows
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.plan import Plan, Step
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.privacy.composition import compose
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.imputation import impute_code
from dpbayes_cli.spec.release_spec import ReleaseSpec

_MOST_DRAWN = 4_000_000
"""Numbers that one release may draw. Written out they stay below what the ledger seals, whatever they are: nothing that
depends on a draw may refuse it before it is sealed."""


@dataclass(frozen=True)
class PlannedRelease:
    """A priced release: what is asked and what answers it, each made once; no data, no account.

    Attributes:
        spec: what is asked.
        model: the model that the spec states; before private bounds are found, over the whole range.
        mechanism: what privatizes its statistic.
        policy: neighbors, and what an invalid record counts as.
        plan: the calibrated and priced steps.
        n_records: the public number of records that the plan rests on, or None.
    """

    spec: ReleaseSpec
    model: Model
    mechanism: Mechanism
    policy: RecordPolicy
    plan: Plan
    n_records: int | None = None
    _last: dict[tuple[float, float], Self] = field(init=False, repr=False, compare=False, default_factory=dict)

    @property
    def known_records(self) -> int | None:
        """The public number of records, as far as it is known: the one that the plan rests on, or the stated one."""
        return self.spec.records if self.n_records is None else self.n_records

    def at(self, bounds: tuple[float, float] | None) -> Self:
        """Return the release as it stands once its bounds are found, at the same price; None: it asks for none.

        Asked for the same bounds twice in a row, it gives the same object: what was drawn between them is described by
        it.

        Raises:
            SpecError: the bounds are none that the law can choose.
        """
        if bounds is None:
            return self
        if bounds not in self._last:
            narrowed = self.narrowed(self.spec.build_model(bounds))
            self._last.clear()
            self._last[bounds] = narrowed
        return self._last[bounds]

    def narrowed(self, model: Model) -> Self:
        """Return the release with its model between bounds that were found, at the same price.

        Privacy: nothing is refused any more, for a refusal would tell about bounds that were drawn and not sealed, and
            the next attempt would draw again. Where the noise between these bounds cannot be calibrated, that of the
            whole range serves: it was planned before the charge, and no bounds inside have a larger sensitivity.
        Source: mechanisms, integer statistics on a public grid.
        """
        choice, whole = self.plan.steps[0], self.plan
        try:
            plan = self.mechanism.plan(model, self.policy, self.spec.options, self.known_records)
        except DpbayesError:
            plan = None
        if plan is None or compose([choice.guarantee, plan.guarantee]) != whole.guarantee:
            statistic = self.mechanism.statistic(model, self.policy)
            steps = (*whole.steps[:-1], replace(whole.final_step, statistic=statistic))
            return replace(self, model=model, plan=replace(whole, steps=steps))
        steps = (choice, *plan.steps)
        return replace(self, model=model, plan=replace(whole, steps=steps, parameters=plan.parameters))


def price(spec: ReleaseSpec, n_records: int | None = None, model: Model | None = None) -> PlannedRelease:
    """Plan and price what a spec asks for, without any data.

    Args:
        spec: what is asked.
        n_records: the public number of records, where the mechanism needs it and the spec does not state it.
        model: the model of the spec, where it is built already; private bounds are still to be found.

    Raises:
        SpecError: the spec is wrong, or no guarantee can be given for it.
    """
    model = model or spec.build_model()
    if model.column_names and spec.column is not None:
        raise SpecError("the domain names the columns", where="column", hint="leave it out: see domain.columns")
    kind = mechanism_type(spec.mechanism)
    mechanism, policy, law = kind(), spec.policy, spec.private_bounds
    for column in model.columns:
        impute_code(column, policy)
    if law is not None and not kind.post_processing:
        raise SpecError(
            f"{kind.name} draws from a posterior whose bounds must be known beforehand",
            where="bounds",
            hint="state them in the domain, or have them found privately for a mechanism that adds noise: laplace",
        )
    options, known = spec.options, spec.records if n_records is None else n_records
    plan = mechanism.plan(model, policy, options, known)
    limited = isinstance(plan.final_step.rows, DesignRows) and plan.final_step.rows.max_records is not None
    if spec.privacy.unit is not None and spec.privacy.neighbors is Neighbors.ADD_REMOVE and limited:
        raise SpecError(
            "which records are the first ones depends on all units' lots, where only so many are read",
            where="privacy.unit",
            hint="replace-one neighbors: then the number of units is public",
        )
    drawn = len(model.parameters) + plan.final_step.law.n_states
    if plan.final_step.draws * drawn > _MOST_DRAWN:
        raise SpecError(
            f"{plan.final_step.draws} draws of {drawn} numbers are more than the ledger seals at once",
            where="sampling.draws",
            hint=f"at most {_MOST_DRAWN:,} numbers together",
        )
    if law is None:
        return PlannedRelease(spec, model, mechanism, policy, plan, n_records)
    last = law.grid.last
    lowest = {0} if law.lower is None else {0, last - 1}
    for lower in lowest:  # with the widest, the narrowest at both ends, before a charge
        narrow = spec.build_model((law.grid.value(lower), law.grid.value(lower + 1)))
        if mechanism.plan(narrow, policy, options, known).guarantee != plan.guarantee:
            raise DpbayesError("the price of the statistics depends on the bounds; nothing is released")
    (column,) = model.columns
    first = Step(law.statistic(column.role, policy), law, law.guarantee)
    total = compose([law.guarantee, plan.guarantee])
    whole = Plan((first, *plan.steps), total, plan.parameters, bounds=law)
    return PlannedRelease(spec, model, mechanism, policy, whole, n_records)
