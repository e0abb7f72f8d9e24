"""Discrete Bayesian networks: the statistic, the conjugate family and the noisy observation of their tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.core.columns import Column, CutColumn, RecordPolicy, cell_of, has_stand_in
from dpbayes_cli.core.findings import Findings, other_columns, share_of
from dpbayes_cli.core.joint_law import JointLaw
from dpbayes_cli.core.model_sections import NetworkTables
from dpbayes_cli.core.noisy_observation import NoisyTable, NoisyTables, RecordCount, SharedColumn, record_count
from dpbayes_cli.core.predicted import ClassProbabilities
from dpbayes_cli.core.predictor import Predictor
from dpbayes_cli.core.statistic import Part, Statistic, TableCounts, Witness
from dpbayes_cli.core.statistic_values import count_cells
from dpbayes_cli.models.families.beta_probability import beta_quantiles
from dpbayes_cli.models.families.capabilities import ConjugatePosterior, Simulated
from dpbayes_cli.models.families.network_domain import VariableSection, check_variables, concentrations_by_variable
from dpbayes_cli.privacy.conjugate import NetworkFamily
from dpbayes_cli.privacy.dag import Network, cell_names
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.models.families.network_margins import MarginEstimates

_BLOCK = 1 << 17


@dataclass(frozen=True)
class DiscreteBayesNet(ConjugatePosterior):
    """Networks of discrete variables with a Dirichlet prior on each row of each table.

    Attributes:
        concentrations: for each variable the prior concentrations of its values, which apply to all rows of its table.
        weights: for each variable the weight of its table; tables share the noise budget in proportion to weights.
        target: the index of the variable to predict, or None.
    """

    network: Network
    variables: tuple[Column | CutColumn, ...]
    concentrations: tuple[tuple[float, ...], ...]
    weights: tuple[Fraction, ...]
    target: int | None

    @classmethod
    def of_variables(
        cls,
        variables: Mapping[str, VariableSection],
        parents: Sequence[Sequence[str]],
        target: str | None,
        concentrations: Any,
    ) -> Self:
        """Build the model from the variables of a spec, in their order, and the prior concentrations.

        Raises:
            ValueError: the variables do not form a network.
            SpecError: the prior names an unknown variable or value, or leaves one out.
        """
        network = check_variables(variables, parents, target)
        return cls(
            network,
            tuple(variable.column(name) for name, variable in variables.items()),
            concentrations_by_variable(concentrations, network),
            tuple(Fraction(repr(variable.weight)) for variable in variables.values()),
            None if target is None else network.names.index(target),
        )

    @property
    def columns(self) -> tuple[Column | CutColumn, ...]:
        return self.variables

    @property
    def column_names(self) -> tuple[str, ...]:
        return self.network.names

    @property
    def parameters(self) -> tuple[str, ...]:
        """One parameter for each cell, ``theta[child=value|parent=value]``."""
        return cell_names(self.network, "theta")

    @property
    def tables(self) -> NetworkTables:
        """The section of the posterior that arranges the parameters in tables."""
        return NetworkTables(self.network, self.target)

    def sections(self) -> tuple[NetworkTables]:
        return (self.tables,)

    @property
    def compared(self) -> tuple[int, ...]:
        """The indices of the parameters that simulations compare: the first parameter of each row of a table."""
        return self.tables.row_heads

    def predicted_column(self, requested: str | None) -> int:
        """Return the index of the requested variable; by default, of the target in the spec."""
        names = self.network.names
        if requested is None:
            if self.target is None:
                raise SpecError("the variable to predict is not stated", where="target", hint="--target NAME")
            return self.target
        if requested not in names:
            raise SpecError(f"there is no variable {requested!r}", where="target", hint=nearest(requested, names))
        return names.index(requested)

    def predictor(self, column: int, draws: Floats) -> NetworkPredictor:
        return NetworkPredictor(self.columns, self.column_names, column, draws, self.network)

    def joint_law(self, column: str, draws: Floats, states: Integers | None) -> JointLaw:
        return JointLaw(self.network, self.variables, tuple(self.split(draws)))

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the probabilities of the values of the target; nothing if the target has parents."""
        if self.target is None or self.network.parents[self.target]:
            return {}
        first = sum(self.network.n_cells[: self.target])
        levels = self.network.levels[self.target]
        return {level: mean[first + k] for k, level in enumerate(levels)}

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        """Return the share of the most frequent value of the target.

        If there is no target, or if it has parents, a variable without parents takes its place.
        """
        network, parents = self.network, self.network.parents
        root = self.target if self.target is not None and not parents[self.target] else parents.index(())
        values = network.levels[root]
        value = max(range(len(values)), key=lambda k: estimates[sum(network.n_cells[:root]) + k])
        share = share_of(network.names[root], values[value], sum(network.n_cells[:root]) + value)
        about = network.names[root if self.target is None else self.target]
        return Findings(
            (share,), f"this release estimates how {about} and {other_columns(len(network) - 1)} depend on each other"
        )

    def prior_quantiles(self, levels: Floats) -> Floats:
        first, second = [], []
        for i, concentrations in enumerate(self.concentrations):
            total, rows = sum(concentrations), math.prod(self.network.shape(i)[:-1])
            first += list(concentrations) * rows
            second += [total - c for c in concentrations] * rows
        return beta_quantiles(first, second, levels)

    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the counts of every cell of every table.

        Privacy: see ``table_statistic``: the L1 sensitivity of |I| tables is 2 |I| under replace-one, |I| under
            add-remove.
        Source: Zhang, Rubinstein and Dimitrakakis 2016, Alg. 1; the rest is derived here.
        """
        return table_statistic(self.network, self.variables, self.weights, policy)

    def observation(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisyTables:
        """Return the noisy tables, each with the estimates of its row totals from the other tables.

        The estimates use only tables from which no record is dropped, because these tables count the same records. In a
        tree all of whose tables count the same, public number of records, variables with children are shared columns.
        """
        import numpy as np

        from dpbayes_cli.models.families.network_margins import MarginEstimates

        counts = self.split(np.asarray(released, dtype=np.float64))
        total = record_count(policy, n_records)
        complete = [has_stand_in(policy, column) for column in self.variables]
        firsts = list(itertools.accumulate(self.network.n_cells[:-1], initial=0))
        laws = [noise.at(first) for first in firsts]
        margins = MarginEstimates(self.network, counts, [law.variance for law in laws], complete)
        tables = []
        for i, count in enumerate(counts):
            whole = all(complete[j] for j in self.network.families[i])
            known = RecordCount("known", total.n) if whole and total.kind != "unbounded" else total
            margin, variance = margins.for_table(i) if whole else (None, None)
            tables.append(self.table(i, count, laws[i], known, margin, variance))
        is_tree = self.has_private_trees and all(len(parents) < 2 for parents in self.network.parents)
        is_public = total.kind != "unbounded" and all(complete)
        shared = self._shared_columns(margins, RecordCount("known", total.n)) if is_tree and is_public else ()
        return NoisyTables(tuple(tables), shared=shared)

    def _shared_columns(self, margins: MarginEstimates, total: RecordCount) -> tuple[SharedColumn, ...]:
        import numpy as np

        shared = []
        for i in sorted({parent for parents in self.network.parents for parent in parents}):
            observed, variance = margins.totals_of(i)
            prior, noise = np.array([self.concentrations[i]]), DiscreteGaussian(math.sqrt(variance))
            totals = NoisyTable(prior, prior.sum(axis=1), observed[None], noise, total)
            shared.append(SharedColumn(i, next(iter(self.network.parents[i]), None), totals))
        return tuple(shared)

    def table(
        self,
        i: int,
        observed: Floats,
        noise: NoiseLaw,
        total: RecordCount,
        margin: Floats | None = None,
        margin_variance: Floats | None = None,
    ) -> NoisyTable:
        """Return the observation of one noisy table; see ``NoisyTable``."""
        import numpy as np

        rows = math.prod(self.network.shape(i)[:-1])
        parents = self.network.parents[i]
        shares = np.ones(rows)
        if not parents:
            shares = np.array([math.fsum(self.concentrations[i])])
        elif len(parents) == 1 and not self.network.parents[parents[0]]:
            shares = np.array(self.concentrations[parents[0]])
        concentration = np.tile(self.concentrations[i], (rows, 1))
        return NoisyTable(concentration, shares, observed.reshape(rows, -1), noise, total, margin, margin_variance)

    def split(self, values: Any) -> list[Any]:
        """Split an array of all cells into one array for each table; see ``NetworkTables``."""
        return self.tables.split(values)

    def simulated(self, policy: RecordPolicy, n_records: int, rng: np.random.Generator) -> Simulated:
        return self.simulated_statistic(self.statistic(policy), policy, n_records, rng)

    def simulated_statistic(
        self, statistic: Statistic, policy: RecordPolicy, n_records: int, rng: np.random.Generator
    ) -> Simulated:
        """Simulate tables from the prior, and valid records; return the tables and the records' exact statistic."""
        import numpy as np

        theta = self.draw_tables(rng)
        values = np.zeros(len(statistic.names), dtype=np.int64)
        for block in self.draw_records(theta, n_records, rng):
            values += np.array(count_cells(statistic, self.network.names, block), dtype=np.int64)
        return tuple(float(x) for table in theta for x in table.ravel()), tuple(values.tolist())

    def draw_tables(self, rng: np.random.Generator) -> list[Floats]:
        """Draw the tables from the prior."""
        return [
            rng.dirichlet(self.concentrations[i], size=self.network.shape(i)[:-1]) for i in range(len(self.network))
        ]

    def draw_records(self, theta: Sequence[Floats], n_records: int, rng: np.random.Generator) -> Iterator[Integers]:
        """Draw records given the tables; yield blocks of codes, shape (n_block, n_variables)."""
        import numpy as np

        size = max(1, _BLOCK * 16 // len(self.network))
        cumulative = [np.cumsum(table, axis=-1) for table in theta]
        for first in range(0, n_records, size):
            count = min(size, n_records - first)
            codes = np.empty((count, len(self.network)), dtype=np.int64)
            for i in self.network.order:
                parents = self.network.parents[i]
                rows = cumulative[i][tuple(codes[:, j] for j in parents)] if parents else cumulative[i][None, :]
                drawn = (rng.random(count)[:, None] > rows).sum(axis=1)
                codes[:, i] = np.minimum(drawn, self.network.sizes[i] - 1)
            yield codes

    def simulated_records(
        self, parameters: Sequence[float], n_records: int, rng: np.random.Generator
    ) -> Integers | None:
        import numpy as np

        if self.target is None:
            return None
        tables = zip(self.split(np.asarray(parameters)), range(len(self.network)), strict=True)
        shaped = [table.reshape(self.network.shape(i)) for table, i in tables]
        return np.concatenate(list(self.draw_records(shaped, n_records, rng)))

    def family(self, n_records: int) -> NetworkFamily:
        rows = tuple(math.prod(self.network.shape(i)[:-1]) for i in range(len(self.network)))
        return NetworkFamily(self.concentrations, rows, n_records)


@dataclass(frozen=True)
class NetworkPredictor(Predictor):
    """Predicts one variable of a network from its released posterior; see ``Predictor``."""

    network: Network

    def predict(self, codes: Integers) -> ClassProbabilities:
        import numpy as np

        from dpbayes_cli.inference.predictive.classify import class_probabilities

        classes = self.network.levels[self.target]
        if not len(codes):
            return ClassProbabilities(np.empty((0, len(classes))), classes)
        return ClassProbabilities(class_probabilities(self.network, self.target, self.draws, codes), classes)


def table_statistic(
    network: Network,
    columns: Sequence[Column | CutColumn],
    weights: Sequence[Fraction],
    policy: RecordPolicy,
    first: int = 0,
) -> Statistic:
    """Return the counts of every cell of a network's tables.

    Args:
        network: the graph of the variables.
        columns: the column of each variable.
        weights: the weight of each counted table; tables share the noise budget in proportion to weights.
        policy: the record policy, of which only the neighbor relation is used.
        first: the index of the first counted table.

    Privacy: a record adds a unit vector to each table if its cells in the table's columns are valid, else zero. Under
        replace-one, at most two cells of each table change by 1, so that the table changes by at most 2 in L1 and
        sqrt(2) in L2; T tables together change by at most 2 T and sqrt(2 T). Two records that differ in every variable
        attain these bounds. Under add-remove, each table changes by at most 1; any valid record attains this.
    Source: derived here.
    """
    add_remove = policy.neighbors is Neighbors.ADD_REMOVE
    per_table = 1 if add_remove else 2
    counted = range(first, len(network))
    names = cell_names(network, "count")[sum(network.n_cells[:first]) :]
    expressions = tuple(
        TableCounts(tuple(network.names[j] for j in network.families[i]), network.shape(i)) for i in counted
    )
    parts = tuple(
        Part(network.names[i], network.n_cells[i], per_table, per_table, weight, largest_change=1)
        for i, weight in zip(counted, weights, strict=True)
    )
    record, neighbor = (tuple(cell_of(c, min(code, len(c.levels) - 1)) for c in columns) for code in (0, 1))
    witness = Witness(record, None if add_remove else neighbor)
    total = per_table * len(parts)
    return Statistic(names, expressions, total, witness, total, parts=parts, largest_change=1)
