"""What a page tells beside what is in the bundle: nothing of it is kept there, or comes from the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbayes_cli.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class ExpectedWidth:
    """How wide the posterior of one parameter could be expected to be without privacy, before there were data.

    Attributes:
        sd: the median of its standard deviation over simulated data sets.
        interval_width: the same of the width of its 90 % interval.
    """

    sd: float
    interval_width: float


@dataclass(frozen=True)
class Expected:
    """What was to be expected of a release before it.

    Attributes:
        widths: by parameter; none where nothing was simulated.
        n_records: how many records were simulated.
        trials: how often.
        reason_unknown: why nothing was simulated, a sentence; else an empty text.
        drawn_sd: of the law that the released draws come from, the standard deviation of the first parameter; None
            where no draws were released, or their law is not simulated.
        drawn_nonprivate_sd: the same of the posterior without privacy, in the same simulations.
    """

    widths: Mapping[str, ExpectedWidth] = field(default_factory=dict)
    n_records: int = 0
    trials: int = 0
    reason_unknown: str = ""
    drawn_sd: float | None = None
    drawn_nonprivate_sd: float | None = None


@dataclass(frozen=True)
class BudgetChange:
    """An account just before and just after the entry that charged a release, by component.

    Attributes:
        total, before, after, remaining: amounts as texts; ``before`` and ``after`` are what was spent.
        charged: the price of the release in words.
        releases: how many releases the account had paid for before.
    """

    total: Mapping[str, str]
    before: Mapping[str, str]
    after: Mapping[str, str]
    remaining: Mapping[str, str]
    charged: str
    releases: int


@dataclass(frozen=True)
class ReportContext:
    """Everything that a page tells beside what is in the bundle.

    Attributes:
        guarantee: what the question promises, priced again; None where that is not what the bundle states.
        expected: what was to be expected before the data; None: not asked.
        budget: of the ledger; a text says why it is not known; None: not asked.
    """

    guarantee: Guarantee | None = None
    expected: Expected | None = None
    budget: BudgetChange | str | None = None


NOTHING = ReportContext()
