"""Fourier-Laplace: tables rebuilt from parities."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.noisy_observation import NoisyTables
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.workflow.pricing import price
from tests.plans import plan_of
from tests.test_conformance import RELATIONS, TRANSFORMED, Instance, check_tables, contribution, label, records_of


@pytest.mark.parametrize(("relation", "complete"), RELATIONS)
@pytest.mark.parametrize(("mechanism", "instance"), TRANSFORMED, ids=label)
def test_tables_rebuilt_from_exact_parities_equal_the_counts(
    mechanism: type[Mechanism], instance: Instance, relation: Neighbors, complete: bool
) -> None:
    """Without noise nothing is lost: inference gets the exact counts of the records that count."""
    model, policy = instance.model_and_policy(relation, complete=complete)
    assert isinstance(model, DiscreteBayesNet)
    subject = mechanism()
    statistic = subject.statistic(model, policy)
    records = records_of(model)[::2]
    released = np.sum([contribution(statistic, model, policy, record) for record in records], axis=0).tolist()
    step = plan_of(subject, model, policy, Decimal(1)).steps[0]
    n_records = None if relation is Neighbors.ADD_REMOVE else len(records)
    observation = subject.observation(model, policy, released, step.noise, n_records)
    assert isinstance(observation, NoisyTables)
    check_tables(model, observation, policy, "unbounded" if n_records is None else "known" if complete else "at-most")
    plain = replace(statistic, transform=None)
    counts = np.sum([contribution(plain, model, policy, record) for record in records], axis=0).tolist()
    rebuilt = [value for table in observation.tables for value in table.observed.ravel().tolist()]
    assert rebuilt == pytest.approx(counts, abs=1e-9)


@pytest.mark.parametrize(("n_parents", "children", "reason"), [(12, 1, "table of 'z0' has 2"), (11, 16, "the tables")])
def test_tables_with_too_many_parities_are_refused(n_parents: int, children: int, reason: str) -> None:
    variables = {f"x{i}": {"values": ["a", "b"]} for i in range(n_parents)}
    parents = list(variables)
    variables |= {f"z{i}": {"values": ["a", "b"], "parents": parents} for i in range(children)}
    spec = {"model": "bayes-net", "mechanism": "fourier-laplace", "domain": {"variables": variables}}
    with pytest.raises(SpecError, match=reason) as refused:
        price(build_spec({**spec, "privacy": {"epsilon": "1"}}), 1000)
    assert "mechanism: laplace" in str(refused.value.hint)
