"""A private Gibbs chain on hidden states: its plan, its cost, and the chain that runs.

All points of the chain are public. A point holds the hidden state of every site (a record, or a time step of a
sequence), the emissions (probabilities of the features' values in each state), and the links (probabilities of the
states or of transitions). Only the updates of states and of emissions read data, and each of them is an exponential
mechanism.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any, Literal

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Integers, exact_difference
from dpbayes_cli.core.options import SAMPLING, LogWeightEpsilon, option
from dpbayes_cli.core.plan import Chain
from dpbayes_cli.core.released import Draws
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.mechanisms.samplers.ais_log_weight import NoisyLogWeight, check_log_weight, noisy_log_weight
from dpbayes_cli.mechanisms.samplers.gibbs_accounting import ChainCost, ChainOptions, Stage, Update, powers, price_chain
from dpbayes_cli.mechanisms.samplers.simplex_sampler import SharesCover, SimplexSampler, log_share, simplex_cover
from dpbayes_cli.models.families.latent_variables import LatentStructure, SiteEvidence, StateProbabilities
from dpbayes_cli.privacy.choices import CHOICE_SLACK, MAX_BITS, MAX_OUTCOMES, MIN_BITS, choose, public_generator
from dpbayes_cli.privacy.composition import Composition, compose
from dpbayes_cli.privacy.grid import EXACT
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.lattice import LATTICE_SLACK
from dpbayes_cli.privacy.lazy_numpy import np

SITES_TOUCHED = 2
"""The number of sites, or of rows of a table, that a replaced record changes: their rounding errors add up."""
_MAX_LINK_NATS = 512
"""Log probabilities of states given the links are raised to at least minus this many nats, so that utilities fit into
64 bits."""
_MAX_FINENESS = 256
"""A lattice is finer if there are more tempered records per row, but only up to this number, because finer lattices
take too long."""
DEFAULT_SWEEPS = 200


class PrivateGibbsOptions(ChainOptions, frozen=True, kw_only=True):
    """The options of a chain on hidden states."""

    kernel: Annotated[
        Literal["gibbs", "annealed", "metropolis"],
        option(SAMPLING, "the updates: gibbs, or annealed (rising powers of the likelihood); metropolis is refused"),
    ] = "gibbs"
    log_weight_epsilon: LogWeightEpsilon = None


@dataclass(frozen=True)
class PrivateGibbs(Chain):
    """A chain of Gibbs sweeps that targets the prior times the likelihood to the power T, with emissions on lattices.

    A sweep draws the states given emissions and links, one update block after another, then the emissions given the
    states, then the links given the states. At the same likelihood power states and emissions cost the same, so that
    each gets half of the budget. The current emissions often have a smaller range than R, and they are public. But a
    likelihood power that adapts to them would leave no law invariant.

    Privacy: R is the sum over features of 2 log(most / least), where most and least are the largest and the smallest
        probability on the feature's lattice. States: the utilities of a site are integers. They are sums of a part that
        depends on the links and of one part for every record of the site. A record's part is the sum over features f of
        L_f[probability of its value], where L_f is T log(probability), rounded to units of 2^-bits. Over the states a
        record's part has a range of at most r = sum_f (L_f[most] - L_f[least]) <= T R / 2 + F * 2^-bits, where F is the
        number of features. If a record is replaced by one at the same site, the utilities of the site change by the
        difference of two such parts, of range 2 r. If it is replaced by a record at another site, the utilities of both
        sites change: each gains or loses one part, whose range is r. If both sites are in one block, they are drawn
        independently, and the ranges add up to 2 r. If they are in two blocks, each block is an exponential mechanism
        of range r, given the outcome of the earlier block. Two mechanisms of range r never cost more than one of range
        2 r: 2 (r^2 / 8) < (2 r)^2 / 8, and two pure r-DP mechanisms are together 2 r-DP, so that their curve is at most
        the largest curve of pure 2 r-DP. Emissions: given the public states, a replaced record takes one count from a
        row of each feature's table and adds one to the same or another row. The range is 2 T log(most / least) per
        feature, see ``DagSampler``. Links: their law depends only on the public states, so that drawing them costs
        nothing.
    Source: Foulds et al. 2016, sec. 4.1; the rest is derived here.

    Attributes:
        structure: the public side of the model.
        covers: for each feature the lattice of its emissions.
        bits: the number of fractional bits of utilities.
        n_records: the public number of records.
        weight: the noise of the chain's log importance weight; None if the weight is not released.
    """

    structure: LatentStructure
    covers: tuple[SharesCover, ...]
    stages: tuple[Stage, ...]
    bits: int
    n_records: int
    weight: NoisyLogWeight | None = None

    def run(self, evidence: ExactEvidence, size: int) -> Draws:
        """Run the chain from a start that does not depend on data; return the points of its last sweeps.

        The point of every sweep is public and paid for, so that returning more points costs nothing.
        """
        sites, rng = self.structure.sites(evidence), public_generator()
        links = self.structure.draw_state_probabilities(None, rng)
        point = Point(self.structure.draw_states(links, self.n_records, rng), self.start(), links)
        kept: list[tuple[tuple[float, ...], tuple[int, ...]]] = []
        log_weight, previous_power, sweeps_left = 0, Decimal(0), sum(stage.sweeps for stage in self.stages)
        for stage in self.stages:
            if self.weight is not None:
                log_weight += self.log_weight_increment(point, sites, previous_power, stage.likelihood_power)
                previous_power = stage.likelihood_power
            for _ in range(stage.sweeps):
                states = self.update_states(point, sites, stage.likelihood_power)
                emissions = self.update_emissions(states, sites, stage.likelihood_power)
                point = Point(states, emissions, self.structure.draw_state_probabilities(states, rng))
                sweeps_left -= 1
                if sweeps_left < size:
                    kept.append(self.reported(point))
        states_kept = tuple(states for _, states in kept) if self.structure.releases_states else ()
        noisy = None if self.weight is None else self.weight.release(log_weight)
        return Draws(tuple(values for values, _ in kept), states_kept, noisy)

    def log_weight_increment(self, point: Point, sites: SiteEvidence, before: Decimal, after: Decimal) -> int:
        """Return how much the log weight grows at a point when the power rises: an integer in units of 2^-bits."""
        total = 0
        counts = sites.counts(point.states, self.structure.n_states)
        for cover, emission, table in zip(self.covers, point.emissions, counts, strict=True):
            increments = increment_table(cover, before, after, self.bits)
            total += int((table * increments[emission - cover.least]).sum())
        return total

    def start(self) -> tuple[Integers, ...]:
        """Draw emissions from the prior, in the form that ``Point`` states."""
        nothing = [np.zeros((self.structure.n_states, len(a)), dtype=np.int64) for a in self.structure.emissions]
        return self._rows(nothing, Decimal(0))

    def update_states(self, point: Point, sites: SiteEvidence, likelihood_power: Decimal) -> Integers:
        """Draw the states of all sites, block by block; each block depends on the states drawn before it."""
        states = point.states.copy()
        for block in self.structure.update_blocks(self.n_records):
            states[block] = choose(self.utilities(point, states, sites, likelihood_power, block), self.bits)
        return states

    def utilities(
        self, point: Point, states: Integers, sites: SiteEvidence, likelihood_power: Decimal, block: Integers
    ) -> Integers:
        """Return the integer utilities of the states at the sites of an update block, shape (n_sites, n_states)."""
        logs = np.maximum(self.structure.log_prior(point.links, states, block), -float(_MAX_LINK_NATS))
        public = np.rint(logs * 2.0**self.bits).astype(np.int64)
        tables = [
            log_table(cover, likelihood_power, self.bits)[emission - cover.least]
            for cover, emission in zip(self.covers, point.emissions, strict=True)
        ]
        return np.asarray(public + sites.scores(tables, block))

    def update_emissions(
        self, states: Integers, sites: SiteEvidence, likelihood_power: Decimal
    ) -> tuple[Integers, ...]:
        """Draw the emissions of every feature and state, each row exactly."""
        return self._rows(sites.counts(states, self.structure.n_states), likelihood_power)

    def _rows(self, counts: list[Integers], likelihood_power: Decimal) -> tuple[Integers, ...]:
        emissions = []
        for cover, concentration, table in zip(self.covers, self.structure.emissions, counts, strict=True):
            law = SimplexSampler(cover, concentration, likelihood_power, "likelihood")
            rows = [law.lattice(row).draw(1)[0] for row in table.tolist()]
            emissions.append(np.array(rows, dtype=np.int64))
        return tuple(emissions)

    def reported(self, point: Point) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Return parameters and states, relabeled so that the most frequent state comes first."""
        frequent = np.bincount(point.states, minlength=self.structure.n_states)
        order = np.argsort(-frequent, kind="stable")
        shares = [(e / c.resolution)[order] for e, c in zip(point.emissions, self.covers, strict=True)]
        parts = [*shares, *self.structure.relabeled(point.links, order)]
        values = tuple(np.concatenate([part.ravel() for part in parts]).tolist())
        return values, tuple(np.argsort(order)[point.states].tolist())

    @property
    def n_states(self) -> int:
        return self.structure.n_sites(self.n_records) if self.structure.releases_states else 0


@dataclass(frozen=True)
class Point:
    """The public state of a chain.

    Attributes:
        states: the state of every site, shape (n_sites,).
        emissions: for each feature the emission probabilities as integers k of its lattice {k / G}, shape (n_states,
            n_values).
    """

    states: Integers
    emissions: tuple[Integers, ...]
    links: StateProbabilities


def log_table(cover: SharesCover, likelihood_power: Decimal, bits: int) -> Integers:
    """Return T log(k / G) for k = least, ..., most of a lattice {k / G}, rounded to units of 2^-bits."""
    unit = EXACT.multiply(likelihood_power, Decimal(1 << bits))
    shares = (EXACT.divide(Decimal(k), Decimal(cover.resolution)) for k in range(cover.least, cover.most + 1))
    return np.array([int(EXACT.multiply(unit, log_share(share)).to_integral_value()) for share in shares], np.int64)


def increment_table(cover: SharesCover, before: Decimal, after: Decimal, bits: int) -> Integers:
    """Return what a record adds to the log weight when the power rises, for each lattice value of its probability."""
    return log_table(cover, after, bits) - log_table(cover, before, bits)


def plan_latent(
    structure: LatentStructure, options: PrivateGibbsOptions, n_records: int
) -> tuple[PrivateGibbs, ChainCost]:
    """Choose lattices and likelihood power; return the planned chain and its cost."""
    if structure.n_states > MAX_OUTCOMES:
        raise SpecError(f"{structure.n_states} hidden states are too many; allowed: {MAX_OUTCOMES}", where="mechanism")
    annealed, epsilon = options.kernel == "annealed", options.stated_epsilon()
    weight_epsilon = options.log_weight_epsilon
    if weight_epsilon is not None:
        check_log_weight(weight_epsilon, epsilon, annealed=annealed)
        epsilon = exact_difference(epsilon, weight_epsilon)
    schedule = powers(options.sweeps or DEFAULT_SWEEPS, options.draws, annealed=annealed)
    sizes = [len(concentration) for concentration in structure.emissions]

    def plan_at(fineness: int) -> tuple[tuple[SharesCover, ...], int, ChainCost]:
        covers = tuple(simplex_cover(size, None, fineness) for size in sizes)
        bits = _fractional_bits(covers, n_records)
        return covers, bits, price_chain(epsilon, updates_of(covers, bits), schedule)

    _, _, coarse_cost = plan_at(1)
    records_per_row = math.ceil(coarse_cost.likelihood_power * n_records / structure.n_states)
    covers, bits, cost = plan_at(max(1, min(_MAX_FINENESS, records_per_row)))
    chain = PrivateGibbs(structure, covers, cost.stages, bits, n_records)
    if weight_epsilon is None:
        return chain, cost
    starts = [Decimal(0), *(stage.likelihood_power for stage in cost.stages)]
    increments = [increment_table(cover, *ends, bits) for ends in itertools.pairwise(starts) for cover in covers]
    guarantee = compose([*require_type(cost.guarantee, Composition).parts, PureDP(weight_epsilon)])
    with_weight = replace(chain, weight=noisy_log_weight(increments, bits, weight_epsilon))
    return with_weight, replace(cost, guarantee=guarantee, log_weight_epsilon=weight_epsilon)


def updates_of(covers: tuple[SharesCover, ...], bits: int) -> list[Update]:
    """Return the priced updates of a sweep: the states, and the emissions of every feature.

    Privacy: see ``PrivateGibbs``; at each of two sites, rounding adds at most 2^-bits per feature to the range of a
        record's part, and the choice of the state adds ``CHOICE_SLACK``.
    Source: see ``PrivateGibbs``.
    """
    rounding = Decimal(SITES_TOUCHED * len(covers)) / Decimal(1 << bits)
    states = Update("states", sum((c.spread for c in covers), Decimal(0)), SITES_TOUCHED * CHOICE_SLACK + rounding)
    counts = Counter(cover.spread for cover in covers)
    return [states, *(Update("emissions", spread, SITES_TOUCHED * LATTICE_SLACK, n) for spread, n in counts.items())]


def _fractional_bits(covers: tuple[SharesCover, ...], n_records: int) -> int:
    """Return the largest number of fractional bits that keeps every utility below 2^61."""
    largest = n_records * sum(1 + math.log(c.resolution / c.least) for c in covers) + 4 * _MAX_LINK_NATS
    bits = min(MAX_BITS, 61 - math.ceil(math.log2(largest)))
    if bits < MIN_BITS:
        raise SpecError(
            f"{n_records} records are too many: the scores of the chain would exceed 64-bit integers", where="records"
        )
    return bits


def plan_parameters(chain: PrivateGibbs, cost: ChainCost, kernel: str) -> dict[str, Any]:
    """Return the parameters that a plan states about a chain."""
    spread = sum((cover.spread for cover in chain.covers), Decimal(0))
    supports = sorted({(c.least / c.resolution, c.most / c.resolution) for c in chain.covers})
    return {
        **cost.plan_parameters(kernel),
        "range": float(spread),
        "support": [supports[0][0], supports[-1][1]],
        "resolution": max(cover.resolution for cover in chain.covers),
        "bits": chain.bits,
        **({} if chain.weight is None else {"log_weight_scale": chain.weight.scale}),
    }


def working_memory(chain: PrivateGibbs) -> int:
    """Return the memory in bytes, a public number, for the states and for the utilities of one update block."""
    n, k = chain.structure.n_sites(chain.n_records), chain.structure.n_states
    largest = max((len(block) for block in chain.structure.update_blocks(chain.n_records)), default=0)
    return 8 * (3 * n + 8 * largest * k)
