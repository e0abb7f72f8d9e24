"""Domains of the models of convex losses, and what they predict."""

from __future__ import annotations

import numpy as np

from dpbayes_cli.core.predictor import Predictor
from dpbayes_cli.models.families.convex_loss import ConvexLossModel

FEATURES = {"x": {"lower": -1.0, "upper": 3.0}}
CLASS = {"target": {"column": "y", "values": ["no", "yes"]}, "features": FEATURES}
NUMBER = {"target": {"column": "y", "lower": 0.0, "upper": 10.0}, "features": FEATURES}


def predictor_of(model: ConvexLossModel, intercept: float = 0.0) -> Predictor:
    """Return the predictor from one draw, whose coefficients are zero except for the intercept."""
    draws = np.zeros((1, len(model.parameters)))
    draws[0, model.parameters.index("beta[intercept]")] = intercept
    return model.predictor(model.predicted_column(None), draws)
