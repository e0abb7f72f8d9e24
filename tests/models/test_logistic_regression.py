"""Logistic regression: its loss, and probabilities without a caution."""

from __future__ import annotations

import msgspec
import pytest

from dpbayes_cli.core.losses import LogisticLoss
from tests.models.losses import CLASS, predictor_of
from tests.plans import model_of


def test_predictions_are_probabilities_without_a_caution() -> None:
    model = model_of("logistic-regression", CLASS)
    assert (model.loss, model.prior.scales, predictor_of(model).note) == (LogisticLoss(), (4.5, 1.5), "")


def test_the_default_prior_refers_to_numbers_and_keeps_what_is_stated() -> None:
    texts = {**CLASS, "features": {"t": {"values": ["u", "v"]}}}
    assert model_of("logistic-regression", texts).prior.scales == (1.0, 1.0, 1.0)
    stated = model_of("logistic-regression", CLASS, {"precision": 4.0}).prior
    assert (stated.scales, stated.tau) == ((0.5, 0.5), 4.0)
    beside = model_of("logistic-regression", CLASS, {"effect": 2.0, "scale": {"x": 4.0}}).prior
    assert (beside.scales, beside.per_sd, beside.centered) == ((6.0, 4.0), (False, False), (False, True))
    fixed = model_of("logistic-regression", CLASS, {"effect": 2.0, "scale": {"intercept": 4.0}}).prior
    assert (fixed.scales, fixed.centered) == ((4.0, 2.0), (False, False))
    related = {"spread": 3.0, "correlations": [[1.0, 0.5], [0.5, 1.0]]}
    assert model_of("logistic-regression", CLASS, related).prior.scales == (3.0, 3.0)
    with pytest.raises(msgspec.ValidationError, match="one of"):
        model_of("logistic-regression", CLASS, {"precision": 1.0, "spread": 1.0})
