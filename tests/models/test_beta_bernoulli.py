"""Beta-Bernoulli: its texts, and the counts that it releases under each policy."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli, BetaBernoulliDomain, BetaBernoulliPrior
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.neighbors import Neighbors

MODEL = BetaBernoulli("yes", "no", 2.0, 3.0)


def test_the_texts_are_both_stated_or_are_the_usual_ones() -> None:
    prior = BetaBernoulliPrior()
    (usual,) = BetaBernoulli.build(BetaBernoulliDomain(), prior).columns
    assert [usual.texts[text] for text in ("1", "yes", "Yes", "TRUE", "y", "0", "no", "False", "N")] == [0] * 5 + [
        1
    ] * 4
    assert len(usual.texts) == 18, "1 or 0, and the lower, capitalized and upper forms; y and n have two of them"
    (stated,) = BetaBernoulli.build(BetaBernoulliDomain(success="1", failure="0"), prior).columns
    assert stated.texts == {"1": 0, "0": 1}, "stated texts are the only valid ones"
    with pytest.raises(msgspec.ValidationError, match="both success and failure"):
        msgspec.convert({"success": "yes"}, BetaBernoulliDomain)


@pytest.mark.parametrize(
    ("policy", "sensitivity", "observed"),
    [
        (RecordPolicy(Neighbors.REPLACE_ONE, "no"), 1, (5, None)),
        (RecordPolicy(Neighbors.REPLACE_ONE), 2, (5, 7)),
        (RecordPolicy(Neighbors.ADD_REMOVE), 1, (5, 7)),
    ],
)
def test_failures_are_released_unless_they_follow_from_the_record_count(
    policy: RecordPolicy, sensitivity: int, observed: tuple[int | None, ...]
) -> None:
    statistic = MODEL.statistic(policy)
    released = [value for value in observed if value is not None]
    assert statistic.names == ("successes", "failures")[: len(released)]
    assert statistic.sensitivity_l1 == sensitivity
    n_records = None if policy.neighbors is Neighbors.ADD_REMOVE else 12
    observation = MODEL.observation(policy, released, DiscreteLaplace(1.0), n_records)
    assert (observation.observed, observation.concentration) == (observed, (2.0, 3.0))
    _, counts = MODEL.simulated(policy, 12, np.random.default_rng(0))
    assert len(counts) == len(released)
    assert counts[0] + (counts[1] if counts[1:] else 0) <= 12
