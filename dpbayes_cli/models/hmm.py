"""Hidden Markov models: sequences with a hidden state at each time step, and records whose features depend on it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from msgspec import Meta

from dpbayes_cli.base.cell_grammar import check_levels
from dpbayes_cli.core.columns import Column, CutColumn, RecordPolicy, has_stand_in
from dpbayes_cli.core.examples import Example, discrete_example
from dpbayes_cli.core.findings import Fact, Findings, share_of
from dpbayes_cli.core.inference_options import InferenceOptions
from dpbayes_cli.core.joint_law import JointLaw, hidden_name
from dpbayes_cli.core.model import MethodInfo, NoisyStatistics
from dpbayes_cli.core.model_sections import StatesOverTime
from dpbayes_cli.core.noisy_observation import NoisySequences, record_count
from dpbayes_cli.core.options import INFERENCE, option
from dpbayes_cli.core.section import Level, Positive, Section, require_type
from dpbayes_cli.core.statistic import Statistic
from dpbayes_cli.models.families.capabilities import Simulated
from dpbayes_cli.models.families.discrete_bayes_net import table_statistic
from dpbayes_cli.models.families.domain_types import StandIn
from dpbayes_cli.models.families.latent_variables import LatentVariables
from dpbayes_cli.models.families.network_domain import VariableSection, check_network
from dpbayes_cli.privacy.dag import Network
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.models.families.hidden_markov_sweep import HiddenMarkovStructure
    from dpbayes_cli.models.families.sequence_likelihood import SequenceLikelihood

_MAX_STATES = 50


class AxisSection(Section, frozen=True, kw_only=True):
    """The column that holds each record's sequence, or the column that holds its time step."""

    column: Annotated[str, Meta(description="the name of the column")]
    values: Annotated[tuple[Level, ...], Meta(min_length=1, description="the valid texts, in order")]
    impute: StandIn = None

    def __post_init__(self) -> None:
        check_levels(self.values)

    def as_column(self) -> Column:
        """Return the column with its public values."""
        return Column(self.column, self.values, self.impute)


class HmmDomain(Section, frozen=True, kw_only=True):
    """Sequences, time steps, features and the number of states, all public."""

    sequence: Annotated[AxisSection, Meta(description="the column of the sequence, and the names of all sequences")]
    time: Annotated[
        AxisSection, Meta(description="the column of the time step, and the names of all time steps in order")
    ]
    features: Annotated[
        dict[str, VariableSection], Meta(min_length=1, description="for each column its values or cuts")
    ]
    states: Annotated[int, Meta(ge=1, le=_MAX_STATES, description="the number of hidden states")]

    def __post_init__(self) -> None:
        names = [self.sequence.column, self.time.column, *self.features]
        if len(set(names)) < len(names):
            raise ValueError("sequence, time and features must be different columns")
        self.graph()

    def graph(self) -> Network:
        """Return the graph of the tables of counts; the parents of each feature are the sequence and the time step."""
        axes = (self.sequence.column, self.time.column)
        features = [part.column(name) for name, part in self.features.items()]
        columns = [self.sequence.as_column(), self.time.as_column(), *features]
        return check_network(columns, [(), (), *(axes for _ in self.features)])


class HmmPrior(Section, frozen=True, kw_only=True):
    """Dirichlet priors on the first state, on each state's successor, and on each feature given the state."""

    initial: Annotated[Positive, Meta(description="concentration for the first state")] = 1.0
    transition: Annotated[Positive, Meta(description="concentration for a state's successor")] = 1.0
    stay: Annotated[
        Annotated[float, Meta(ge=0.0, le=1e9)],
        Meta(description="number that is added to the concentration for staying in a state"),
    ] = 0.0
    emission: Annotated[Positive, Meta(description="concentration for the values of a feature")] = 1.0


class HmmInference(InferenceOptions, frozen=True, kw_only=True):
    """The inference options of Markov chains on hidden states."""

    mcmc_sweeps: Annotated[
        Annotated[int, Meta(ge=50, le=100_000)], option(INFERENCE, "limit of the sweeps of each Markov chain")
    ] = 2000
    state_sampler: Annotated[
        Literal["blocked", "collapsed"],
        option(INFERENCE, "blocked draws the states of a sequence together, collapsed one by one"),
    ] = "blocked"


@dataclass(frozen=True)
class Hmm(NoisyStatistics, LatentVariables):
    """States z_s1 ~ initial, z_st ~ transition[z_s,t-1]; features of records at (s, t) ~ emission[z_st].

    Source: Foulds et al. 2016, sec. 5.

    Attributes:
        network: the graph of the tables of counts; the parents of each feature are the sequence and the time step.
        axes: the columns of the sequence and of the time step.
        weights: for each feature the weight of its table; tables share the noise budget in proportion to weights.
        initial, transition, stay, emission: the prior concentrations; see ``HmmPrior``.
    """

    network: Network
    axes: tuple[Column, Column]
    features: tuple[Column | CutColumn, ...]
    weights: tuple[Fraction, ...]
    states: int
    initial: float
    transition: float
    stay: float
    emission: float

    name: ClassVar[str] = "hmm"
    summary: ClassVar[str] = (
        "sequences of hidden states, features of records independent given the state, Dirichlet priors"
    )
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="For each feature, a noisy number of records for every combination of sequence, time step and value. "
        "From the released numbers, inference computes the posterior of emissions, transitions, and the state of "
        "every sequence at every step.",
        guarantee="The mechanism gives the guarantee. For F features the L1 sensitivity is 2 F under replace-one and "
        "F under add-remove, because a record is in one cell of each feature's table. The sensitivity does not depend "
        "on the number of sequences and steps.",
        assumptions="All records of a sequence at a time step share its state; given the state, their features are "
        "independent. Sequences, time steps, values and the number of states are public. The number of records of a "
        "sequence at a step does not depend on the state. A record with an invalid cell is left out of the tables "
        "with that column, but counts in all others.",
        source="Foulds, Geumlek, Welling and Chaudhuri 2016, sec. 5 and Figures 3 to 7; Goldwater and Griffiths 2007 "
        "(transitions integrated out).",
        corrections="The paper replaces negative noisy counts by zero, which adds records to empty cells, and then "
        "treats all counts as exact. By default, inference here accounts for the noise; with the option method: naive "
        "it does what the paper does. The paper draws the states of a sequence one by one; here they are drawn "
        "together, unless the option is state_sampler: collapsed.",
        prefer_when="Several sequences go through a few regimes over time, with many records at each step.",
    )
    domain_type: ClassVar[type[Section]] = HmmDomain
    prior_type: ClassVar[type[Section]] = HmmPrior
    examples: ClassVar[tuple[Example, ...]] = (
        discrete_example(
            {
                "sequence": {"column": "s", "values": ["u", "v"]},
                "time": {"column": "t", "values": ["1", "2", "3"]},
                "features": {"x": {"values": ["a", "b"]}, "y": {"cuts": [0.0, 1.0]}},
                "states": 2,
            }
        ),
    )
    first_spec: ClassVar[Mapping[str, str]] = {
        "sequence.column": "region",
        "sequence.values": "[north, south]",
        "time.column": "month",
        "time.values": "[jan, feb, mar]",
        "features": "\nkind: {values: [theft, assault], impute: theft}\nhurt: {cuts: [1, 3], impute: 0}",
        "states": "2",
    }
    first_spec_drawn: ClassVar[Mapping[str, str]] = {"sequence.impute": "north", "time.impute": "jan"}
    inference_options: ClassVar[type[InferenceOptions]] = HmmInference
    not_simulated: ClassVar[str] = LatentVariables.not_simulated

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        parts, concentration = require_type(domain, HmmDomain), require_type(prior, HmmPrior)
        return cls(
            parts.graph(),
            (parts.sequence.as_column(), parts.time.as_column()),
            tuple(part.column(name) for name, part in parts.features.items()),
            tuple(Fraction(repr(part.weight)) for part in parts.features.values()),
            parts.states,
            concentration.initial,
            concentration.transition,
            concentration.stay,
            concentration.emission,
        )

    @property
    def columns(self) -> tuple[Column | CutColumn, ...]:
        """The columns of the sequence, the time step and the features."""
        return (*self.axes, *self.features)

    @property
    def column_names(self) -> tuple[str, ...]:
        return self.network.names

    @property
    def over_time(self) -> StatesOverTime:
        """The structure of the parameters: emissions, transitions, and the probabilities of the first state."""
        return StatesOverTime(self.axes, self.features, self.states)

    def sections(self) -> tuple[StatesOverTime]:
        return (self.over_time,)

    def joint_law(self, column: str, draws: Floats, states: Integers | None) -> JointLaw | None:
        """Return the law of a record whose sequence and time step are drawn with equal probabilities."""
        import numpy as np

        if states is None:
            return None
        axes = (np.broadcast_to(1.0 / size, (len(draws), size)) for size in self.shape)
        names = (*self.column_names, hidden_name("state", self.column_names))
        parents = ((), (), *((len(self.columns),) for _ in self.features), (0, 1))
        network = Network(names, (*self.network.levels, self.over_time.state_names), parents)
        tables = (*axes, *self.split(draws)[0], np.eye(self.states)[states])
        return JointLaw(network, self.columns, tables, unknown_shares=(0, 1))

    def held_out(self) -> SequenceLikelihood:
        from dpbayes_cli.models.families.sequence_likelihood import SequenceLikelihood

        return SequenceLikelihood(self.over_time)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of sequences and of time steps."""
        return len(self.axes[0].levels), len(self.axes[1].levels)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each feature."""
        return tuple(len(column.levels) for column in self.features)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Emissions by feature and state, then transitions by row, then the probabilities of the first state."""
        states = self.over_time.state_names
        return (
            *(
                f"emission[{column.role}={level}|state={k}]"
                for column in self.features
                for k in states
                for level in column.levels
            ),
            *(f"transition[state={to}|state={k}]" for k in states for to in states),
            *(f"initial[state={k}]" for k in states),
        )

    def split(self, values: Any) -> tuple[list[Any], Any, Any]:
        """Split parameters into emissions, transitions and probabilities of the first state; see ``StatesOverTime``."""
        return self.over_time.split(values)

    @property
    def structure(self) -> HiddenMarkovStructure:
        """The structure of the model for a chain that draws the hidden states."""
        from dpbayes_cli.models.families.hidden_markov_sweep import HiddenMarkovStructure

        emissions = tuple((self.emission,) * size for size in self.sizes)
        return HiddenMarkovStructure(self.states, emissions, self.shape, self.initial, self.transition, self.stay)

    def chain_input(self, policy: RecordPolicy) -> Statistic:
        return self.statistic(policy)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return no prediction: it would depend on the sequence and the time step of the record."""
        return {}

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        """Return the probability that the most frequent state lasts, and its likeliest value of the first feature."""
        sequence, time = (axis.role for axis in self.axes)
        n_emissions, first = self.states * sum(self.sizes), self.features[0]
        likeliest = max(range(self.sizes[0]), key=lambda k: estimates[k])
        topic = (
            f"each {sequence} is in one of {self.states} hidden states at each {time}, and state 1 is the most frequent"
        )
        stay = Fact("state 1 lasts for another step with a chance of about", n_emissions, is_share=True)
        return Findings((stay, share_of(first.role, first.levels[likeliest], likeliest, "in it, about")), topic)

    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return, for each feature, the number of records of each sequence, time step and value.

        Privacy: see ``table_statistic``: for F features the L1 sensitivity is 2 F under replace-one and F under
            add-remove.
        Source: Foulds et al. 2016, sec. 5; the rest is derived here.
        """
        return table_statistic(self.network, self.columns, self.weights, policy, len(self.axes))

    def observation(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisySequences:
        import numpy as np

        record_count(policy, n_records)  # refuses replace-one without the public number of records
        cells = self.network.n_cells[len(self.axes) :]
        firsts = list(itertools.accumulate(cells[:-1], initial=0))
        parts = np.split(np.asarray(released, dtype=np.int64), firsts[1:])
        observed = tuple(part.reshape(*self.shape, size) for part, size in zip(parts, self.sizes, strict=True))
        # if every feature has a stand-in, all tables count the same records
        complete = all(has_stand_in(policy, column) for column in self.features)
        return self.observed(observed, tuple(noise.at(first) for first in firsts), complete=complete)

    def observed(
        self, counts: tuple[Any, ...], noises: tuple[NoiseLaw | None, ...], *, complete: bool
    ) -> NoisySequences:
        """Return exact or noisy counts as an observation of sequences.

        Args:
            counts: for each feature, shape (n_sequences, n_steps, n_values).
            noises: for each feature the law of the noise, or None if its counts are exact.
            complete: whether every record is counted in the tables of all features.
        """
        import numpy as np

        return NoisySequences(
            tuple(np.full(size, self.emission) for size in self.sizes),
            self.structure.successors,
            np.full(self.states, self.initial),
            counts,
            noises,
            complete,
        )

    def simulated(self, policy: RecordPolicy, n_records: int, rng: np.random.Generator) -> Simulated:
        """Simulate parameters from the prior, states, and exact counts of valid records; see ``NoisyStatistics``.

        Records are spread unevenly over sequences and time steps.
        """
        import numpy as np

        emissions, transition, initial = self.draw_parameters(rng)
        states = self.structure.draw_states((transition, initial), n_records, rng).reshape(self.shape)
        shares = rng.dirichlet(np.full(math.prod(self.shape), 2.0))
        totals = rng.multinomial(n_records, shares).reshape(self.shape)
        counts = [rng.multinomial(totals, emission[states]) for emission in emissions]
        parameters = np.concatenate([*(e.ravel() for e in emissions), transition.ravel(), initial])
        return tuple(parameters.tolist()), tuple(int(count) for table in counts for count in table.ravel())

    def draw_parameters(self, rng: np.random.Generator) -> tuple[list[Floats], Floats, Floats]:
        """Draw emissions, transitions and the first state's probabilities from the prior; see ``split``."""
        import numpy as np

        emissions = [rng.dirichlet(np.full(size, self.emission), size=self.states) for size in self.sizes]
        transition, initial = self.structure.draw_state_probabilities(None, rng)
        return emissions, transition, initial
