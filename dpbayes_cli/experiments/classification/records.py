"""The records of a case: the counts to learn from, and the coded records to predict, one set a trial.

Exact counts stay in memory; they are read from files once a case and process.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import count_cells
from dpbayes_cli.experiments.classification.cell import ClassificationCell
from dpbayes_cli.experiments.classification.study import network_of
from dpbayes_cli.experiments.file_records import read_codes
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import locate
from dpbayes_cli.spec.source_section import SourceSection
from dpbayes_cli.workflow.release_data import source_of

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers
    from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet

POLICY = RecordPolicy(Neighbors.REPLACE_ONE)
"""Every variable has a stand-in, so that records are complete and their number is public."""


@dataclass(frozen=True)
class ClassificationRecords:
    """What is learned from and predicted.

    Attributes:
        n_train: the number of records to learn from.
        counts: the exact counts of all tables, shape (n_trials, n_cells).
        tests: for each trial the codes of the records to predict, shape (n_test, n_variables), without their labels.
        labels: for each trial the codes of their classes, -1 where there is none, shape (n_test,).
    """

    n_train: int
    counts: Integers
    tests: Sequence[Integers]
    labels: Sequence[Integers]


def model_of(cell: ClassificationCell) -> DiscreteBayesNet:
    """Return the network of a cell; simulated records have no invalid cell, and any value may stand for one."""
    model = network_of(cell.case)
    if cell.case.train is not None:
        return model
    return replace(model, variables=tuple(replace(column, impute=column.levels[0]) for column in model.variables))


def target_of(model: DiscreteBayesNet) -> int:
    """Return the index of the variable that is predicted."""
    return require_type(model.target, int)


def records_of(cell: ClassificationCell, model: DiscreteBayesNet) -> ClassificationRecords:
    """Return the records of all trials of a cell.

    Raises:
        SourceError: a file cannot be read.
    """
    if cell.case.train is not None and cell.case.test is not None:
        n_train, exact, test, classes = _read_files(cell.case.train, cell.case.test, model)
        return ClassificationRecords(
            n_train, np.tile(exact, (cell.trials, 1)), [test] * cell.trials, [classes] * cell.trials
        )
    rng = np.random.default_rng(cell.data_seed())
    drawn = [_simulated(cell, model, rng) for _ in range(cell.trials)]
    counts, tests, labels = zip(*drawn, strict=True)
    return ClassificationRecords(require_type(cell.case.n_train, int), np.array(counts, dtype=np.int64), tests, labels)


def _simulated(
    cell: ClassificationCell, model: DiscreteBayesNet, rng: np.random.Generator
) -> tuple[tuple[int, ...], Integers, Integers]:
    """Draw tables from the prior, and records from them."""
    n_train, n_test = require_type(cell.case.n_train, int), require_type(cell.case.n_test, int)
    blocks = list(model.draw_records(model.draw_tables(rng), n_train + n_test, rng))
    codes = np.concatenate(blocks)
    train, test = codes[:n_train], codes[n_train:]
    return counts_of(model, train), *unlabelled(test, target_of(model))


def counts_of(model: DiscreteBayesNet, codes: Integers) -> tuple[int, ...]:
    """Return the exact counts of all tables of coded records, in the order of the network's variables."""
    return count_cells(model.statistic(POLICY), model.network.names, codes)


def unlabelled(codes: Integers, target: int) -> tuple[Integers, Integers]:
    """Return records whose class is a missing cell, and their classes."""
    hidden = codes.copy()
    hidden[:, target] = -1
    return hidden, codes[:, target].copy()


@lru_cache(maxsize=4)
def _read_files(train: str, test: str, model: DiscreteBayesNet) -> tuple[int, Integers, Integers, Integers]:
    """Return the number of records to learn from, their counts, the records to predict and their classes."""
    with closing(source_of(SourceSection(), locate(train))) as source:
        source.check(model.columns, model.column_names)
        evidence = source.statistics(model.statistic(POLICY), POLICY)
    target = target_of(model)
    columns = [replace(c, impute=None) if i == target else c for i, c in enumerate(model.variables)]
    codes = read_codes(test, columns, POLICY)
    return evidence.n_records, np.array(evidence.values, dtype=np.int64), *unlabelled(codes, target)
