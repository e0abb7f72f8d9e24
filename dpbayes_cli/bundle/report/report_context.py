"""What a page tells in addition to the bundle; none of it is kept in the bundle or comes from the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbayes_cli.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class ExpectedWidth:
    """The width of the posterior of one parameter that was to be expected without privacy, before seeing the data.

    Attributes:
        sd: the median of its standard deviation over simulated data sets.
        interval_width: the median width of its 90 % interval over the same data sets.
    """

    sd: float
    interval_width: float


@dataclass(frozen=True)
class Expected:
    """The widths that were to be expected without privacy, from a simulation.

    Attributes:
        widths: by parameter; empty if nothing was simulated.
        n_records: the number of records in each simulated data set.
        trials: the number of simulated data sets.
        reason_unknown: why nothing was simulated, a sentence; otherwise empty.
        drawn_sd: the standard deviation of the first parameter under the law of the released draws; None if no draws
            were released or their law is not simulated.
        drawn_nonprivate_sd: that of the posterior without privacy, in the same simulations.
    """

    widths: Mapping[str, ExpectedWidth] = field(default_factory=dict)
    n_records: int = 0
    trials: int = 0
    reason_unknown: str = ""
    drawn_sd: float | None = None
    drawn_nonprivate_sd: float | None = None


@dataclass(frozen=True)
class BudgetChange:
    """An account just before and just after a release was charged, by component of its total.

    Attributes:
        total, before, after, remaining: amounts as texts; ``before`` and ``after`` were spent.
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
    """Everything that a page tells in addition to the bundle.

    Attributes:
        guarantee: the guarantee of the request, computed again; None if it differs from the bundle's.
        expected: the widths expected without privacy; None: not computed.
        budget: the account in the ledger, or a sentence on why it is not known; None: no ledger was given.
    """

    guarantee: Guarantee | None = None
    expected: Expected | None = None
    budget: BudgetChange | str | None = None


EMPTY_CONTEXT = ReportContext()
