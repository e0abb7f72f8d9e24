"""The records of a case as counts, and what is held out of them in each trial."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from dpbayes_cli.base.canonical import canonical_json
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.statistic import count_cells
from dpbayes_cli.experiments.file_records import read_codes
from dpbayes_cli.experiments.hmm.cell import HmmCell
from dpbayes_cli.experiments.hmm.study import HmmCase, model_of
from dpbayes_cli.privacy.neighbors import Neighbors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Integers

POLICY = RecordPolicy(Neighbors.REPLACE_ONE)
"""Every column has a stand-in, so that records are complete and their number is public."""


@dataclass(frozen=True)
class HmmTrial:
    """What one trial learns from and predicts.

    Attributes:
        train: for each feature the counts, shape (n_sequences, n_steps, n_values): none where a cell is held out.
        held: which cells are held out, shape (n_sequences, n_steps).
        test: for each feature the counts of the cells that are held out, shape (n_held, n_values), in their order.
    """

    train: tuple[Integers, ...]
    held: NDArray[np.bool_]
    test: tuple[Integers, ...]

    @property
    def n_train(self) -> int:
        """The number of records to learn from."""
        return int(self.train[0].sum())

    @property
    def n_test(self) -> int:
        """The number of records that are predicted."""
        return int(self.test[0].sum())


def trials_of(cell: HmmCell) -> list[HmmTrial]:
    """Return the trials of a cell; more begin with the same.

    Raises:
        SpecError: what is held out leaves nothing to learn from, or nothing to predict.
        SourceError: the file cannot be read.
    """
    counts = _counts(canonical_json(msgspec.to_builtins(cell.case)))
    shape = counts[0].shape[:2]
    n = round(cell.held_out * shape[0] * shape[1])
    found = []
    for seed in cell.data_seed().spawn(cell.trials):
        held = np.zeros(shape, dtype=bool)
        held.ravel()[np.random.default_rng(seed).permutation(held.size)[:n]] = True
        train = tuple(np.where(held[:, :, None], 0, each) for each in counts)
        found.append(HmmTrial(train, held, tuple(each[held] for each in counts)))
    if any(not trial.n_train or not trial.n_test for trial in found):
        raise SpecError("nothing to learn from, or nothing to predict", where=f"cases.{cell.name}")
    return found


@lru_cache(maxsize=4)
def _counts(key: bytes) -> tuple[Integers, ...]:
    """Return the counts of a case's file, feature by feature, shape (n_sequences, n_steps, n_values)."""
    case = msgspec.convert(msgspec.json.decode(key), HmmCase)
    model = model_of(case, 1)
    codes = read_codes(case.records, model.columns, POLICY)
    flat = np.array(count_cells(model.statistic(POLICY), model.column_names, codes), dtype=np.int64)
    sizes = [model.shape[0] * model.shape[1] * size for size in model.sizes]
    parts = np.split(flat, np.cumsum(sizes)[:-1])
    return tuple(part.reshape(*model.shape, -1) for part in parts)
