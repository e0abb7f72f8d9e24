"""What each method makes of the exact counts: draws from the posterior of all tables, in all trials at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.noisy_observation import NoisyTables, RecordCount
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import released_values
from dpbayes_cli.experiments.classification.cell import ClassificationCell
from dpbayes_cli.experiments.classification.records import POLICY, ClassificationRecords
from dpbayes_cli.experiments.restricted_rows import draw_restricted, least_entry, table_temperature
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.inference.dirichlet_rows import draw_rows
from dpbayes_cli.inference.tables.infer_tables import possible_tables
from dpbayes_cli.inference.tables.table_layout import TableLayout
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet

MECHANISMS = {
    "laplace": "laplace",
    "laplace-naive": "laplace",
    "fourier-laplace": "fourier-laplace",
    "fourier-naive": "fourier-laplace",
}
"""Whose release a method starts from."""


@dataclass(frozen=True)
class Posteriors:
    """What was made of the exact counts.

    Attributes:
        draws: of the cells of all tables, shape (n_trials, n_draws, n_cells).
        released: the tables as they were released, or rebuilt from what was, shape (n_trials, n_cells); None where no
            tables are released, or not looked at.
        taken: the counts that are taken for the truth, the same shape; None where none are.
    """

    draws: Floats
    released: Floats | None = None
    taken: Floats | None = None


def posteriors(cell: ClassificationCell, model: DiscreteBayesNet, records: ClassificationRecords) -> Posteriors:
    """Draw from the posteriors of all trials of a cell."""
    return _METHODS[cell.method](cell, model, records, np.random.default_rng(cell.inference_seed()))


def plan_of(cell: ClassificationCell, model: DiscreteBayesNet, n_train: int | None) -> tuple[Mechanism, Plan]:
    """Return the mechanism of a cell and its calibrated plan.

    Raises:
        SpecError: no guarantee can be given.
    """
    mechanism = mechanism_type(MECHANISMS[cell.method])()
    options = mechanism.options_for(type(model))(epsilon=parse_decimal(str(cell.epsilon)))
    return mechanism, mechanism.plan(model, POLICY, options, n_train)


def check_plans(grid: Sequence[ClassificationCell], model_of: Callable[[ClassificationCell], DiscreteBayesNet]) -> None:
    """Plan every release once, so that what cannot be priced is refused at the start.

    Raises:
        SpecError: no guarantee can be given; the place is that in the study.
    """
    seen = set()
    for cell in grid:
        key = (cell.name, cell.epsilon, MECHANISMS.get(cell.method))
        if cell.method not in MECHANISMS or key in seen:
            continue
        seen.add(key)
        try:
            plan_of(cell, model_of(cell), cell.case.n_train)
        except SpecError as error:
            message = error.message.removeprefix(f"{error.where}: ")
            raise SpecError(
                f"{message} ({key[2]}, epsilon {cell.epsilon})", where=f"cases.{cell.name}", hint=error.hint
            ) from None


def _released(cell: ClassificationCell, model: DiscreteBayesNet, records: ClassificationRecords) -> list[NoisyTables]:
    """Simulate a release of each trial, and return the observations behind them."""
    mechanism, plan = plan_of(cell, model, records.n_train)
    (step,) = plan.steps
    exact = np.array([released_values(step.statistic, model.split(row)) for row in records.counts])
    rng = np.random.default_rng(cell.noise_seed(MECHANISMS[cell.method]))
    noisy = exact + step.noise.simulate(rng, exact.shape)
    return [
        require_type(mechanism.observation(model, POLICY, row, step.noise, records.n_train), NoisyTables)
        for row in noisy.tolist()
    ]


def conjugate_draws(
    model: DiscreteBayesNet, counts: Floats | Integers, n_draws: int, rng: np.random.Generator
) -> Floats:
    """Draw from the posteriors of counts that are taken for the truth, shape (n_trials, n_draws, n_cells)."""
    blank = model.split(np.zeros(counts.shape[1]))
    exact = [model.table(i, table, DiscreteLaplace(1.0), RecordCount("unbounded", 0)) for i, table in enumerate(blank)]
    repeated = np.repeat(np.asarray(counts, dtype=np.float64), n_draws, axis=0)
    return draw_rows(repeated, TableLayout(exact), rng).reshape(len(counts), n_draws, -1)


def _known(
    cell: ClassificationCell, model: DiscreteBayesNet, records: ClassificationRecords, rng: np.random.Generator
) -> Posteriors:
    """Take the exact counts."""
    return Posteriors(conjugate_draws(model, records.counts, cell.draws, rng))


def _aware(
    cell: ClassificationCell, model: DiscreteBayesNet, records: ClassificationRecords, rng: np.random.Generator
) -> Posteriors:
    """Infer from what was released, knowing its noise."""
    return Posteriors(draw_many(_released(cell, model, records), "noise-aware", cell.draws, rng))


def _naive(
    cell: ClassificationCell, model: DiscreteBayesNet, records: ClassificationRecords, rng: np.random.Generator
) -> Posteriors:
    """Take the nearest possible counts for the truth: each table's own, or those that agree where tables can."""
    observations = _released(cell, model, records)
    released = np.array([np.concatenate([np.ravel(table.observed) for table in each.tables]) for each in observations])
    taken = np.array([np.concatenate([np.ravel(table) for table in possible_tables(each)]) for each in observations])
    return Posteriors(conjugate_draws(model, taken, cell.draws, rng), released, taken)


def _drawn(
    cell: ClassificationCell, model: DiscreteBayesNet, records: ClassificationRecords, rng: np.random.Generator
) -> Posteriors:
    """Draw one set of tables a trial from the truncated, tempered posterior, the price shared equally by the tables."""
    each = float(str(cell.epsilon)) / len(model.network)
    drawn = []
    for i, counts in enumerate(model.split(records.counts)):
        size = model.network.sizes[i]
        shape = np.array(model.concentrations[i]) + table_temperature(each, size) * counts.reshape(-1, size)
        drawn.append(draw_restricted(shape, least_entry(size), rng).reshape(len(records.counts), -1))
    return Posteriors(np.concatenate(drawn, axis=1)[:, None, :])


_METHODS: dict[
    str, Callable[[ClassificationCell, DiscreteBayesNet, ClassificationRecords, np.random.Generator], Posteriors]
] = {
    "non-private": _known,
    "laplace": _aware,
    "laplace-naive": _naive,
    "fourier-laplace": _aware,
    "fourier-naive": _naive,
    "ops": _drawn,
}
