"""Mixtures of naive Bayes: the influence of a record, by enumeration, and the structure of the model."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.encoded_records import CodedColumns
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.samplers.private_gibbs import (
    Point,
    PrivateGibbs,
    PrivateGibbsOptions,
    plan_latent,
    working_memory,
)
from dpbayes_cli.models.naive_bayes_mixture import NaiveBayesMixture, NaiveBayesMixtureDomain
from tests.mechanisms.chains import COMPLETE, built, coarse, mixture

T = Decimal("0.5")


def chain_of(model: Any, n: int) -> PrivateGibbs:
    chain, _ = plan_latent(model.structure, PrivateGibbsOptions(epsilon=Decimal(1)), n)
    return coarse(chain)


def test_model_states_its_parameters_and_structure() -> None:
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
def test_invalid_domains_are_refused(domain: dict[str, Any], words: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=words):
        msgspec.convert(domain, NaiveBayesMixtureDomain)


def test_features_with_too_many_values_are_refused_before_the_charge() -> None:
    model = mixture(sizes=(65,))
    with pytest.raises(SpecError, match="at most 64"):
        chain_of(model, 10)


def test_classes_are_numbered_by_frequency() -> None:
    model = mixture(classes=3)
    chain = chain_of(model, 6)
    class_shares = (np.array([0.1, 0.2, 0.7]),)
    emissions = (np.array([[2, 6], [4, 4], [6, 2]]),)
    values, states = chain.reported(Point(np.array([2, 2, 2, 0, 1, 1]), emissions, class_shares))
    assert values == (0.75, 0.25, 0.5, 0.5, 0.25, 0.75, 0.7, 0.2, 0.1)
    assert states == (0, 0, 0, 2, 1, 1)


def test_memory_of_codes_and_chain_is_small() -> None:
    """One byte a cell for features with few values; utilities of one block of records at a time."""
    model = mixture(sizes=(2, 300))
    columns_read = require_type(model.chain_input(COMPLETE), CodedColumns)
    assert columns_read.memory(1000) == 3000
    codes = np.array([[0, 299], [1, 0]])
    collected = columns_read.hold(4)
    collected.take(codes)
    collected.take(codes[::-1])
    assert collected.n_records == 4
    assert [column.tolist() for column in collected.columns()] == [[0, 1, 1, 0], [299, 0, 0, 299]]
    assert collected.columns()[1].dtype == np.uint16
    with pytest.raises(ValueError, match="invalid cell"):
        collected.take(np.array([[0, -1]]))
    chain, _ = plan_latent(mixture().structure, PrivateGibbsOptions(epsilon=Decimal(1)), 10**7)
    assert working_memory(chain) < 300e6
