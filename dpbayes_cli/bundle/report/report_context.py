"""What the page shows in addition to the content of the bundle; none of it comes from the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dpbayes_cli.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class ExpectedWidth:
    """The posterior width that was expected for one parameter without privacy, before the data were seen."""

    sd: float  # the median posterior standard deviation over simulated data sets
    interval_width: float  # the median width of the 90 % interval over the simulated data sets


@dataclass(frozen=True)
class Expected:
    """The posterior widths that were expected without privacy, from a simulation."""

    widths: Mapping[str, ExpectedWidth] = field(default_factory=dict)  # by parameter; empty if nothing was simulated
    n_records: int = 0  # the number of records in each simulated data set
    trials: int = 0  # the number of simulated data sets
    reason_unknown: str = ""  # a sentence that says why nothing was simulated; empty if there was a simulation
    drawn_sd: float | None = None  # the standard deviation of a released draw of the first parameter, if simulated
    drawn_nonprivate_sd: float | None = None  # the same in the posterior without privacy, for the same data sets


@dataclass(frozen=True)
class BudgetChange:
    """An account just before and just after it was charged for a release; amounts are texts by budget component."""

    total: Mapping[str, str]  # the total budget
    before: Mapping[str, str]  # what was spent before the release
    after: Mapping[str, str]  # what was spent after it
    remaining: Mapping[str, str]  # what remains of the total after the release
    charged: str  # the privacy cost of the release, in words
    releases: int  # the number of earlier releases of the account


@dataclass(frozen=True)
class BudgetHistory:
    """What an account has spent over time."""

    account: str
    component: str  # the component of the budget that is shown, such as epsilon
    points: Sequence[tuple[str, float, float]]  # of each change, its time, and the spent and total budget after it


@dataclass(frozen=True)
class ReportContext:
    """Everything that the page shows in addition to the content of the bundle."""

    guarantee: Guarantee | None = None  # that of the request; None if the bundle states another guarantee
    expected: Expected | None = None  # the widths expected without privacy; None if they were not computed
    budget: BudgetChange | str | None = None  # or a sentence on why it is unknown; None if no ledger was given


EMPTY_CONTEXT = ReportContext()
