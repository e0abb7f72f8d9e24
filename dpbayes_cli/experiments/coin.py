"""Cases for studies of one binary outcome, and policies for their invalid records."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, cast

from msgspec import Meta

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.section import Positive
from dpbayes_cli.experiments.study import StudySection
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.release_spec import build_spec

if TYPE_CHECKING:
    from dpbayes_cli.models.beta_bernoulli import BetaBernoulli

COMPLETE = RecordPolicy(Neighbors.REPLACE_ONE, "0")
"""The policy under which every record holds an outcome, so that the number of successes is the statistic."""
DROPPED = RecordPolicy(Neighbors.REPLACE_ONE)
"""The policy under which records may be invalid, so that the numbers of successes and failures are the statistic."""


class CoinCase(StudySection, frozen=True, kw_only=True):
    """A probability of success with a Beta prior."""

    alpha: Annotated[Positive, Meta(description="prior successes")] = 1.0
    beta: Annotated[Positive, Meta(description="prior failures")] = 1.0

    @property
    def model(self) -> BetaBernoulli:
        return _coin(self.alpha, self.beta)


@lru_cache(maxsize=64)
def _coin(alpha: float, beta: float) -> BetaBernoulli:
    spec = build_spec({"model": "beta-bernoulli", "prior": {"alpha": alpha, "beta": beta}})
    return cast("BetaBernoulli", spec.build_model())
