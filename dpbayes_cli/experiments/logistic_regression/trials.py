"""Draw the coefficients in every trial of a cell, and predict records that were not learned from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.design import DesignMatrix, DesignRows
from dpbayes_cli.core.langevin import Langevin
from dpbayes_cli.core.losses import LogisticLoss
from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.logistic_regression.cell import LogisticCell
from dpbayes_cli.experiments.logistic_regression.exact_draws import LogisticPosterior, draw_posterior
from dpbayes_cli.experiments.logistic_regression.records import LogisticRecords, model_of, records_of
from dpbayes_cli.experiments.means import standard_error

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_WATCHED_CHAINS = 4
"""Of each trial with records of its own: the first is its draw, the others tell whether it has converged."""
_GRID = 2.0**-40


class FromTheEnd:
    """Standard normal numbers of a chain, the same for chains of different lengths from their ends backwards.

    So two chains with nearly the same step end nearly in the same place, and their difference is that of their laws.

    Args:
        rng: the generator.
        steps: how many steps the chain has.
    """

    def __init__(self, rng: np.random.Generator, steps: int) -> None:
        self._rng, self._left, self._drawn = rng, steps, np.zeros(0)

    def __call__(self, shape: tuple[int, ...]) -> Floats:
        """Return the numbers of the next step."""
        if not self._drawn.size:
            self._drawn = self._rng.standard_normal((self._left, *shape))
        self._left -= 1
        return np.asarray(self._drawn[self._left])


def run_trials(cell: LogisticCell) -> CellOutcome:
    """Run all trials of a cell; equal cells give equal numbers, in any process.

    Raises:
        SourceError: a file cannot be read.
    """
    records = records_of(cell.case, cell.data_seed(), cell.trials)
    measures: dict[str, float | None] = dict.fromkeys(("acceptance", "r_hat"))
    if cell.law.steps is None:
        law = LogisticPosterior(records.x, records.y, cell.law.rho, cell.law.tau, cell.law.radius)
        shared = len(records.x) == 1
        rng = np.random.default_rng(cell.noise_seed())
        drawn = draw_posterior(law, cell.trials if shared else _WATCHED_CHAINS, cell.metropolis_steps, rng)
        draws = drawn.draws if shared else drawn.draws[:, :, :1]
        measures.update(acceptance=drawn.acceptance, r_hat=drawn.r_hat)
    else:
        draws = _released(cell, records)
    t = records.test_x @ draws
    y = records.test_y[:, :, None]
    trials = {
        "error": ((t > 0.0) != (y > 0.5)).mean(axis=1).ravel(),
        "nll": LogisticLoss().value(t, y).mean(axis=1).ravel(),
        "commonest": np.broadcast_to(_commonest(records), cell.trials),
    }
    for name, values in trials.items():
        measures[name], measures[f"{name}_se"] = float(values.mean()), standard_error(values)
    return CellOutcome(measures, trials)


def _commonest(records: LogisticRecords) -> Floats:
    """Return how often the commonest class of the records learned from is wrong, one a set."""
    majority = records.y.mean(axis=1, keepdims=True) > 0.5
    return np.asarray(((records.test_y > 0.5) != majority).mean(axis=1))


def _released(cell: LogisticCell, records: LogisticRecords) -> Floats:
    """Run the chain that a release would run, with a seeded generator; shape (n_sets, width, n_draws)."""
    model, law = model_of(cell.case, cell.n_train), cell.law
    if law.step is None or law.steps is None:
        raise ValueError("the law has no chain")
    chain = Langevin(model.loss, model.design.width, law.rho, law.tau, law.step, law.steps, _GRID, cell.n_train, 1.0)
    sets = len(records.x)
    seeds = cell.noise_seed().spawn(sets)
    found = []
    for x, y, seed in zip(records.x, records.y, seeds, strict=True):
        matrix = DesignMatrix(DesignRows(model.design, model.target), len(y), len(y), [(x, y)])
        normals = FromTheEnd(np.random.default_rng(seed), law.steps)
        found.append(chain.draw(matrix, cell.trials if sets == 1 else 1, normals).T)
    return np.array(found)
