"""Facts that a page shows in addition to its bundle; none of them comes from the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
        drawn_sd: the standard deviation of the first parameter in the distribution of the released draws; None if no
            draws were released or this distribution was not simulated.
        drawn_nonprivate_sd: the standard deviation of the first parameter in the posterior without privacy, from the
            data sets that were simulated for ``drawn_sd``.
    """

    widths: Mapping[str, ExpectedWidth] = field(default_factory=dict)
    n_records: int = 0
    trials: int = 0
    reason_unknown: str = ""
    drawn_sd: float | None = None
    drawn_nonprivate_sd: float | None = None


@dataclass(frozen=True)
class BudgetChange:
    """An account just before and just after it was charged for a release.

    An amount is a text for each budget component.

    Attributes:
        total, remaining: the total budget, and the part that remains after the release.
        before, after: the amount that was spent before the release, and after it.
        charged: the cost of the release, in words.
        releases: the number of earlier releases of the account.
    """

    total: Mapping[str, str]
    before: Mapping[str, str]
    after: Mapping[str, str]
    remaining: Mapping[str, str]
    charged: str
    releases: int


@dataclass(frozen=True)
class ReportContext:
    """Everything that a page shows in addition to its bundle.

    Attributes:
        guarantee: the guarantee that follows from the request; None if the bundle states another guarantee.
        expected: the widths expected without privacy; None if they were not computed.
        budget: the account in the ledger, or a sentence that says why it is unknown; None if no ledger was given.
    """

    guarantee: Guarantee | None = None
    expected: Expected | None = None
    budget: BudgetChange | str | None = None


EMPTY_CONTEXT = ReportContext()
