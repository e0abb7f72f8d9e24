"""Fourier-Laplace: noise on the parities of a network's tables, from which tables are rebuilt that agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy, has_stand_in
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import MethodInfo, Model
from dpbayes_cli.core.noisy_observation import NoisyTables, RecordCount, Scope
from dpbayes_cli.core.options import EpsilonOptions, Options
from dpbayes_cli.core.plan import Plan, Step
from dpbayes_cli.core.released import Payload
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence, Statistic, TableCounts, Witness, for_units
from dpbayes_cli.models.families.capabilities import record_count
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet, cell_of
from dpbayes_cli.privacy.dag import Network
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noise import NoiseLaw
from dpbayes_cli.privacy.parities import Parities, n_bits
from dpbayes_cli.privacy.parity_sensitivity import ParitySensitivity, sensitivity_l1

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers

_MOST_BITS, _MOST_PARITIES = 12, 1 << 15
"""What is solved for by linear programming in seconds, of one table and of all."""


@dataclass(frozen=True)
class ParityTransform:
    """What is released of the tables: the number of records in which each pattern is odd, or sums of signs.

    Attributes:
        parities: the patterns.
        signed: whether records may be null, so that signs are summed and the valid records counted.
    """

    parities: Parities
    signed: bool

    def coefficients(self, tables: Sequence[Integers]) -> Integers:
        """Return the components from the tables of one set of records."""
        return self.parities.coefficients(tables, signed=self.signed)


class FourierLaplace(Mechanism):
    """Add independent discrete Laplace noise to the parities of a network's tables, each counted once.

    Privacy: pure epsilon-DP: the noise is calibrated to how far one record moves all parities together, which is a
        maximum over the variables that it changes (``parity_sensitivity``), or a bound of it where the network is too
        entangled for the maximum.
    Source: Barak et al. 2007; Zhang, Rubinstein and Dimitrakakis 2016, Algorithm 2, with the true sensitivity.
    """

    name: ClassVar[str] = "fourier-laplace"
    summary: ClassVar[str] = "discrete Laplace noise on parities of a network's tables; consistent tables; pure epsilon"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="For every pattern of bits inside a table the number of records in which it is odd, with noise, each "
        "once, however many tables share it. From these numbers tables are rebuilt, the nearest non-negative ones that "
        "agree on every shared margin are found by linear programming, and the posterior is inferred.",
        guarantee="Pure epsilon-DP. Scale of the noise = sensitivity / epsilon; the sensitivity is the largest number "
        "of patterns that are odd in the bits in which two records differ, 2^(k-1) for one table of k bits. Under drop "
        "or add-remove sums of signs are released, and the number of valid records with them.",
        assumptions="A record with an invalid cell in any variable counts as nothing, in every table. Variables with "
        "more than two values are coded in binary; codes that stand for no value are cells that no record is in.",
        source="Barak, Chaudhuri, Dwork, Kale, McSherry and Talwar 2007; Zhang, Rubinstein and Dimitrakakis 2016, "
        "Algorithm 2.",
        corrections="The papers charge for all patterns; a record moves half of them at most in one table, and which "
        "halves go together is counted exactly. Integers and exact integer noise in place of scaled real coefficients. "
        "The posterior takes the noise of a rebuilt cell, a sum of many, for normal.",
        prefer_when="Tables that must agree, or small ones of two-valued variables that overlap, as in a chain. Of "
        "wide tables and of many values a record moves half the parities, and two cells: there `laplace` tells more.",
    )
    requires: ClassVar[tuple[type, ...]] = (DiscreteBayesNet,)
    options_type: ClassVar[type[Options]] = EpsilonOptions

    def statistic(self, model: Model, policy: RecordPolicy) -> Statistic:
        """Return the parities of the model's tables, or sums of signs.

        Raises:
            SpecError: a table has too many parities.
        """
        network = require_type(model, DiscreteBayesNet)
        complete = _complete(network, policy)
        parities = _parities(network.network)
        found = _sensitivity(parities, policy.neighbors, complete)
        names = _names(network.network, complete)
        tables = tuple(
            TableCounts(tuple(network.network.names[j] for j in family), network.network.shape(i))
            for i, family in enumerate(network.network.families)
        )
        record, neighbor = (
            None if codes is None else tuple(cell_of(c, k) for c, k in zip(network.variables, codes, strict=True))
            for codes in (found.record, found.neighbor)
        )
        of_signs = complete or policy.neighbors is Neighbors.ADD_REMOVE
        squared = found.value if of_signs else 2 * found.value  # each pattern moves by 1, or by 2 where signs change
        single = Statistic(
            names,
            tables,
            found.value,
            Witness(record, neighbor),
            squared,
            whole_records=True,
            transform=ParityTransform(parities, not complete),
        )
        return for_units(single, policy)

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        """Calibrate the noise to the sensitivity of the parities.

        Raises:
            SpecError: a table has too many parities, or no epsilon is stated.
            DpbayesError: OpenDP's privacy map disagrees with the plan.
        """
        if len(set(require_type(model, DiscreteBayesNet).weights)) > 1:
            raise SpecError("parities are shared by tables and have one price: no weights", where="domain.variables")
        statistic = self.statistic(model, policy)
        guarantee = PureDP(require_type(options, EpsilonOptions).stated_epsilon())
        noise = DiscreteLaplace.calibrate(statistic.sensitivity_l1, guarantee.epsilon)
        parameters = {"scale": noise.scale, "parities": len(statistic.names)}
        return Plan((Step(statistic, noise, guarantee),), guarantee, parameters)

    def release(self, plan: Plan, evidence: ExactEvidence) -> Payload:
        """Add the planned noise to the exact parities.

        Privacy: pure epsilon-DP with the plan's epsilon; only the noisy integers are returned.
        Source: see the class.
        """
        (step,) = plan.steps
        noise = require_type(step.noise, DiscreteLaplace)
        return Payload(step.statistic.names, tuple(noise.release(evidence.values)), noise)

    def observation(
        self, model: Model, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisyTables:
        """Return the tables that are rebuilt from noisy parities; their cells have independent noise of one variance.

        The transform is orthogonal, so that the noise of the 2^b cells of a rebuilt table is uncorrelated, as far as
        the total is not known; it is a sum of 2^b - 1 or 2^b noises, and taken for normal. Of a table of two cells with
        a known total there is one number, whose noise is what it is.
        """
        import numpy as np

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
                law = DiscreteLaplace(2.0 * noise.scale)  # both cells are off by the same number, and count it twice
            else:
                law = DiscreteGaussian(float(np.sqrt((4.0 if complete else 1.0) * noise.variance / cells)))
            tables.append(network.table(i, np.asarray(table), law, known))
        counted = float(total.n) if complete else max(0.0, float(values[0]))
        if total.kind != "unbounded":
            counted = min(counted, float(total.n))
        return NoisyTables(tuple(tables), Scope(network.network.sizes, network.network.families, counted))


def _complete(model: DiscreteBayesNet, policy: RecordPolicy) -> bool:
    """Return whether every record is valid and their number public."""
    whole = all(has_stand_in(policy, column) for column in model.variables)
    return whole and policy.neighbors is Neighbors.REPLACE_ONE


@lru_cache(maxsize=8)
def _parities(network: Network) -> Parities:
    """Return the patterns of a network's tables.

    Raises:
        SpecError: a table has too many.
    """
    for i, name in enumerate(network.names):
        bits = sum(n_bits(network.sizes[j]) for j in network.families[i])
        if bits > _MOST_BITS:
            raise SpecError(
                f"the table of {name!r} has 2^{bits} parities; allowed: 2^{_MOST_BITS}",
                where="domain.variables",
                hint="fewer parents, fewer values, or laplace",
            )
    parities = Parities(network.sizes, network.families)
    if parities.count > _MOST_PARITIES:
        raise SpecError(
            f"the tables have {parities.count:,} parities; allowed: {_MOST_PARITIES:,}",
            where="domain.variables",
            hint="fewer parents, fewer values, or laplace",
        )
    return parities


@lru_cache(maxsize=8)
def _sensitivity(parities: Parities, neighbors: Neighbors, complete: bool) -> ParitySensitivity:
    return sensitivity_l1(parities, neighbors, complete=complete)


@lru_cache(maxsize=8)
def _names(network: Network, complete: bool) -> tuple[str, ...]:
    """Return the names of the components: the variables of a pattern, each with its bits where it has several.

    Raises:
        SpecError: two components would have one name.
    """
    import numpy as np

    parities = _parities(network)
    kind = "odd" if complete else "signs"
    names = [] if complete else ["valid"]
    for i, members in enumerate(parities.members):
        family = network.families[i]
        for codes in zip(*np.unravel_index(members, parities.padded_shape(i)), strict=True):
            parts = [_bits_text(network, j, int(code)) for j, code in zip(family, codes, strict=True) if code]
            names.append(f"{kind}[{','.join(parts)}]")
    if len(set(names)) < len(names):
        raise SpecError("two parities would have one name: use no ',' or '&' in the names", where="domain.variables")
    return tuple(names)


def _bits_text(network: Network, variable: int, code: int) -> str:
    bits = n_bits(network.sizes[variable])
    return network.names[variable] if bits == 1 else f"{network.names[variable]}&{code:0{bits}b}"
