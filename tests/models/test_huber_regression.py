"""Huber regression: the loss of its domain, and predictions in the units of the target."""

from __future__ import annotations

import numpy as np

from dpbayes_cli.core.losses import HuberLoss
from tests.models.losses import NUMBER, predictor_of
from tests.plans import model_of


def test_the_domain_states_threshold_and_scale() -> None:
    """The scale is in units of the target; the loss takes it for a target from -1 to 1."""
    assert model_of("huber-regression", NUMBER).loss == HuberLoss(1.345, 0.1)
    assert model_of("huber-regression", {**NUMBER, "scale": 2.0, "threshold": 1.0}).loss == HuberLoss(1.0, 0.4)


def test_a_number_is_predicted_in_its_units() -> None:
    """At zero coefficients the prediction is the middle of the target's range, at intercept 1 its upper bound."""
    model = model_of("huber-regression", NUMBER)
    np.testing.assert_allclose(model.mean(np.array([0.0, 1.0, -1.0])), [5.0, 10.0, 0.0])
    predictor = predictor_of(model, intercept=1.0)
    np.testing.assert_array_equal(predictor.predict(np.array([[0, -1], [-1, 0]])).values, [10.0, np.nan])
    assert "predicts a number" in predictor.note
