"""The rows of a case as the paper makes them, to learn from and to predict, in every trial.

Exact records stay in memory; they are read from files once a case and process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np

from dpbayes_cli.base.canonical import canonical_json
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import Column, NumericColumn
from dpbayes_cli.core.design import Design
from dpbayes_cli.core.losses import LogisticLoss
from dpbayes_cli.core.registry import model_type
from dpbayes_cli.experiments.file_records import read_codes
from dpbayes_cli.experiments.logistic_regression.study import LogisticCase
from dpbayes_cli.experiments.logistic_regression.temperatures import POLICY

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.models.families.convex_loss import ConvexLossModel


@dataclass(frozen=True)
class UnitRows(Design):
    """Rows of norm one: all entries are scaled to [-0.5, 0.5], then a row is divided by its norm.

    Privacy: a map of one record at a time, whose rows have norm one whatever the record.
    Source: Geumlek, Song and Chaudhuri 2017, sec. 5.2.
    """

    intercept: bool = False

    @property
    def row_norm(self) -> float:
        """One."""
        return 1.0

    @property
    def entries_per_row(self) -> int:
        """All: an indicator that is off is -0.5."""
        return self.width

    @property
    def dense(self) -> bool:
        """Rows are dense."""
        return True

    def rows(self, codes: Integers, n_records: int | None = None) -> Floats:
        """Return the rows of valid records, shape (n, width); see ``Design.rows``."""
        whole = np.full((len(codes), self.width), -0.5)
        first = 0
        for i, feature in enumerate(self.features):
            if isinstance(feature.column, NumericColumn):
                whole[:, first] = feature.scaled(codes[:, i]) / 2.0
                first += 1
            else:
                whole[np.arange(len(codes)), first + codes[:, i]] = 0.5
                first += len(feature.column.levels)
        lengths = np.sqrt(np.square(whole).sum(axis=1, keepdims=True))
        return np.asarray(whole / np.maximum(lengths, 1e-300))


@dataclass(frozen=True)
class LogisticRecords:
    """What is learned from and predicted.

    Attributes:
        x, y: rows and classes to learn from, shapes (n_sets, n, width) and (n_sets, n); one set for all trials where
            the file is given, otherwise one a trial.
        test_x, test_y: rows and classes to predict, in the same way.
    """

    x: Floats
    y: Floats
    test_x: Floats
    test_y: Floats


def model_of(case: LogisticCase, n_records: int) -> ConvexLossModel:
    """Return the model of a case: rows of norm one, prior precision n beta."""
    features = tuple(part.feature(name) for name, part in sorted(case.features.items()))
    classes = Column(case.target.column, case.target.target().levels, case.target.impute)
    kind = cast("type[ConvexLossModel]", model_type("logistic-regression"))
    return kind(UnitRows(features), classes, LogisticLoss(), n_records * case.beta)


def n_train_of(case: LogisticCase) -> int:
    """Return the number of records that are learned from.

    Raises:
        SourceError: the file cannot be read.
        SpecError: it does not hold so many, and one to predict.
    """
    n = len(_coded(_key(case), case.train)[0])
    if case.n_train is None:
        return n
    if case.n_train >= n:
        raise SpecError(f"{case.n_train} of {n} records leave none to predict", where="n_train")
    return case.n_train


def records_of(case: LogisticCase, seed: np.random.SeedSequence, trials: int) -> LogisticRecords:
    """Return the records of all trials of a case.

    Args:
        case: the case.
        seed: of the splits; more trials begin with the same.
        trials: how many.

    Raises:
        SourceError: a file cannot be read.
    """
    key = _key(case)
    x, y = _coded(key, case.train)
    if case.test is not None:
        test_x, test_y = _coded(key, case.test)
        return LogisticRecords(x[None], y[None], test_x[None], test_y[None])
    orders = np.array([np.random.default_rng(child).permutation(len(y)) for child in seed.spawn(trials)])
    train, test = orders[:, : case.n_train], orders[:, case.n_train :]
    return LogisticRecords(x[train], y[train], x[test], y[test])


def _key(case: LogisticCase) -> bytes:
    """Return what decides how records are coded: what hashes, of a case that does not."""
    stated: dict[str, Any] = msgspec.to_builtins(case)
    return canonical_json({"features": stated["features"], "target": stated["target"], "beta": case.beta})


@lru_cache(maxsize=4)
def _coded(key: bytes, path: str) -> tuple[Floats, Floats]:
    """Return the rows and classes of a file."""
    stated = {**msgspec.json.decode(key), "train": path, "test": path}
    case = msgspec.convert(stated, LogisticCase)
    model = model_of(case, 1)
    columns = [*(feature.column for feature in model.design.features), case.target.target()]
    codes = read_codes(path, columns, POLICY)
    return model.design.rows(codes[:, :-1]), codes[:, -1].astype(np.float64)
