"""Which kind of predictor serves a bundle."""

from __future__ import annotations

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.bundle.read import Bundle, analysis_of
from dpbayes_cli.models.hmm import Hmm
from dpbayes_cli.prediction.coefficients import CoefficientPredictor
from dpbayes_cli.prediction.linear_regression import LinearRegressionPredictor
from dpbayes_cli.prediction.network import NetworkPredictor
from dpbayes_cli.prediction.predictor import Predictor

KINDS: tuple[type[Predictor], ...] = (NetworkPredictor, CoefficientPredictor, LinearRegressionPredictor)
"""The kinds of predictors, each for the models of the type ``serves``."""

MOST_DRAWS = 1000
"""Averages over so many draws of the posterior: their error is below 1.6 % of a probability's spread over it."""


def predictor(bundle: Bundle, target: str | None) -> Predictor:
    """Return the predictor that a bundle holds.

    Args:
        bundle: the release.
        target: of a network, the variable to predict; None: the one that the spec names.

    Raises:
        SpecError: the model predicts nothing, or there is no such variable, or none is named.
    """
    model = bundle.model
    kind = next((kind for kind in KINDS if isinstance(model, kind.serves)), None)
    if kind is None:
        raise SpecError(
            f"model {model.name!r} does not predict one column from others",
            where="model",
            hint="dpbayes evaluate scores held-out records"
            if isinstance(model, Hmm)
            else "what it says about a new record is posterior_predictive in release.json",
        )
    place = kind.place(model, target)
    return kind(bundle, model, place, analysis_of(bundle).samples[:MOST_DRAWS])
