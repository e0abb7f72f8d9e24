"""Fourier-Laplace: noise on the parities of a network's tables; consistent tables are rebuilt from noisy parities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Integers
from dpbayes_cli.core.columns import RecordPolicy, cell_of, has_stand_in
from dpbayes_cli.core.model import MethodInfo, Model
from dpbayes_cli.core.noisy_observation import NoisyTables, RecordCount, Scope, record_count
from dpbayes_cli.core.options import EpsilonOptions, Options
from dpbayes_cli.core.plan import Plan, Step
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import Statistic, TableCounts, Witness, for_units
from dpbayes_cli.mechanisms.samplers.calibrated_noise import NoiseMechanism
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.privacy.dag import Network
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noise import NoiseLaw
from dpbayes_cli.privacy.parities import Parities, n_bits
from dpbayes_cli.privacy.parity_sensitivity import sensitivity_l1

_MAX_BITS, _MAX_PARITIES = 12, 1 << 15
"""The largest number of bits of a table, and the largest number of parities of all tables together. At these sizes
linear programming takes seconds."""


@dataclass(frozen=True)
class ParityTransform:
    """The transform from tables to parities: for each pattern of bits, the count of records in which it is odd.

    ``signed`` is True if records may be null. Then each pattern has a sum of signs instead: -1 for a record in which it
    is odd, +1 for any other valid record. The number of valid records is released too.
    """

    parities: Parities
    signed: bool

    def coefficients(self, tables: Sequence[Integers]) -> Integers:
        """Return the exact components of the statistic, given the tables of a data set."""
        return self.parities.coefficients(tables, signed=self.signed)


class FourierLaplace(NoiseMechanism):
    """Add independent discrete Laplace noise to the parities of a network's tables.

    A parity that several tables share is released once.

    Privacy: pure epsilon-DP: the noise is calibrated to the L1 sensitivity of all parities together. The sensitivity is
        the maximum over the sets of variables in which two records may differ (``parity_sensitivity``), or a bound on
        this maximum if the network is too densely connected to compute it.
    Source: Barak et al. 2007; Zhang, Rubinstein and Dimitrakakis 2016, Algorithm 2, with the true sensitivity.
    """

    name: ClassVar[str] = "fourier-laplace"
    summary: ClassVar[str] = "discrete Laplace noise on parities of a network's tables; consistent tables; pure epsilon"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="For every pattern of bits of a table, the noisy number of records in which an odd number of these "
        "bits is 1. A pattern that several tables share is released once. Tables are rebuilt from these numbers, "
        "and inference accounts for their noise. Linear programming finds the nearest non-negative tables that agree "
        "on all shared margins; method: naive infers from those tables.",
        guarantee="Pure epsilon-DP. The noise scale is sensitivity / epsilon. The sensitivity is the largest number of "
        "patterns whose parity differs between two records: 2^(k-1) for one table of k bits. With on_invalid: drop, or "
        "with add-remove neighbors, the release holds the number of valid records and a sum of signs for each pattern: "
        "-1 for a valid record in which the pattern is odd, +1 for any other valid record.",
        assumptions="A record with an invalid cell in any variable counts in no table. Variables with more than two "
        "values are coded in binary; a code that stands for no value is a cell without records.",
        source="Barak, Chaudhuri, Dwork, Kale, McSherry and Talwar 2007; Zhang, Rubinstein and Dimitrakakis 2016, "
        "Algorithm 2.",
        corrections="The released numbers are parities: how often the sum of certain bits is odd. The papers "
        "calibrate the noise as if a replaced record could change all of them, but it changes at most half of the "
        "parities of a table. Here the sensitivity is the largest number of parities that change together. Parities "
        "and noise are exact integers, not scaled real numbers. Inference treats the noise of a cell that is rebuilt "
        "from parities as normal, because it is a sum of many noise variables.",
        prefer_when="The tables must agree, or they are small and overlap and their variables have two values, as in a "
        "chain. In large tables a replaced record changes half of the parities but only two cells: there `laplace` is "
        "more accurate.",
    )
    requires: ClassVar[tuple[type, ...]] = (DiscreteBayesNet,)
    options_type: ClassVar[type[Options]] = EpsilonOptions

    def statistic(self, model: Model, policy: RecordPolicy) -> Statistic:
        """Return the statistic of the parities of the model's tables, or of sums of signs."""
        network = require_type(model, DiscreteBayesNet)
        complete = _complete(network, policy)
        parities = _parities(network.network)
        sensitivity = _sensitivity(parities, policy.neighbors, complete=complete)
        names = _names(network.network, complete)
        tables = tuple(
            TableCounts(tuple(network.network.names[j] for j in family), network.network.shape(i))
            for i, family in enumerate(network.network.families)
        )
        record, neighbor = (
            None if codes is None else tuple(cell_of(c, k) for c, k in zip(network.variables, codes, strict=True))
            for codes in (sensitivity.record, sensitivity.neighbor)
        )
        of_signs = complete or policy.neighbors is Neighbors.ADD_REMOVE
        # a count changes by 1, and a sum of signs by 1 or 2
        sensitivity_l2_squared = sensitivity.value if of_signs else 2 * sensitivity.value
        one_record = Statistic(
            names,
            tables,
            sensitivity.value,
            Witness(record, neighbor),
            sensitivity_l2_squared,
            whole_records=True,
            transform=ParityTransform(parities, not complete),
            largest_change=1 if of_signs else 2,
        )
        return for_units(one_record, policy)

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        """Calibrate the noise to the sensitivity of the parities."""
        if len(set(require_type(model, DiscreteBayesNet).weights)) > 1:
            raise SpecError(
                "all parities have the same noise scale, so the tables of this mechanism cannot have different weights",
                where="domain.variables",
                hint="leave out weight, or mechanism: laplace",
            )
        statistic = self.statistic(model, policy)
        epsilon = require_type(options, EpsilonOptions).stated_epsilon()
        noise = DiscreteLaplace.calibrate(statistic.sensitivity_l1, epsilon)
        guarantee = noise.privacy(statistic.worst_shifts).at_most(epsilon)
        parameters = {"scale": noise.scale, "parities": len(statistic.names)}
        return Plan((Step(statistic, noise, guarantee),), guarantee, parameters)

    def observation(
        self,
        model: Model,
        policy: RecordPolicy,
        released: Sequence[int],
        noise: NoiseLaw,
        n_records: int | None,
        points: Sequence[tuple[int, ...]] = (),
    ) -> NoisyTables:
        """Return the tables that are rebuilt from noisy parities.

        All cells of a table have noise of the same variance. If the total is unknown, the noise of the 2^b cells is
        uncorrelated, because the transform is orthogonal. The noise of a cell is a sum of 2^b - 1 or 2^b noise
        variables; it is treated as normal and as independent between cells. A table of two cells with a known total has
        a single unknown count, whose exact noise law is used.
        """
        network = require_type(model, DiscreteBayesNet)
        complete = _complete(network, policy)
        parities = _parities(network.network)
        total = record_count(policy, n_records)
        known = RecordCount("known", total.n) if complete else total
        values = np.asarray(released, dtype=np.float64)
        rebuilt = parities.tables(values, float(total.n) if complete else None)
        tables = []
        for i, table in enumerate(rebuilt):
            cells = 1 << sum(n_bits(size) for size in parities.shape(i))
            law: NoiseLaw
            if complete and cells == 2:
                # one noise variable changes both cells, in opposite directions, so that its scale doubles
                law = DiscreteLaplace(2.0 * noise.scale)
            else:
                law = DiscreteGaussian(float(np.sqrt((4.0 if complete else 1.0) * noise.variance / cells)))
            tables.append(network.table(i, np.asarray(table), law, known))
        n_counted = float(total.n) if complete else max(0.0, float(values[0]))
        if total.kind != "unbounded":
            n_counted = min(n_counted, float(total.n))
        return NoisyTables(tuple(tables), Scope(network.network.sizes, network.network.families, n_counted))


def _complete(model: DiscreteBayesNet, policy: RecordPolicy) -> bool:
    """Return whether every record is valid and the number of records is public."""
    all_valid = all(has_stand_in(policy, column) for column in model.variables)
    return all_valid and policy.neighbors is Neighbors.REPLACE_ONE


@lru_cache(maxsize=8)
def _parities(network: Network) -> Parities:
    for i, name in enumerate(network.names):
        bits = sum(n_bits(network.sizes[j]) for j in network.families[i])
        if bits > _MAX_BITS:
            raise SpecError(
                f"the table of {name!r} has 2^{bits} parities; allowed: 2^{_MAX_BITS}",
                where="domain.variables",
                hint="use fewer parents, fewer values, or mechanism: laplace",
            )
    parities = Parities(network.sizes, network.families)
    if parities.count > _MAX_PARITIES:
        raise SpecError(
            f"the tables have {parities.count:,} parities; allowed: {_MAX_PARITIES:,}",
            where="domain.variables",
            hint="use fewer parents, fewer values, or mechanism: laplace",
        )
    return parities


_sensitivity = lru_cache(maxsize=8)(sensitivity_l1)


@lru_cache(maxsize=8)
def _names(network: Network, complete: bool) -> tuple[str, ...]:
    """Return the names of the components.

    A name lists the variables of a pattern; a variable that is coded by several bits is followed by its bits.
    """
    parities = _parities(network)
    kind = "odd" if complete else "signs"
    names = [] if complete else ["valid"]
    for i, members in enumerate(parities.members):
        family = network.families[i]
        for codes in zip(*np.unravel_index(members, parities.padded_shape(i)), strict=True):
            parts = [_bits_text(network, j, int(code)) for j, code in zip(family, codes, strict=True) if code]
            names.append(f"{kind}[{','.join(parts)}]")
    if len(set(names)) < len(names):
        raise SpecError(
            "two released values would have the same name",
            where="domain.variables",
            hint="avoid ',' and '&' in the names of variables and values",
        )
    return tuple(names)


def _bits_text(network: Network, variable: int, code: int) -> str:
    bits = n_bits(network.sizes[variable])
    return network.names[variable] if bits == 1 else f"{network.names[variable]}&{code:0{bits}b}"
