"""What the page shows in addition to the content of the bundle; none of it comes from the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dpbayes_cli.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class ExpectedWidth:
    """The posterior width that was expected for one parameter without privacy, before the data were seen.

    Attributes:
        sd: the median posterior standard deviation over simulated data sets.
        interval_width: the median width of the 90 % interval over the simulated data sets.
    """

    sd: float
    interval_width: float


@dataclass(frozen=True)
class Expected:
    """The posterior widths that were expected without privacy, from a simulation.

    Attributes:
        widths: the expected width of each parameter; empty if nothing was simulated.
        n_records: the number of records in each simulated data set.
        trials: the number of simulated data sets.
        reason_unknown: a sentence that says why nothing was simulated; empty if there was a simulation.
        drawn_sd: the simulated standard deviation of a released draw of the first parameter; None if no draws were
            released, or if they were not simulated.
        drawn_nonprivate_sd: the standard deviation of the first parameter in the posterior without privacy, for the
            same simulated data sets.
    """

    widths: Mapping[str, ExpectedWidth] = field(default_factory=dict)
    n_records: int = 0
    trials: int = 0
    reason_unknown: str = ""
    drawn_sd: float | None = None
    drawn_nonprivate_sd: float | None = None


@dataclass(frozen=True)
class BudgetChange:
    """An account just before and just after it was charged for a release; amounts are texts by budget component.

    Attributes:
        total, remaining: the total budget, and what remains of it after the release.
        before, after: what was spent before the release, and after it.
        charged: the privacy cost of the release, in words.
        releases: the number of earlier releases of the account.
    """

    total: Mapping[str, str]
    before: Mapping[str, str]
    after: Mapping[str, str]
    remaining: Mapping[str, str]
    charged: str
    releases: int


@dataclass(frozen=True)
class BudgetHistory:
    """What an account has spent over time.

    Attributes:
        component: the component of the budget that is shown, such as epsilon.
        points: for each charge and each change of the total, its time, and the spent and the total budget after it.
    """

    account: str
    component: str
    points: Sequence[tuple[str, float, float]]


@dataclass(frozen=True)
class ReportContext:
    """Everything that the page shows in addition to the content of the bundle.

    Attributes:
        guarantee: the guarantee that follows from the request; None if the bundle states another guarantee.
        expected: the widths expected without privacy; None if they were not computed.
        budget: the account in the ledger, or a sentence that says why it is unknown; None if no ledger was given.
    """

    guarantee: Guarantee | None = None
    expected: Expected | None = None
    budget: BudgetChange | str | None = None


EMPTY_CONTEXT = ReportContext()
