"""What a report tells beside the bundle: the guarantee priced again, widths expected before the data, the budget.

Nothing here sees data. Seeds are digests of the question, so that the same bundle gives the same page.
"""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.errors import DpbayesError, SpecError
from dpbayes_cli.bundle.assemble import guarantee_part
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.read import Bundle
from dpbayes_cli.bundle.report.report_context import BudgetChange, Expected, ExpectedWidth, ReportContext
from dpbayes_cli.core.model import Model, NoisyStatistics
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.section import require_type
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.replay import replay
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.spec.stored_spec import in_full_as_earlier
from dpbayes_cli.workflow.pricing import PlannedRelease, price

_TRIALS, _PARAMETERS, _RECORDS = 50, 4000, 2_000_000
"""Data sets are simulated so often, or until so many parameters or records were drawn, but three times at least."""
_LARGEST = 20_000
"""Models of more parameters are not simulated: a page lists the first of them."""
_MOST_RECORDS = 10**6


def beside(bundle: Bundle, *, budget: BudgetChange | str | None = None, records: int | None = None) -> ReportContext:
    """Return what a page tells beside what is in the bundle.

    Args:
        bundle: the release.
        budget: what a ledger says, or why none does; None: none was asked.
        records: how many records to plan for, where their number is private.
    """
    document, spec = bundle.document, bundle.spec
    model = bundle.model if spec.bounds is None else None
    try:
        planned = price(spec, document.n_records, model)
    except DpbayesError:
        return ReportContext(
            None, Expected(reason_unknown="The question has no price in this version of dpbayes."), budget
        )
    stated = guarantee_part(planned.plan.guarantee, spec.privacy.neighbors, Decimal(repr(document.guarantee.delta)))
    guarantee = planned.plan.guarantee if stated == document.guarantee else None
    n_records = records if document.n_records is None else document.n_records
    return ReportContext(guarantee, expected(planned, n_records), budget)


def expected(planned: PlannedRelease, n_records: int | None) -> Expected:
    """Simulate what the posterior could be expected to be without privacy: from the prior and the model alone.

    Args:
        planned: what is asked, between the bounds that it states.
        n_records: the public number of records, or one to plan for; None: it is private.
    """
    spec, model, plan = planned.spec, planned.model, planned.plan
    absent = _not_simulated(spec, model, plan, n_records)
    if absent or n_records is None:
        return Expected(reason_unknown=absent)
    simulating = require_type(model, NoisyStatistics)
    trials = max(3, min(_TRIALS, _PARAMETERS // len(model.parameters), _RECORDS // n_records))
    widths = nonprivate_widths(spec, simulating, n_records, trials)
    drawn = None
    if plan.final_step.law.has_moments and not plan.final_step.law.slow_moments:
        from dpbayes_cli.workflow.planning import simulated

        with suppress(SpecError):
            drawn = simulated(planned, n_records, trials, _seed(spec, n_records, "draws"))
    if drawn is None or drawn.sd_of != "posterior":
        return Expected(widths, n_records, trials)
    return Expected(widths, n_records, trials, "", drawn.posterior_sd, drawn.nonprivate_sd)


def nonprivate_widths(
    spec: ReleaseSpec, model: NoisyStatistics, n_records: int, trials: int
) -> dict[str, ExpectedWidth]:
    """Return how wide the posterior of each parameter is without noise, in the median of simulated data sets.

    Args:
        spec: the question.
        model: between the bounds that the question states, also where bounds were then found privately.
        n_records: how many records are simulated, all of them valid.
        trials: how many data sets.
    """
    import numpy as np

    from dpbayes_cli.inference.solve import infer
    from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
    from dpbayes_cli.privacy.neighbors import Neighbors

    rng = np.random.default_rng(_seed(spec, n_records, "widths"))
    public = n_records if spec.privacy.neighbors is Neighbors.REPLACE_ONE else None
    found = np.empty((2, trials, len(model.parameters)))
    for trial in range(trials):
        _, values = model.simulated(spec.policy, n_records, rng)
        exact = [int(value) for value in values]
        observation = model.observation(spec.policy, exact, DiscreteLaplace(1e-2), public)  # naive: no noise is assumed
        marginals = infer(observation, "naive", 1, rng).marginals
        kept = [marginals[component] for component in model.components]
        found[0, trial] = [marginal.sd for marginal in kept]
        found[1, trial] = [marginal.quantiles["q95"] - marginal.quantiles["q05"] for marginal in kept]
    sd, middle = np.median(found, axis=1).tolist()
    return {
        name: ExpectedWidth(*each) for name, each in zip(model.parameters, zip(sd, middle, strict=True), strict=True)
    }


def _not_simulated(spec: ReleaseSpec, model: Model, plan: Plan, n_records: int | None) -> str:
    """Return why nothing can be expected before the data; an empty text where it can."""
    if model.not_simulated:
        return model.not_simulated
    if not plan.final_step.law.can_be_simulated:
        return "Posteriors of hidden states take long Markov chains, and are not simulated for a page."
    if spec.policy.contributions > 1:
        return "Privacy units have several records, and how many records there are is private."
    if n_records is None:
        return "The number of records is private; `dpbayes report --records N` takes one to plan for."
    if len(model.parameters) > _LARGEST or n_records > _MOST_RECORDS:
        return "The model is too large to be simulated for a page; see dpbayes plan."
    return ""


def _seed(spec: ReleaseSpec, n_records: int, what: str) -> int:
    """Return the seed of a simulation: a digest of the question and of the public number of records."""
    return int(digest("expected before the data", canonical_json([in_full_as_earlier(spec), n_records, what]))[:32], 16)


def budget_around(document: ReleaseDocument, ledger: Ledger) -> BudgetChange | str:
    """Return what an account held before and after the entry that charged a release; a text says why not.

    Args:
        document: the release.
        ledger: where to look it up; it is verified first.

    Raises:
        LedgerError: the ledger cannot be read, or not be trusted.
    """
    from dpbayes_cli.ledger.budgets import texts
    from dpbayes_cli.ledger.charging import price_text

    entries = ledger.account_entries(document.account)
    charge = {"kind": "reserved", "release_id": document.release_id}
    number = next((i for i, entry in enumerate(entries) if charge.items() <= entry.fields.items()), None)
    if number is None:
        return "The ledger that was asked does not know this release."
    if (entries[number].sequence, entries[number].hash) != (document.ledger.sequence, document.ledger.hash):
        return "The ledger that was asked has charged this release by another entry than the bundle states."
    before = replay(entries[:number]).accounts[document.account]
    after = replay(entries[: number + 1]).accounts[document.account]
    record = after.releases[document.release_id]
    return BudgetChange(
        total=texts(after.budget.total),
        before=texts(before.spent),
        after=texts(after.spent),
        remaining=texts(after.remaining),
        charged=price_text(record.guarantee),
        releases=len(before.releases),
    )
