"""Mixtures of naive Bayes: what a record touches, by enumeration, and what the model says of itself."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.encoded_records import Codes
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.samplers.private_gibbs import (
    Point,
    PrivateGibbs,
    PrivateGibbsOptions,
    plan_latent,
    working_memory,
)
from dpbayes_cli.models.naive_bayes_mixture import NaiveBayesMixture, NaiveBayesMixtureDomain
from tests.mechanisms.chains import COMPLETE, built, coarse, evidence_of, mixture, records_of

T = Decimal("0.5")


def chain_of(model: Any, n: int) -> PrivateGibbs:
    chain, _ = plan_latent(model.structure, PrivateGibbsOptions(epsilon=Decimal(1)), n)
    return coarse(chain)


def points(chain: PrivateGibbs) -> list[Point]:
    """Every choice of emissions at the ends of the lattice, with random classes and shares."""
    rng = np.random.default_rng(2)
    found = []
    for ends in itertools.product(*(((2, 6), (6, 2)),) * chain.structure.n_states):
        states = rng.integers(chain.structure.n_states, size=chain.n_records)
        found.append(Point(states, (np.array(ends),), chain.structure.draw_links(None, rng)))
    return found


@pytest.mark.parametrize("n", [2, 3])
def test_a_replaced_record_changes_the_law_of_its_own_class_alone(n: int) -> None:
    """All data sets of n records, all replacements: utilities of other records are the same, so that all compose."""
    model = mixture()
    chain = chain_of(model, n)
    group = np.arange(n)
    for records in itertools.product(records_of(model), repeat=n):
        for i, other in itertools.product(range(n), records_of(model)):
            changed = [*records[:i], other, *records[i + 1 :]]
            sites = [chain.structure.sites(evidence_of(model, each)) for each in (records, changed)]
            for point in points(chain):
                one, two = (chain.utilities(point, point.states, each, T, group) for each in sites)
                assert {int(row) for row in np.flatnonzero((one != two).any(axis=1))} <= {i}
            tables = [each.counts(points(chain)[0].states, 2)[0] for each in sites]
            row = points(chain)[0].states[i]
            assert set(np.flatnonzero((tables[0] != tables[1]).any(axis=1)).tolist()) <= {int(row)}
            assert np.abs(tables[0] - tables[1]).sum() <= 2


def test_the_range_of_a_record_is_that_of_two_logarithms_a_feature() -> None:
    """The witness: emissions at opposite ends, a record's value replaced by the other."""
    model = mixture()
    chain = chain_of(model, 1)
    point = next(p for p in points(chain) if p.emissions[0].tolist() == [[2, 6], [6, 2]])
    one, two = (
        chain.utilities(point, point.states, chain.structure.sites(evidence_of(model, [record])), T, np.arange(1))
        for record in ((0,), (1,))
    )
    change = (one - two)[0] / 2.0**chain.bits
    assert np.ptp(change) == pytest.approx(float(T * chain.covers[0].spread), rel=1e-9)


def test_what_the_model_says_of_itself() -> None:
    model = require_type(
        built(
            "naive-bayes-mixture",
            {"variables": {"a": {"values": ["x", "y"]}, "b": {"cuts": [1.0, 2.0]}}, "classes": 2},
            {"classes": 3.0, "concentration": {"a": {"x": 2.0, "y": 0.5}, "b": 1.0}},
        ),
        NaiveBayesMixture,
    )
    assert len(model.parameters) == len(set(model.parameters)) == 2 * (2 + 3) + 2
    assert model.parameters[:3] == ("theta[a=x|class=1]", "theta[a=y|class=1]", "theta[a=x|class=2]")
    assert model.parameters[-1] == "share[class=2]"
    assert model.structure.emissions == ((2.0, 0.5), (1.0, 1.0, 1.0))
    assert model.structure.concentration == 3.0
    assert model.column_names == ("a", "b")
    assert model.predictive([0.1] * 12) == {}


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        ({"variables": {"a": {"values": ["x", "y"], "weight": 2.0}}, "classes": 2}, "weight"),
        ({"variables": {"a": {"values": ["x", "y"]}}, "classes": 51}, "<= 50"),
        ({"variables": {"a": {"values": [str(i) for i in range(6000)]}}, "classes": 50}, "cells"),
    ],
)
def test_domains_that_are_none(domain: dict[str, Any], words: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=words):
        msgspec.convert(domain, NaiveBayesMixtureDomain)


def test_features_of_too_many_values_are_refused_before_anything_is_charged() -> None:
    model = mixture(sizes=(65,))
    with pytest.raises(SpecError, match="allowed: 64"):
        chain_of(model, 10)


def test_classes_are_numbered_by_how_often_they_occur() -> None:
    model = mixture(classes=3)
    chain = chain_of(model, 6)
    links = (np.array([0.1, 0.2, 0.7]),)
    emissions = (np.array([[2, 6], [4, 4], [6, 2]]),)
    values, states = chain.reported(Point(np.array([2, 2, 2, 0, 1, 1]), emissions, links))
    assert values == (0.75, 0.25, 0.5, 0.5, 0.25, 0.75, 0.7, 0.2, 0.1)
    assert states == (0, 0, 0, 2, 1, 1)


def test_memory_is_stated_and_small() -> None:
    """A byte a cell where a feature has few values, and utilities of one block of records at a time."""
    model = mixture(sizes=(2, 300))
    held = require_type(model.read(COMPLETE), Codes)
    assert held.memory(1000) == 3000
    codes = np.array([[0, 299], [1, 0]])
    collected = held.hold(4)
    collected.take(codes)
    collected.take(codes[::-1])
    assert collected.n_records == 4
    assert [column.tolist() for column in collected.columns()] == [[0, 1, 1, 0], [299, 0, 0, 299]]
    assert collected.columns()[1].dtype == np.uint16
    with pytest.raises(ValueError, match="complete"):
        collected.take(np.array([[0, -1]]))
    chain, _ = plan_latent(mixture().structure, PrivateGibbsOptions(epsilon=Decimal(1)), 10**7)
    assert working_memory(chain) < 300e6
