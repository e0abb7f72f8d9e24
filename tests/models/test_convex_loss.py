"""Models of convex losses: the loss that their domain states, and the cautions of their predictions."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from dpbayes_cli.core.losses import HuberLoss, LogisticLoss, Loss, ProbitLoss, QuantileLoss, SmoothHingeLoss
from dpbayes_cli.core.registry import model_type
from dpbayes_cli.models.families.convex_loss import ConvexLossModel

FEATURES = {"x": {"lower": -1.0, "upper": 3.0}}
CLASS = {"target": {"column": "y", "values": ["no", "yes"]}, "features": FEATURES}
NUMBER = {"target": {"column": "y", "lower": 0.0, "upper": 10.0}, "features": FEATURES}


def built(name: str, domain: dict[str, Any]) -> ConvexLossModel:
    kind = model_type(name)
    model = kind.build(msgspec.convert(domain, kind.domain_type), kind.prior_type())
    assert isinstance(model, ConvexLossModel)
    return model


@pytest.mark.parametrize(
    ("name", "domain", "loss", "note"),
    [
        ("logistic-regression", CLASS, LogisticLoss(), ""),
        ("probit-regression", CLASS, ProbitLoss(), ""),
        ("svm", {**CLASS, "smoothing": 0.1}, SmoothHingeLoss(0.1), "a score above 0 means 'yes'"),
        ("huber-regression", {**NUMBER, "scale": 2.0, "threshold": 1.0}, HuberLoss(1.0, 0.4), "predicts a number"),
        ("huber-regression", NUMBER, HuberLoss(1.345, 0.1), "predicts a number"),
        ("quantile-regression", {**NUMBER, "level": 0.9}, QuantileLoss(0.9, 0.5, 0.1), "predicts the 0.9 quantile"),
    ],
)
def test_the_domain_states_the_loss_and_predictions_a_caution(
    name: str, domain: dict[str, Any], loss: Loss, note: str
) -> None:
    model = built(name, domain)
    assert (model.loss, model.precision) == (loss, 1.0)
    predictor = model.predictor(model.predicted_column(None), np.zeros((1, len(model.parameters))))
    assert note in predictor.note
    assert bool(note) == bool(predictor.note)


def test_a_number_is_predicted_in_its_units() -> None:
    """At zero coefficients the prediction is the middle of the target's range, at intercept 1 its upper bound."""
    model = built("huber-regression", NUMBER)
    intercept = model.parameters.index("beta[intercept]")
    np.testing.assert_allclose(model.mean(np.array([0.0, 1.0, -1.0])), [5.0, 10.0, 0.0])
    draws = np.zeros((1, len(model.parameters)))
    draws[0, intercept] = 1.0
    predicted = model.predictor(1, draws).predict(np.array([[0, -1], [-1, 0]]))
    np.testing.assert_array_equal(predicted.values, [10.0, np.nan])


def test_the_likelihood_of_probit_regression_itself_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unbounded gradients"):
        built("probit-regression", {**CLASS, "likelihood": "probit"})
