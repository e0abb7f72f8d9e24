"""Networks of discrete variables: bayes-net and naive-bayes."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.models.bayes_net import BayesNet
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.models.naive_bayes import NaiveBayes
from dpbayes_cli.privacy.neighbors import Neighbors


@pytest.mark.parametrize(("kind", "example"), [(BayesNet, 1), (NaiveBayes, 1)])
def test_simulated_tables_follow_their_probabilities(kind: type[DiscreteBayesNet], example: int) -> None:
    """20,000 records in the order of the parameters: a count is 7 sd off with probability below 1e-11 (normal)."""
    model = kind.build(msgspec.convert(kind.examples[example].domain, kind.domain_type), kind.prior_type())
    theta, values = model.simulated(RecordPolicy(Neighbors.REPLACE_ONE), 20_000, np.random.default_rng(3))
    for shares, counts in zip(model.split(np.array(theta)), model.split(np.array(values)), strict=True):
        assert counts.sum() == 20_000
        totals = counts.sum(axis=-1, keepdims=True)
        assert (np.abs(counts - shares * totals) <= 7 * np.sqrt(totals * shares * (1 - shares)) + 1e-9).all()
