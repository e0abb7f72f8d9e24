"""Quantile regression: the loss of its domain, and the quantile that is predicted."""

from __future__ import annotations

from dpbayes_cli.core.losses import QuantileLoss
from tests.models.losses import NUMBER, predictor_of
from tests.plans import model_of


def test_the_domain_states_the_level_and_predictions_name_it() -> None:
    model = model_of("quantile-regression", {**NUMBER, "level": 0.9})
    assert (model.loss, model.precision) == (QuantileLoss(0.9, 0.5, 0.1), 1.0)
    assert "predicts the 0.9 quantile" in predictor_of(model).note
