"""Predictions of the outcome of a record, given its group, from the posterior of a release of groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.core.columns import Column, NumericColumn
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.predicted import LEVELS, ClassProbabilities, Prediction, PredictiveLaws
from dpbayes_cli.core.predictor import Predictor
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_DRAWS, _FEWEST_DRAWS, _MOST_DRAWS = 400_000, 100, 4000
"""About this many numbers are drawn for all groups together, but at least 100 and at most 4,000 for each group."""


@dataclass(frozen=True)
class GroupPredictor(Predictor):
    """A predictor of the value of a record from the key of its group.

    Attributes:
        outcomes: the prediction for a record of each group, in the order of the keys, then of a group that is not
            listed.
        parameters: the names of the parameters of a group.
        summaries: mean, standard deviation, 5 % and 95 % quantile of each parameter of these groups, shape (n_groups +
            1, n_parameters, 4).
    """

    outcomes: Prediction
    parameters: tuple[str, ...]
    summaries: Floats

    @property
    def name(self) -> str:
        """The name of the predicted column; its role, if the spec does not name it."""
        return self.names[1] or self.columns[1].role

    def predict(self, codes: Integers) -> Prediction:
        """Return the predictions; a key that is not listed stands for a new group."""
        return self.outcomes.rows_at(codes[:, 0])

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the groups; the key of a group that is not listed is empty."""
        return (*require_type(self.columns[0], Column).levels, "")

    def header(self) -> list[str]:
        """Return the names of the cells that ``rows`` yields."""
        named = [
            form.replace("{}", name, 1) for name in self.parameters for form in ("{}", "sd[{}]", "q05[{}]", "q95[{}]")
        ]
        return [self.names[0], *named, *self.outcomes.header(self.name)]

    def rows(self) -> Iterator[list[str]]:
        """Yield the cells of each group."""
        cells = self.summaries.reshape(len(self.summaries), -1).tolist()
        for key, summary, outcome in zip(self.keys, cells, self.outcomes.rows(), strict=True):
            yield [key, *(f"{value:.6g}" for value in summary), *outcome]

    def documents(self) -> list[dict[str, Any]]:
        """Return each group as a JSON object; the key of a group that is not listed is null."""
        names = ("mean", "sd", "q05", "q95")
        summaries = [
            {name: dict(zip(names, each, strict=True)) for name, each in zip(self.parameters, group, strict=True)}
            for group in self.summaries.tolist()
        ]
        parts = zip(self.keys, summaries, self.outcomes.documents(), strict=True)
        return [{"key": key or None, "parameters": summary, **outcome} for key, summary, outcome in parts]


def group_predictor(model: Model, analysis: Analysis) -> GroupPredictor:
    """Return the predictor of a release of groups. A predicted number is not clamped to the bounds."""
    if len(model.columns) > 2:
        hint = "groups.parquet holds the posterior of each group"
        raise SpecError("groups within larger groups are not predicted", where="by.column", hint=hint)
    groups = require_type(analysis.groups, GroupedPosterior)
    new = groups.new_group
    summaries = np.stack([groups.means, groups.sds, groups.quantiles[:, :, 0], groups.quantiles[:, :, -1]], axis=2)
    quantiles = np.quantile(new, LEVELS, axis=0)
    summary = np.stack([new.mean(axis=0), new.std(axis=0), *quantiles], axis=1)
    key, value = replace(require_type(model.columns[0], Column), levels=model.group_keys), model.columns[1]
    if isinstance(value, NumericColumn):
        outcomes: Prediction = _numbers(model, analysis, groups)
    else:
        means = np.concatenate([groups.means, new.mean(axis=0, keepdims=True)])
        probabilities = means if means.shape[1] > 1 else np.concatenate([means, 1.0 - means], axis=1)
        outcomes = ClassProbabilities(probabilities / probabilities.sum(axis=1, keepdims=True), value.levels)
    return GroupPredictor(
        (key, value),
        model.column_names,
        1,
        analysis.samples,
        outcomes,
        model.group_parameters,
        np.concatenate([summaries, summary[None]]),
    )


def _numbers(model: Model, analysis: Analysis, groups: GroupedPosterior) -> PredictiveLaws:
    """Return the predictive law of a number in each group and in a new group, from draws of parameters and numbers."""
    rng = np.random.default_rng(len(groups.means))
    size = int(np.clip(_DRAWS // len(groups.means), _FEWEST_DRAWS, _MOST_DRAWS))
    common = analysis.samples.tolist()
    chosen = [common[i] for i in rng.integers(len(common), size=size)]
    table = []
    for drawn, shared in ((groups.draw(size, rng)[:, :, 0], chosen), (groups.new_group, common)):
        numbers = [
            [float(model.draw_outcomes(value, hyper, 1, rng)[0]) for value in row]
            for row, hyper in zip(drawn.tolist(), shared, strict=True)
        ]
        rows = np.array(numbers)
        table.append(np.stack([rows.mean(axis=0), rows.std(axis=0), *np.quantile(rows, LEVELS, axis=0)], axis=1))
    laws = np.concatenate(table)
    return PredictiveLaws(laws[:, 0], laws[:, 1], laws[:, 2:])
