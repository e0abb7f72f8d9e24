"""Joint laws of records: margins and separation against enumeration, and records that follow the law."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dpbayes_cli.core.columns import Column
from dpbayes_cli.core.joint_law import JointLaw
from dpbayes_cli.core.registry import model_names, model_type
from dpbayes_cli.privacy.dag import Network
from dpbayes_cli.spec.release_spec import build_spec
from tests.statistical import assert_follows

DRAWS = 3


def random_law(rng: np.random.Generator, size: int) -> JointLaw:
    """Return a law on a random graph of ``size`` variables with two or three values."""
    order: list[int] = rng.permutation(size).tolist()
    parents: list[tuple[int, ...]] = [()] * size
    for k, i in enumerate(order):
        parents[i] = tuple(j for j in order[:k] if rng.random() < 0.45)
    levels = tuple(tuple("abc"[: rng.integers(2, 4)]) for _ in range(size))
    network = Network(tuple(f"v{i}" for i in range(size)), levels, tuple(parents))
    tables = tuple(rng.dirichlet(np.ones(network.sizes[i]), (DRAWS, *network.shape(i)[:-1])) for i in range(size))
    return JointLaw(network, tuple(map(Column, network.names, levels)), tables)


def enumerated(law: JointLaw) -> Any:
    """Return the joint probabilities of all variables, shape (n_draws, *sizes), by their definition."""
    joint = np.zeros((law.n_draws, *law.network.sizes))
    for cell in np.ndindex(*law.network.sizes):
        tables = [law.tables[i][(..., *(cell[j] for j in family))] for i, family in enumerate(law.network.families)]
        joint[(..., *cell)] = np.prod(tables, axis=0)
    return joint


@pytest.mark.parametrize("seed", range(6))
def test_margins_are_those_of_the_enumerated_law(seed: int) -> None:
    rng = np.random.default_rng(seed)
    law = random_law(rng, 6)
    joint = enumerated(law)
    for wanted in ([2], [4, 1], [0, 5, 3]):
        rest = tuple(i + 1 for i in range(6) if i not in wanted)
        expected = joint.sum(axis=rest).transpose(0, *(1 + np.argsort(np.argsort(wanted))))
        np.testing.assert_allclose(law.margin(wanted), expected, atol=1e-14)


@pytest.mark.parametrize("seed", range(4))
def test_separated_variables_are_the_independent_ones(seed: int) -> None:
    """Variables that are not separated are dependent for almost all tables."""
    law = random_law(np.random.default_rng(seed), 5)
    joint = enumerated(law)[0]
    for a, b in itertools.combinations(range(5), 2):
        rest = [i for i in range(5) if i not in {a, b}]
        for given in itertools.chain.from_iterable(itertools.combinations(rest, k) for k in range(4)):
            kept = [a, b, *given]
            p = joint.sum(axis=tuple(i for i in range(5) if i not in kept))
            p = np.moveaxis(p, [sorted(kept).index(a), sorted(kept).index(b)], [0, 1])
            gap = p * p.sum(axis=(0, 1)) - p.sum(axis=0) * p.sum(axis=1, keepdims=True)
            assert law.are_separated(a, b, given) == (np.abs(gap).max() < 1e-12), (a, b, given)


def test_missing_edges_include_those_among_the_parents_of_ancestors() -> None:
    levels = (("0", "1"),) * 4
    tables = tuple(np.full((1, *[2] * k), 0.5) for k in (1, 1, 3, 2))
    law = JointLaw(Network(("a", "b", "c", "d"), levels, ((), (), (0, 1), (2,))), (Column("a", levels[0]),) * 4, tables)
    assert law.missing_edges([2, 0]) == [(0, 1)]
    assert law.missing_edges([3, 0]) == [(0, 1), (0, 3)]
    assert law.missing_edges([0]) == []


def test_records_follow_the_law_of_their_draw() -> None:
    """Fails without reason with probability 1e-9 for each draw."""
    law = random_law(np.random.default_rng(8), 4)
    joint = enumerated(law).reshape(DRAWS, -1)
    for draw in range(DRAWS):
        codes = law.records(draw, 40_000, np.random.default_rng(draw))
        cells = np.ravel_multi_index(tuple(codes.T), law.network.sizes)
        assert_follows(cells, np.arange(joint.shape[1]), joint[draw])


def laws() -> list[Any]:
    """Return the joint law of each example of each model that has one, for random parameters."""
    cases = []
    for name in model_names():
        for k, example in enumerate(model_type(name).examples):
            spec = build_spec({"model": name, "domain": example.domain, "prior": example.prior})
            model, rng = spec.build_model(), np.random.default_rng(k)
            draws = rng.random((2, len(model.parameters)))
            states = rng.integers(0, 2, (2, 2, 3)) if name == "hmm" else None
            if type(model).joint_law is not model_type("normal").joint_law:
                cases.append(pytest.param(model, draws, states, id=f"{name}-{k}"))
    return cases


@pytest.mark.parametrize(("model", "draws", "states"), laws())
def test_the_tables_of_a_law_hold_the_parameters_that_name_their_cells(model: Any, draws: Any, states: Any) -> None:
    law = model.joint_law("answer", draws, states)
    names = law.network.names
    probabilities = {}
    for i, family in enumerate(law.network.families):
        for cell in itertools.product(*(range(law.network.sizes[j]) for j in family)):
            labels = [law.network.levels[j][code] for j, code in zip(family, cell, strict=True)]
            given = ",".join(f"{names[j]}={label}" for j, label in zip(family[:-1], labels, strict=False))
            probabilities[f"{names[i]}={labels[-1]}" + (f"|{given}" if given else "")] = law.tables[i][:, *cell]
    for k, parameter in enumerate(model.parameters):
        label = parameter.partition("[")[2][:-1]
        if parameter.startswith(("transition", "initial")):
            continue
        label = f"answer={label}" if model.name == "dirichlet-categorical" else label
        np.testing.assert_array_equal(probabilities[label], draws[:, k], err_msg=parameter)
    if states is not None:
        located = law.tables[-1]
        np.testing.assert_array_equal(located.argmax(axis=-1), states)
