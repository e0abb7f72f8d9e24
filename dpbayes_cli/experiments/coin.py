"""What the studies of one binary outcome share: the model with its prior, and complete records of a known number."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.contracts import Positive, Section
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.privacy.neighbors import Neighbors

COMPLETE = RecordPolicy(Neighbors.REPLACE_ONE, "0")
"""Every record holds an outcome: the number of successes is the statistic."""
DROPPED = RecordPolicy(Neighbors.REPLACE_ONE)
"""Records may be invalid: both counts are the statistic."""


class CoinCase(Section, frozen=True, kw_only=True):
    """A probability of success with a Beta prior."""

    alpha: Annotated[Positive, Meta(description="prior successes")] = 1.0
    beta: Annotated[Positive, Meta(description="prior failures")] = 1.0

    @property
    def model(self) -> BetaBernoulli:
        """The model of the case."""
        return BetaBernoulli("1", "0", self.alpha, self.beta)
