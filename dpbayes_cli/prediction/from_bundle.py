"""What the model of a release offers for new records: a predictor of one column, or the likelihood of all of them."""

from __future__ import annotations

from typing import Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.bundle.read import Bundle, analysis_of
from dpbayes_cli.core.held_out import HeldOutScore
from dpbayes_cli.core.predictor import Predictor
from dpbayes_cli.prediction.records import read_columns

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
    column = model.predicted_column(target)
    return model.predictor(column, analysis_of(bundle).samples[:MOST_DRAWS])


def held_out(bundle: Bundle, data: str, layout: dict[str, Any]) -> HeldOutScore | None:
    """Return how likely the records of a file are, None where the model does not score whole records.

    Args:
        bundle: the release.
        data: the file, a pattern, or ``-``.
        layout: what is stated about the file's layout, in place of what the spec of the release says.

    Raises:
        SpecError: the release holds no states.
        SourceError: the data cannot be read.
    """
    model = bundle.model
    likelihood = model.held_out()
    if likelihood is None:
        return None
    analysis = analysis_of(bundle)
    if analysis.states is None:
        raise SpecError("the bundle holds no states of sequences", where="model")
    read_columns(bundle, model.columns, model.column_names, data, layout, take=likelihood.take)
    return likelihood.score(analysis.samples[:MOST_DRAWS], analysis.states)
