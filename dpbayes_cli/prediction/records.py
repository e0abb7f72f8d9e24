"""Predict new records from a release: build its predictor or its likelihood, and read the records of a file for it.

Features are read as in the release, but targets as they are in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.read import Bundle, analysis_of
from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy
from dpbayes_cli.core.held_out import HeldOutScore
from dpbayes_cli.core.predicted import Prediction
from dpbayes_cli.core.predictor import Predictor, fixed_target
from dpbayes_cli.sources.code_readers import CodeReader
from dpbayes_cli.sources.location import Location, locate
from dpbayes_cli.spec.release_spec import convert_layout
from dpbayes_cli.workflow.release_data import source_of

MAX_DRAWS = 1000
"""Predictions use at most this many draws; then the standard error of a predicted probability is below 1.6 %."""


def predictor(bundle: Bundle, target: str | None, analysis: Analysis | None = None) -> Predictor:
    """Return the predictor of a bundle; raise ``SpecError`` if there is none.

    Args:
        target: the variable of a network to predict; None for the target that the spec names.
        analysis: a posterior of the release under another prior; None for the posterior in the bundle.
    """
    if bundle.spec.by is not None:
        from dpbayes_cli.prediction.group_predictions import group_predictor

        fixed_target(bundle.model.name, bundle.model.column_names, 1, target)
        return group_predictor(bundle.model, analysis or analysis_of(bundle))
    column = bundle.model.predicted_column(target)
    return bundle.model.predictor(column, (analysis or analysis_of(bundle)).samples[:MAX_DRAWS])


@dataclass(frozen=True)
class NewRecords:
    """New records for a release."""

    bundle: Bundle
    data: str | Location  # a path, a glob, ``-`` for standard input, or the address of a table
    layout: dict[str, Any]  # the layout of the file; empty: the layout in the spec of the release

    def read_codes(self, predictor: Predictor, take: Callable[[Integers], None]) -> None:
        """Read the records, and call ``take`` with blocks of codes, shape (n_records, n_columns).

        An invalid cell gets the release's stand-in value if there is one, otherwise the code -1. The target's column
        is not read: its codes are -1.
        """
        chosen = [i for i in range(len(predictor.columns)) if i != predictor.target]

        def place(codes: Integers) -> None:
            whole = np.full((len(codes), len(predictor.columns)), -1, dtype=np.int64)
            whole[:, chosen] = codes
            take(whole)

        columns = [self._as_released(predictor.columns[i]) for i in chosen]
        self._read(CodeReader(columns, self._policy, place), [predictor.names[i] for i in chosen])

    def predictions(self, predictor: Predictor) -> Prediction:
        """Return the predictions of all records together."""
        blocks: list[Prediction] = []
        self.read_codes(predictor, lambda codes: blocks.append(predictor.predict(codes)))
        return predictor.predict(np.empty((0, len(predictor.columns)), dtype=np.int64)).joined(blocks)

    def read_labeled(self, predictor: Predictor, take: Callable[[Integers, Integers | Floats], None]) -> None:
        """Read the records, and call ``take`` with blocks of codes and targets, shape (n_records,); see ``read_codes``.

        Targets are read as they are: there is no stand-in for an invalid target, and a number is neither clamped to
        its bounds nor rounded. Targets are codes of classes, with -1 for an invalid class, or numbers, with NaN for an
        invalid number.
        """
        columns = [self._as_released(column) for column in predictor.columns]
        columns[predictor.target] = target = replace(columns[predictor.target], impute=None)
        if isinstance(target, NumericColumn):
            reader = CodeReader(columns, self._policy, take, number=predictor.target)
        else:
            reader = CodeReader(columns, self._policy, lambda codes: take(codes, codes[:, predictor.target]))
        self._read(reader, predictor.names)

    def likelihood(self) -> HeldOutScore | None:
        """Return the likelihood of the records; None if the model has no such score. Invalid cells get the code -1.

        A bundle without a posterior of hidden states is a ``SpecError``.
        """
        model = self.bundle.model
        likelihood = model.held_out()
        if likelihood is None:
            return None
        analysis = analysis_of(self.bundle)
        if analysis.states is None:
            raise SpecError("the bundle has no posterior of hidden states", where="model")
        columns = [replace(column, impute=None) for column in model.columns]
        self._read(CodeReader(columns, self._policy, likelihood.take), model.column_names)
        return likelihood.score(analysis.samples[:MAX_DRAWS], analysis.states)

    @property
    def _policy(self) -> RecordPolicy:
        return RecordPolicy(self.bundle.spec.policy.neighbors)

    def _as_released(self, column: AnyColumn) -> AnyColumn:
        return replace(column, impute=column.impute or self.bundle.spec.policy.impute)

    def _read(self, reader: CodeReader, names: Sequence[str]) -> None:
        section = convert_layout(self.layout) if self.layout else self.bundle.spec.source
        location = self.data if isinstance(self.data, Location) else locate(self.data)
        with closing(source_of(section, location)) as source:  # no privacy unit is passed, so that all records are read
            source.check(reader.columns, names)
            source.read(reader)
