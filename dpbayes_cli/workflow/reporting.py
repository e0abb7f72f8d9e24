"""Compute what a report shows in addition to its bundle: the recomputed guarantee, expected widths and the account.

Nothing here reads data. The seeds are digests of the release request, so that the same bundle gives the same page.
"""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.errors import DpbayesError, SpecError
from dpbayes_cli.bundle.assemble import at_stated_cost, guarantee_part
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.read import Bundle
from dpbayes_cli.bundle.report.report_context import BudgetChange, BudgetHistory, Expected, ExpectedWidth, ReportContext
from dpbayes_cli.core.model import Model, NoisyStatistics
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.section import require_type
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.replay import apply_entry, replay
from dpbayes_cli.ledger.state import State
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.spec.stored_spec import in_full_as_earlier
from dpbayes_cli.workflow.pricing import PlannedRelease, price

_MIN_TRIALS, _MAX_TRIALS = 3, 50
_MAX_TOTAL_PARAMETERS, _MAX_TOTAL_RECORDS = 4000, 2_000_000
"""Limits on the numbers of parameters and of records, summed over all simulated data sets. Larger models or data sets
get fewer trials."""
_MAX_PARAMETERS, _MAX_RECORDS = 20_000, 10**6
"""Nothing is simulated for a model with more parameters or a data set with more records than this."""


def build_report_context(
    bundle: Bundle, *, budget: BudgetChange | str | None = None, records: int | None = None
) -> ReportContext:
    """Return the recomputed guarantee, the expected widths and the account that a page shows.

    Args:
        budget: the account before and after the release, or a sentence that says why it is unknown; None if no ledger
            was given.
        records: the number of records to simulate if the true number is private.
    """
    document, spec = bundle.document, bundle.spec
    model = bundle.model if spec.private_bounds is None else None
    try:
        planned = price(spec, document.n_records, model)
    except DpbayesError:
        return ReportContext(
            None, Expected(reason_unknown="This version of dpbayes cannot price the release request."), budget
        )
    charged = at_stated_cost(planned.plan, document.guarantee).guarantee
    stated = guarantee_part(charged, spec.privacy.neighbors, Decimal(repr(document.guarantee.delta)))
    guarantee = charged if stated == document.guarantee else None
    n_records = records if document.n_records is None else document.n_records
    return ReportContext(guarantee, simulate_expected(planned, n_records), budget)


def simulate_expected(planned: PlannedRelease, n_records: int | None) -> Expected:
    """Return the expected posterior widths without privacy, simulated from the prior and the model alone.

    Args:
        planned: the release request, with the bounds that it states.
        n_records: the number of records to simulate; None if it is private and the user stated none.
    """
    spec, model, plan = planned.spec, planned.model, planned.plan
    absent = _why_not_simulated(spec, model, plan, n_records)
    if absent or n_records is None:
        return Expected(reason_unknown=absent)
    simulating = require_type(model, NoisyStatistics)
    affordable = min(_MAX_TOTAL_PARAMETERS // len(model.parameters), _MAX_TOTAL_RECORDS // n_records)
    trials = max(_MIN_TRIALS, min(_MAX_TRIALS, affordable))
    widths = nonprivate_widths(spec, simulating, n_records, trials)
    drawn = None
    if plan.final_step.law.has_moments and not plan.final_step.law.slow_moments:
        from dpbayes_cli.workflow.planning import SimulationEffort, simulate_plan

        with suppress(SpecError):
            drawn = simulate_plan(planned, n_records, SimulationEffort(trials, _seed(spec, n_records, "draws")))
    if drawn is None or drawn.sd_of != "posterior":
        return Expected(widths, n_records, trials)
    return Expected(widths, n_records, trials, "", drawn.posterior_sd, drawn.nonprivate_sd)


def nonprivate_widths(
    spec: ReleaseSpec, model: NoisyStatistics, n_records: int, trials: int
) -> dict[str, ExpectedWidth]:
    """Return, for each parameter, the median over simulated data sets of its posterior width without noise.

    Args:
        model: the model with the bounds that the request states, even if private bounds were drawn.
        n_records: the number of records in a data set, all of them valid.
        trials: the number of data sets.
    """
    import numpy as np

    from dpbayes_cli.inference.solve import infer
    from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
    from dpbayes_cli.privacy.neighbors import Neighbors

    rng = np.random.default_rng(_seed(spec, n_records, "widths"))
    public = n_records if spec.privacy.neighbors is Neighbors.REPLACE_ONE else None
    widths = np.empty((2, trials, len(model.parameters)))
    for trial in range(trials):
        _, values = model.simulated(spec.policy, n_records, rng)
        exact = [int(value) for value in values]
        observation = model.observation(spec.policy, exact, DiscreteLaplace(1e-2), public)  # naive: no noise is assumed
        marginals = infer(observation, "naive", 1, rng).marginals
        kept = [marginals[component] for component in model.components]
        widths[0, trial] = [marginal.sd for marginal in kept]
        widths[1, trial] = [marginal.quantiles["q95"] - marginal.quantiles["q05"] for marginal in kept]
    sd, middle = np.median(widths, axis=1).tolist()
    return {
        name: ExpectedWidth(*each) for name, each in zip(model.parameters, zip(sd, middle, strict=True), strict=True)
    }


def _why_not_simulated(spec: ReleaseSpec, model: Model, plan: Plan, n_records: int | None) -> str:
    if model.not_simulated:
        return model.not_simulated
    if not plan.final_step.law.can_be_simulated:
        return "Posteriors of hidden states need long Markov chains, so they are not simulated for a page."
    if spec.policy.contributions > 1:
        return "A privacy unit may have several records, and the number of records is private."
    if n_records is None:
        return "The number of records is private; to simulate N records: `dpbayes report --records N`."
    if len(model.parameters) > _MAX_PARAMETERS or n_records > _MAX_RECORDS:
        return "The model or the data set is too large to simulate for a page; see `dpbayes plan`."
    return ""


def _seed(spec: ReleaseSpec, n_records: int, what: str) -> int:
    return int(digest("expected before the data", canonical_json([in_full_as_earlier(spec), n_records, what]))[:32], 16)


def budget_around(document: ReleaseDocument, ledger: Ledger) -> BudgetChange | str:
    """Return the account before and after the entry that charged a release, or why it is unknown.

    Args:
        ledger: the ledger, which is verified first.

    Raises:
        LedgerError: the ledger cannot be read or trusted.
    """
    from dpbayes_cli.ledger.budgets import component_texts
    from dpbayes_cli.ledger.charge_text import charge_text

    entries = ledger.account_entries(document.account)
    charge = {"kind": "reserved", "release_id": document.release_id}
    number = next((i for i, entry in enumerate(entries) if charge.items() <= entry.fields.items()), None)
    if number is None:
        return "The ledger does not know this release."
    if (entries[number].sequence, entries[number].hash) != (document.ledger.sequence, document.ledger.hash):
        return "The ledger charged this release in another entry than the bundle states."
    before = replay(entries[:number]).accounts[document.account]
    after = replay(entries[: number + 1]).accounts[document.account]
    record = after.releases[document.release_id]
    return BudgetChange(
        total=component_texts(after.budget.total),
        before=component_texts(before.spent),
        after=component_texts(after.spent),
        remaining=component_texts(after.remaining),
        charged=charge_text(record.guarantee),
        releases=len(before.releases),
    )


def budget_over_time(account: str, ledger: Ledger) -> BudgetHistory | str:
    """Return what an account has spent over time, in the first component of its budget, or why it is unknown.

    Raises:
        LedgerError: the ledger cannot be read or trusted.
    """
    if account not in ledger.state().accounts:
        return f"The ledger has no account `{account}`."
    state, component, points = State(), "", []
    for entry in ledger.account_entries(account):
        apply_entry(state, entry)
        known = state.accounts[account]
        component = next(iter(known.budget.total))
        if entry.fields["kind"] in {"open", "reserved", "amend"}:
            points.append((entry.fields["time"], float(known.spent[component]), float(known.budget.total[component])))
    return BudgetHistory(account, component, points)
