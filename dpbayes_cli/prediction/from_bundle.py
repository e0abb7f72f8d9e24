"""The two uses of a release for new records: predict one column, or score whole records by their likelihood."""

from __future__ import annotations

from typing import Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.read import Bundle, analysis_of
from dpbayes_cli.core.held_out import HeldOutScore
from dpbayes_cli.core.predictor import Predictor
from dpbayes_cli.prediction.records import read_columns
from dpbayes_cli.sources.location import Location

MAX_DRAWS = 1000
"""Predictions use at most this many draws; then the standard error of a predicted probability is below 1.6 %."""


def predictor(bundle: Bundle, target: str | None, analysis: Analysis | None = None) -> Predictor:
    """Return the predictor of a bundle; raise ``SpecError`` if there is none.

    Args:
        target: the variable of a network to predict; None for the target that the spec names.
        analysis: a posterior of the release under another prior; None for the posterior in the bundle.
    """
    model = bundle.model
    column = model.predicted_column(target)
    return model.predictor(column, (analysis or analysis_of(bundle)).samples[:MAX_DRAWS])


def held_out(bundle: Bundle, data: str | Location, layout: dict[str, Any]) -> HeldOutScore | None:
    """Return the likelihood of a file's records; None if the model does not score whole records.

    For ``data`` and ``layout`` see ``read_codes``. A bundle without a posterior of hidden states is a ``SpecError``.
    """
    model = bundle.model
    likelihood = model.held_out()
    if likelihood is None:
        return None
    analysis = analysis_of(bundle)
    if analysis.states is None:
        raise SpecError("the bundle has no posterior of hidden states", where="model")
    read_columns(bundle, model.columns, model.column_names, data, layout, take=likelihood.take)
    return likelihood.score(analysis.samples[:MAX_DRAWS], analysis.states)
