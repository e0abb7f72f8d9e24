"""Records of the trials of a classification study, and each method's posterior draws of a Bayes net's tables."""

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
from dpbayes_cli.experiments.restricted_rows import draw_restricted, least_entry, table_power
from dpbayes_cli.experiments.results import GridPoint
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
"""For each method, the mechanism from whose release it infers."""


@dataclass(frozen=True)
class NetworkRecords:
    """The records of all trials.

    Attributes:
        n_train: the number of records to learn from.
        counts: the exact counts of all tables, shape (n_trials, n_cells).
        tests: for each trial, the codes of the records to predict, with a missing class, shape (n_test, n_variables).
        labels: for each trial, the codes of the true classes, -1 for an unknown class, shape (n_test,).
    """

    n_train: int
    counts: Integers
    tests: Sequence[Integers]
    labels: Sequence[Integers]


@dataclass(frozen=True)
class Posteriors:
    """Draws from the posteriors of all trials, and the tables from which plug-in posteriors are computed.

    Attributes:
        draws: draws of the probabilities in all tables, shape (n_trials, n_draws, n_cells).
        released: for plug-in posteriors, the noisy tables, shape (n_trials, n_cells); otherwise None.
        taken: for plug-in posteriors, the consistent tables that are taken for exact, of this shape; otherwise None.
    """

    draws: Floats
    released: Floats | None = None
    taken: Floats | None = None


def with_stand_ins(model: DiscreteBayesNet) -> DiscreteBayesNet:
    """Return the Bayes net with the first value of each variable as the stand-in for its invalid cells."""
    return replace(model, variables=tuple(replace(each, impute=each.levels[0]) for each in model.variables))


def simulated_records(
    model: DiscreteBayesNet, n_train: int, n_test: int, trials: int, rng: np.random.Generator
) -> NetworkRecords:
    """Simulate tables and records of each trial; a larger number of trials leaves the first ones unchanged."""
    counts, tests, labels = [], [], []
    for _ in range(trials):
        codes = np.concatenate(list(model.draw_records(model.draw_tables(rng), n_train + n_test, rng)))
        counts.append(count_cells(model.statistic(POLICY), model.network.names, codes[:n_train]))
        test, classes = unlabelled(codes[n_train:], model)
        tests.append(test)
        labels.append(classes)
    return NetworkRecords(n_train, np.array(counts, dtype=np.int64), tests, labels)


def read_files(train: str, test: str, model: DiscreteBayesNet, trials: int) -> NetworkRecords:
    """Return the records of a training file and a test file, the same for every trial.

    Raises:
        SourceError: a file cannot be read.
    """
    n_train, exact, codes, classes = _read_files(train, test, model)
    return NetworkRecords(n_train, np.tile(exact, (trials, 1)), [codes] * trials, [classes] * trials)


@lru_cache(maxsize=4)
def _read_files(train: str, test: str, model: DiscreteBayesNet) -> tuple[int, Integers, Integers, Integers]:
    with closing(source_of(SourceSection(), locate(train))) as source:
        source.check(model.columns, model.column_names)
        evidence = source.statistics(model.statistic(POLICY), POLICY)
    columns = [replace(c, impute=None) if i == model.target else c for i, c in enumerate(model.variables)]
    codes = read_codes(test, columns)
    return evidence.n_records, np.array(evidence.values, dtype=np.int64), *unlabelled(codes, model)


def unlabelled(codes: Integers, model: DiscreteBayesNet) -> tuple[Integers, Integers]:
    """Return the records with a missing class, and their true classes."""
    hidden, target = codes.copy(), require_type(model.target, int)
    hidden[:, target] = -1
    return hidden, codes[:, target].copy()


def plan_of(mechanism: str, epsilon: str, model: DiscreteBayesNet, n_records: int | None) -> tuple[Mechanism, Plan]:
    """Return a mechanism and its plan, calibrated to epsilon.

    Raises:
        SpecError: the mechanism cannot give this guarantee.
    """
    planned = mechanism_type(mechanism)()
    options = planned.options_for(type(model))(epsilon=parse_decimal(epsilon))
    return planned, planned.plan(model, POLICY, options, n_records)


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
    """Simulate a release in each trial; noise-aware and plug-in methods infer from the same release."""
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
    """Return draws from posteriors that take the counts for exact, shape (n_trials, n_draws, n_cells)."""
    blank = model.split(np.zeros(counts.shape[1]))
    exact = [model.table(i, table, DiscreteLaplace(1.0), RecordCount("unbounded", 0)) for i, table in enumerate(blank)]
    repeated = np.repeat(np.asarray(counts, dtype=np.float64), n_draws, axis=0)
    return draw_rows(repeated, TableLayout(exact), rng).reshape(len(counts), n_draws, -1)


def _sampled(epsilon: float, model: DiscreteBayesNet, records: NetworkRecords, rng: np.random.Generator) -> Posteriors:
    """Draw all tables once per trial, each under a power of the likelihood; epsilon is split equally among them."""
    drawn = []
    for i, counts in enumerate(model.split(records.counts)):
        size = model.network.sizes[i]
        power = table_power(epsilon / len(model.network), size)
        shape = np.array(model.concentrations[i]) + power * counts.reshape(-1, size)
        drawn.append(draw_restricted(shape, least_entry(size), rng).reshape(len(records.counts), -1))
    return Posteriors(np.concatenate(drawn, axis=1)[:, None, :])
