"""Groups: what a record contributes, in every engine's integers, and the sensitivity to one record."""

from __future__ import annotations

import itertools
from contextlib import closing
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbayes_cli.base.numeric import Integers
from dpbayes_cli.core.columns import LargerGroups, RecordPolicy
from dpbayes_cli.core.options import EpsilonOptions
from dpbayes_cli.core.released import Payload
from dpbayes_cli.mechanisms.laplace import Laplace
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.models.beta_geometric import BetaGeometric
from dpbayes_cli.models.dirichlet_categorical import DirichletCategorical
from dpbayes_cli.models.families.grouped import GroupedModel
from dpbayes_cli.models.gamma_exponential import GammaExponential
from dpbayes_cli.models.gamma_poisson import GammaPoisson
from dpbayes_cli.models.normal import Normal, NormalPrior
from dpbayes_cli.models.normal_mean import NormalMean
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.frame import FrameSource
from tests.conftest import often

KEYS = ("a", "7", "c")
BASES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "two texts": (BetaBernoulli("yes", "no", 1.0, 1.0), ("yes", " no ", "maybe", "")),
    "texts": (DirichletCategorical(("x", "y", "z"), (1.0,) * 3), ("x", "y", "z", "?")),
    "counts": (GammaPoisson(3, 1.0, 1.0), ("0", "1", "3", "9", "-", "2.5")),
    "counts within bounds": (GammaPoisson(3, 1.0, 1.0, "drop"), ("0", "3", "9", "-")),
    "failures": (BetaGeometric(3, 1.0, 1.0), ("0", "1", "3", "9", "-")),
    "times": (GammaExponential(2.0, 1.0, 1.0), ("0", "2", "1", "0.7", "9", "-")),
    "numbers": (NormalMean(-1.0, 2.0, 1.0, 0.0, 1.0), ("-1", "2", "0", "1.7", "9", "-")),
    "normal numbers": (Normal(0.0, 2.0, NormalPrior(spread=1.0)), ("0", "2", "1", "1.7", "9", "-")),
}
POLICIES = {
    "drop": RecordPolicy(Neighbors.REPLACE_ONE),
    "impute": RecordPolicy(Neighbors.REPLACE_ONE, "STAND-IN"),
    "add-remove": RecordPolicy(Neighbors.ADD_REMOVE),
}


def contribution(model: GroupedModel, policy: RecordPolicy, key: str, value: str) -> Integers:
    """Return what one record adds to the statistic, as the engine computes it."""
    with closing(FrameSource(pd.DataFrame({"key": [key], "value": [value]}))) as source:
        source.check(model.columns, ["key", "value"])
        return np.array(source.statistics(model.statistic(policy), policy).values)


@pytest.mark.parametrize(("name", "treatment"), often(itertools.product(BASES, POLICIES), 2, several=True))
@pytest.mark.parametrize("n_keys", often([2, 1, 3], 3))
def test_no_record_changes_the_statistic_by_more_than_its_sensitivity(name: str, treatment: str, n_keys: int) -> None:
    base, values = BASES[name]
    stand_in = base.columns[0].levels[0] if hasattr(base.columns[0], "levels") else "1"
    policy = POLICIES[treatment]
    if policy.impute is not None:
        policy = RecordPolicy(policy.neighbors, stand_in)
    model = base.grouped("key", "value", KEYS[:n_keys])
    statistic = model.statistic(policy)
    keys = (*KEYS[:n_keys], "unlisted", "", "07" if n_keys > 1 else "A")
    added = {pair: contribution(model, policy, *pair) for pair in itertools.product(keys, values)}
    records = list(added.values())
    absent = np.zeros(len(statistic.names), dtype=np.int64)
    if policy.neighbors is Neighbors.ADD_REMOVE:
        changes = np.array(records)
    else:
        changes = np.array([first - second for first, second in itertools.product([*records, absent], repeat=2)])
    assert abs(changes).sum(axis=1).max() == statistic.sensitivity_l1
    assert (changes**2).sum(axis=1).max() == statistic.sensitivity_l2_squared
    assert abs(changes).max() == statistic.largest_change
    assert not any(added[key, value].any() for key in ("unlisted", "") for value in values)
    law = DiscreteLaplace(max(5.0, statistic.sensitivity_l1 / 4.0))
    shifts = [tuple(change) for change in np.unique(abs(changes), axis=0).tolist()]
    for order in (Decimal(2), Decimal(32)):
        true = max(float(law.privacy([shift]).rdp(order)) for shift in shifts if any(shift))
        stated = float(law.privacy(statistic.worst_shifts).rdp(order))
        assert true <= stated * (1 + 1e-12)
        assert stated <= true * (1 + 1e-12), "a cost that no record needs"


@pytest.mark.parametrize("name", ["two texts", "counts"])
def test_every_number_of_every_group_has_noise(name: str) -> None:
    """Noise of this scale is 0 for one of the numbers with probability below 1e-6."""
    policy, model = POLICIES["drop"], BASES[name][0].grouped("key", "value", KEYS)
    mechanism = Laplace()
    plan = mechanism.plan(model, policy, EpsilonOptions(epsilon=Decimal("1e-7")))
    frame = pd.DataFrame({"key": ["a", "7", "7"], "value": [BASES[name][1][0]] * 3})
    with closing(FrameSource(frame)) as source:
        source.check(model.columns, ["key", "value"])
        exact = source.statistics(plan.steps[0].statistic, policy)
        released = mechanism.release(plan, exact)
    assert isinstance(released, Payload)
    assert all(noisy != value for noisy, value in zip(released.values, exact.values, strict=True))


@pytest.mark.parametrize("name", ["two texts", "counts"])
def test_a_record_counts_in_the_group_with_both_of_its_keys(name: str) -> None:
    """The same key in two larger groups is two groups; a pair that is not listed counts nowhere."""
    base, values = BASES[name]
    larger = LargerGroups("state", ("CA", "NY", "7"))
    model = base.grouped("county", "value", ("Orange", "Orange", "Kings"), parents=larger)
    assert isinstance(model, GroupedModel)
    policy = POLICIES["drop"]
    statistic = model.statistic(policy)
    counties = ["Orange", " Orange", "Orange", "Kings", "Kings", "Kings", None, "Orange"]
    states = ["CA", "NY", "7", "CA", "7", "07", "CA", None]
    frame = pd.DataFrame({"county": counties, "state": states, "value": [values[0]] * 8})
    with closing(FrameSource(frame)) as source:
        source.check(model.columns, list(model.column_names))
        sums = np.array(source.statistics(statistic, policy).values).reshape(3, 2)
    per_record = np.array([1, 0]) if name == "two texts" else np.array([-3, 3])
    assert (sums == np.outer([1, 1, 2], per_record)).all()
    plain = base.grouped("key", "value", KEYS)
    assert statistic.worst_shifts[0][:4] == plain.statistic(policy).worst_shifts[0][:4]
    assert statistic.sensitivity_l1 == plain.statistic(policy).sensitivity_l1
    assert statistic.names[2].endswith("[Orange]")
