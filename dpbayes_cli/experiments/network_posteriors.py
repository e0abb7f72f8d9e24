"""Records of a classification study's trials, and the posterior draws of a Bayes net's tables by each method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.noisy_observation import NoisyTables, RecordCount
from dpbayes_cli.core.plan import Step
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic_values import count_cells, released_values
from dpbayes_cli.experiments.file_records import POLICY, read_codes
from dpbayes_cli.experiments.results import GridPoint
from dpbayes_cli.experiments.study import plan_release
from dpbayes_cli.experiments.truncated_draws import draw_restricted, least_entry, row_range
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.inference.dirichlet_rows import draw_rows
from dpbayes_cli.inference.tables.infer_tables import possible_tables
from dpbayes_cli.inference.tables.table_layout import TableLayout
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace

MECHANISMS = dict.fromkeys(("laplace", "laplace-naive"), "laplace")
MECHANISMS |= dict.fromkeys(("fourier-laplace", "fourier-naive"), "fourier-laplace")
"""The mechanism whose release each method uses for inference."""


class NetworkRecords(NamedTuple):
    """The records of all trials: counts to learn from, records to predict, and the true classes of these records."""

    n_train: int
    counts: Integers  # the exact counts of all tables, shape (n_trials, n_cells)
    tests: Sequence[Integers]  # codes with a missing class, shape (n_test, n_variables)
    labels: Sequence[Integers]  # codes of the true classes, -1 for an unknown class, shape (n_test,)


class Posteriors(NamedTuple):
    """Draws from the posteriors of all trials and, for plug-in posteriors, the tables of the release."""

    draws: Floats  # draws of the probabilities in all tables, shape (n_trials, n_draws, n_cells)
    released: Floats | None = None  # the noisy tables, shape (n_trials, n_cells)
    taken: Floats | None = None  # the consistent tables that inference treats as exact, shape (n_trials, n_cells)


def simulated_records(
    model: DiscreteBayesNet, n_train: int, n_test: int, trials: int, rng: np.random.Generator
) -> NetworkRecords:
    """Simulate tables and records of each trial; a larger number of trials leaves the first ones unchanged."""
    counts, predicted = [], []
    for _ in range(trials):
        codes = np.concatenate(list(model.draw_records(model.draw_tables(rng), n_train + n_test, rng)))
        counts.append(count_cells(model.statistic(POLICY), model.network.names, codes[:n_train]))
        predicted.append(drop_labels(codes[n_train:], model))
    return NetworkRecords(n_train, np.array(counts, dtype=np.int64), *zip(*predicted, strict=True))


@lru_cache(maxsize=4)
def read_files(train: str, test: str, model: DiscreteBayesNet, trials: int) -> NetworkRecords:
    """Return the records of a training file and a test file, the same for every trial."""
    learned = read_codes(train, model.columns)
    exact = count_cells(model.statistic(POLICY), model.network.names, learned)
    columns = [replace(c, impute=None) if i == model.target else c for i, c in enumerate(model.variables)]
    codes, classes = drop_labels(read_codes(test, columns), model)
    counts = np.tile(np.array(exact, dtype=np.int64), (trials, 1))
    return NetworkRecords(len(learned), counts, [codes] * trials, [classes] * trials)


def drop_labels(codes: Integers, model: DiscreteBayesNet) -> tuple[Integers, Integers]:
    """Return the records without their classes, and the classes."""
    hidden, target = codes.copy(), require_type(model.target, int)
    hidden[:, target] = -1
    return hidden, codes[:, target].copy()


def release_step(mechanism: str, epsilon: str, model: DiscreteBayesNet, n_records: int | None) -> Step:
    """Return the step of a release of tables with noise."""
    return plan_release(mechanism, model, POLICY, n_records, epsilon=Decimal(epsilon)).steps[0]


def posteriors(point: GridPoint, model: DiscreteBayesNet, records: NetworkRecords, n_draws: int) -> Posteriors:
    """Draw from the posteriors of all trials of a point."""
    rng, method = np.random.default_rng(point.inference_seed()), point["method"]
    if method == "non-private":
        return Posteriors(conjugate_draws(model, records.counts, n_draws, rng))
    if method == "ops":
        return Posteriors(_restricted_draws(point.epsilon, model, records.counts, rng))
    observations = _released(point, model, records)
    if method in {"laplace", "fourier-laplace"}:
        return Posteriors(draw_many(observations, "noise-aware", n_draws, rng))
    released = np.array([np.concatenate([np.ravel(table.observed) for table in each.tables]) for each in observations])
    taken = np.array([np.concatenate([np.ravel(table) for table in possible_tables(each)]) for each in observations])
    return Posteriors(conjugate_draws(model, taken, n_draws, rng), released, taken)


def _released(point: GridPoint, model: DiscreteBayesNet, records: NetworkRecords) -> list[NoisyTables]:
    """Simulate a release in each trial; noise-aware and plug-in methods infer from the same release."""
    name, n = MECHANISMS[point["method"]], records.n_train
    step, mechanism = release_step(name, point["epsilon"], model, n), mechanism_type(name)()
    exact = np.array([released_values(step.statistic, model.split(row)) for row in records.counts])
    rng = np.random.default_rng(point.noise_seed(epsilon=point["epsilon"], mechanism=name))
    noisy = exact + step.noise.simulate(rng, exact.shape)
    observed = (mechanism.observation(model, POLICY, row, step.noise, n) for row in noisy.tolist())
    return [require_type(each, NoisyTables) for each in observed]


def conjugate_draws(
    model: DiscreteBayesNet, counts: Floats | Integers, n_draws: int, rng: np.random.Generator
) -> Floats:
    """Return draws from posteriors that treat the counts as exact, shape (n_trials, n_draws, n_cells)."""
    blank = model.split(np.zeros(counts.shape[1]))
    exact = [model.table(i, table, DiscreteLaplace(1.0), RecordCount("unbounded", 0)) for i, table in enumerate(blank)]
    repeated = np.repeat(np.asarray(counts, dtype=np.float64), n_draws, axis=0)
    return draw_rows(repeated, TableLayout(exact), rng).reshape(len(counts), n_draws, -1)


def table_power(epsilon: float, n_values: int) -> float:
    """Return the power of the likelihood at which one draw of a table costs epsilon.

    The probability of a record depends on one row of a table. Hence the log ratio of two records' likelihoods varies by
    at most twice the range of a log entry, however many rows there are.

    Source: Wang, Fienberg and Smola 2015; Zhang, Rubinstein and Dimitrakakis 2016, sec. 4.
    """
    return min(1.0, epsilon / (2.0 * row_range(n_values, least_entry(n_values))))


def _restricted_draws(epsilon: float, model: DiscreteBayesNet, counts: Integers, rng: np.random.Generator) -> Floats:
    """Draw all tables once per trial, each under a power of the likelihood; epsilon is split equally among them."""
    drawn = []
    for i, of_table in enumerate(model.split(counts)):
        size = model.network.sizes[i]
        power = table_power(epsilon / len(model.network), size)
        shape = np.array(model.concentrations[i]) + power * of_table.reshape(-1, size)
        drawn.append(draw_restricted(shape, least_entry(size), rng).reshape(len(counts), -1))
    return np.concatenate(drawn, axis=1)[:, None, :]
