"""What the model of a release offers for new records: a predictor of one column, or the likelihood of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.bundle.files import analysis_of, spec_of
from dpbayes_cli.core.held_out import HeldOut
from dpbayes_cli.core.predictor import Predictor
from dpbayes_cli.prediction.records import read_columns

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ReleaseDocument

MOST_DRAWS = 1000
"""Averages over so many draws of the posterior: their error is below 1.6 % of a probability's spread over it."""


def predictor(document: ReleaseDocument, target: str | None) -> Predictor:
    """Return the predictor that a bundle holds.

    Args:
        document: the release.
        target: of a network, the variable to predict; None: the one that the spec names.

    Raises:
        SpecError: the model predicts nothing, or there is no such variable, or none is named.
    """
    model = spec_of(document).build_model()
    column = model.predicted_column(target)
    return model.predictor(column, analysis_of(document).samples[:MOST_DRAWS])


def held_out(document: ReleaseDocument, data: str, layout: dict[str, Any]) -> HeldOut | None:
    """Return how likely the records of a file are, None where the model does not score whole records.

    Args:
        document: the release.
        data: the file, a pattern, or ``-``.
        layout: what is stated about the file's layout, in place of what the spec of the release says.

    Raises:
        SpecError: the release holds no states.
        SourceError: the data cannot be read.
    """
    model = spec_of(document).build_model()
    likelihood = model.held_out()
    if likelihood is None:
        return None
    analysis = analysis_of(document)
    if analysis.states is None:
        raise SpecError("the bundle holds no states of sequences", where="model")
    read_columns(document, model.columns, model.column_names, data, layout, take=likelihood.take)
    return likelihood.score(analysis.samples[:MOST_DRAWS], analysis.states)
