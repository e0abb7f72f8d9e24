"""Logistic regression: its loss, and probabilities without a caution."""

from __future__ import annotations

from dpbayes_cli.core.losses import LogisticLoss
from tests.models.losses import CLASS, predictor_of
from tests.plans import model_of


def test_predictions_are_probabilities_without_a_caution() -> None:
    model = model_of("logistic-regression", CLASS)
    assert (model.loss, model.prior.scales, predictor_of(model).note) == (LogisticLoss(), (2.5, 2.5), "")
