"""Records of networks in every trial, and what each method makes of their exact counts: draws of all tables.

Exact counts stay in memory; they are read from files once a case and process.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.noisy_observation import NoisyTables, RecordCount
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import count_cells, released_values
from dpbayes_cli.experiments.file_records import POLICY, read_codes
from dpbayes_cli.experiments.point import GridPoint
from dpbayes_cli.experiments.restricted_rows import draw_restricted, least_entry, table_power
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.inference.dirichlet_rows import draw_rows
from dpbayes_cli.inference.tables.infer_tables import possible_tables
from dpbayes_cli.inference.tables.table_layout import TableLayout
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.sources.location import locate
from dpbayes_cli.spec.source_section import SourceSection
from dpbayes_cli.workflow.release_data import source_of

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
class NetworkRecords:
    """What is learned from and predicted.

    Attributes:
        n_train: the number of records to learn from.
        counts: the exact counts of all tables, shape (n_trials, n_cells).
        tests: for each trial the codes of the records to predict, shape (n_test, n_variables), without their labels.
        labels: for each trial the codes of their classes, -1 if there is none, shape (n_test,).
    """

    n_train: int
    counts: Integers
    tests: Sequence[Integers]
    labels: Sequence[Integers]


@dataclass(frozen=True)
class Posteriors:
    """What was made of the exact counts.

    Attributes:
        draws: the draws of the cells of all tables, shape (n_trials, n_draws, n_cells).
        released: the tables as they were released, or rebuilt from what was, shape (n_trials, n_cells); None if no
            tables are released, or not looked at.
        taken: the counts that are taken for the truth, the same shape; None if none are.
    """

    draws: Floats
    released: Floats | None = None
    taken: Floats | None = None


def with_stand_ins(model: DiscreteBayesNet) -> DiscreteBayesNet:
    """Return a network whose invalid cells count as the first value of their variable."""
    return replace(model, variables=tuple(replace(each, impute=each.levels[0]) for each in model.variables))


def target_of(model: DiscreteBayesNet) -> int:
    """Return the index of the variable that is predicted."""
    return require_type(model.target, int)


def simulated_records(
    model: DiscreteBayesNet, n_train: int, n_test: int, trials: int, rng: np.random.Generator
) -> NetworkRecords:
    """Draw tables and records of each trial from the prior; a trial does not depend on how many there are."""
    counts, tests, labels = [], [], []
    for _ in range(trials):
        codes = np.concatenate(list(model.draw_records(model.draw_tables(rng), n_train + n_test, rng)))
        counts.append(count_cells(model.statistic(POLICY), model.network.names, codes[:n_train]))
        test, classes = unlabelled(codes[n_train:], target_of(model))
        tests.append(test)
        labels.append(classes)
    return NetworkRecords(n_train, np.array(counts, dtype=np.int64), tests, labels)


def read_files(train: str, test: str, model: DiscreteBayesNet, trials: int) -> NetworkRecords:
    """Return the same records for every trial.

    Raises:
        SourceError: a file cannot be read.
    """
    n_train, exact, codes, classes = _read_files(train, test, model)
    return NetworkRecords(n_train, np.tile(exact, (trials, 1)), [codes] * trials, [classes] * trials)


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


def unlabelled(codes: Integers, target: int) -> tuple[Integers, Integers]:
    """Return records whose class is a missing cell, and their classes."""
    hidden = codes.copy()
    hidden[:, target] = -1
    return hidden, codes[:, target].copy()


def plan_of(mechanism: str, epsilon: str, model: DiscreteBayesNet, n_records: int | None) -> tuple[Mechanism, Plan]:
    """Return a mechanism and its calibrated plan.

    Raises:
        SpecError: no guarantee can be given.
    """
    found = mechanism_type(mechanism)()
    options = found.options_for(type(model))(epsilon=parse_decimal(epsilon))
    return found, found.plan(model, POLICY, options, n_records)


def posteriors(point: GridPoint, model: DiscreteBayesNet, records: NetworkRecords, n_draws: int) -> Posteriors:
    """Draw from the posteriors of all trials of a point."""
    rng, method = np.random.default_rng(point.inference_seed()), point["method"]
    if method == "non-private":
        return Posteriors(_conjugate_draws(model, records.counts, n_draws, rng))
    if method == "ops":
        return _sampled(point.epsilon, model, records, rng)
    observations = _released(point, model, records)
    if method in {"laplace", "fourier-laplace"}:
        return Posteriors(draw_many(observations, "noise-aware", n_draws, rng))
    released = np.array([np.concatenate([np.ravel(table.observed) for table in each.tables]) for each in observations])
    taken = np.array([np.concatenate([np.ravel(table) for table in possible_tables(each)]) for each in observations])
    return Posteriors(_conjugate_draws(model, taken, n_draws, rng), released, taken)


def _released(point: GridPoint, model: DiscreteBayesNet, records: NetworkRecords) -> list[NoisyTables]:
    """Simulate a release of each trial, and return the observations behind them: the same for both readings of it."""
    name, n = MECHANISMS[point["method"]], records.n_train
    mechanism, plan = plan_of(name, point["epsilon"], model, n)
    (step,) = plan.steps
    exact = np.array([released_values(step.statistic, model.split(row)) for row in records.counts])
    rng = np.random.default_rng(point.noise_seed(epsilon=point["epsilon"], mechanism=name))
    noisy = exact + step.noise.simulate(rng, exact.shape)
    observed = (mechanism.observation(model, POLICY, row, step.noise, n) for row in noisy.tolist())
    return [require_type(each, NoisyTables) for each in observed]


def _conjugate_draws(
    model: DiscreteBayesNet, counts: Floats | Integers, n_draws: int, rng: np.random.Generator
) -> Floats:
    """Draw from the posteriors of counts that are taken for the truth, shape (n_trials, n_draws, n_cells)."""
    blank = model.split(np.zeros(counts.shape[1]))
    exact = [model.table(i, table, DiscreteLaplace(1.0), RecordCount("unbounded", 0)) for i, table in enumerate(blank)]
    repeated = np.repeat(np.asarray(counts, dtype=np.float64), n_draws, axis=0)
    return draw_rows(repeated, TableLayout(exact), rng).reshape(len(counts), n_draws, -1)


def _sampled(epsilon: float, model: DiscreteBayesNet, records: NetworkRecords, rng: np.random.Generator) -> Posteriors:
    """Draw one set of tables a trial under a power of the likelihood, the price shared equally by the tables."""
    drawn = []
    for i, counts in enumerate(model.split(records.counts)):
        size = model.network.sizes[i]
        power = table_power(epsilon / len(model.network), size)
        shape = np.array(model.concentrations[i]) + power * counts.reshape(-1, size)
        drawn.append(draw_restricted(shape, least_entry(size), rng).reshape(len(records.counts), -1))
    return Posteriors(np.concatenate(drawn, axis=1)[:, None, :])
