"""Probit regression: its canonical loss, and the likelihood that is refused."""

from __future__ import annotations

import msgspec
import pytest

from dpbayes_cli.core.losses import ProbitLoss
from tests.models.losses import CLASS, predictor_of
from tests.plans import model_of


def test_the_loss_is_canonical_and_predictions_need_no_caution() -> None:
    model = model_of("probit-regression", CLASS)
    assert (model.loss, model.prior.scales, predictor_of(model).note) == (ProbitLoss(), (2.7, 0.9), "")


def test_the_likelihood_of_probit_regression_itself_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unbounded gradients"):
        model_of("probit-regression", {**CLASS, "likelihood": "probit"})
