"""Dirichlet-categorical: the probabilities of K categories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from msgspec import Meta

from dpbayes_cli.base.cell_grammar import check_levels
from dpbayes_cli.core.columns import Column, RecordPolicy
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.findings import Findings, share_of
from dpbayes_cli.core.joint_law import JointLaw
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyCounts, record_count
from dpbayes_cli.core.section import Level, Positive, Section, require_type
from dpbayes_cli.core.statistic import CountAt, Statistic, Witness
from dpbayes_cli.models.families.beta_probability import beta_quantiles
from dpbayes_cli.models.families.capabilities import ConjugatePosterior, DirichletProbabilities, Simulated
from dpbayes_cli.models.families.grouped import Groupable
from dpbayes_cli.models.families.network_domain import by_key
from dpbayes_cli.privacy.conjugate import DirichletFamily
from dpbayes_cli.privacy.dag import Network
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats, Integers
_FEW = 4
"""Up to this many categories, a result names the share of each."""


class DirichletCategoricalDomain(Section, frozen=True, kw_only=True):
    """The texts that a valid cell may hold."""

    categories: Annotated[
        tuple[Level, ...],
        Meta(min_length=2, max_length=10_000, description="the valid texts, in the order of the output"),
    ]

    def __post_init__(self) -> None:
        check_levels(self.categories)


class DirichletCategoricalPrior(Section, frozen=True, kw_only=True):
    """Dirichlet prior: the same concentration for all categories, or one for each."""

    concentration: Annotated[
        Positive | dict[str, Positive],
        Meta(description="a number for all categories, or a mapping from category to number"),
    ] = 1.0


@dataclass(frozen=True)
class DirichletCategorical(DirichletProbabilities, ConjugatePosterior, Groupable):
    """theta ~ Dirichlet(concentration); each valid record falls into category k with probability theta_k.

    The conjugate update adds the counts to the concentrations; the posterior predictive probability of a category
    is the posterior mean of its theta.

    Source: Bernstein and Sheldon 2018 sec. 3.1 and Fig. 1 (multinomial); Zhang et al. 2016 Alg. 1.
    """

    name: ClassVar[str] = "dirichlet-categorical"
    summary: ClassVar[str] = "probabilities of K categories, Dirichlet prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="One noisy count for each of the K public categories. From the released numbers, inference computes "
        "the posterior of theta, the vector of probabilities.",
        guarantee="The mechanism gives the guarantee. The L1 sensitivity is 2 under replace-one (one count falls, "
        "another rises) and 1 under add-remove.",
        assumptions="Each record holds one category from a public list. Records are independent given theta. With "
        "impute:VALUE, an invalid cell counts as if it held VALUE; the custodian states that VALUE is a fair stand-in.",
        source="Bernstein and Sheldon 2018, sec. 3 and Fig. 1 (multinomial); Zhang, Rubinstein and Dimitrakakis 2016, "
        "Alg. 1.",
        corrections="Noise is drawn independently for each count. The code of Bernstein and Sheldon adds the same "
        "draw to all counts, which is not private. The posterior uses the exact law of the integer counts, not a "
        "normal approximation.",
        prefer_when="You ask one multiple-choice question about each person.",
    )
    domain_type: ClassVar[type[Section]] = DirichletCategoricalDomain
    prior_type: ClassVar[type[Section]] = DirichletCategoricalPrior
    has_larger_groups: ClassVar[bool] = True
    suggested_for: ClassVar[str] = "texts"
    examples: ClassVar[tuple[Example, ...]] = (
        Example({"categories": ["a", "b"]}),
        Example({"categories": ["a", "b", "c", "d"]}),
    )
    first_spec: ClassVar[Mapping[str, str]] = {"categories": "[yes, no, undecided]"}
    first_spec_drawn: ClassVar[Mapping[str, str]] = {"on_invalid": "impute:undecided"}

    has_one_unit: ClassVar[bool] = True

    labels: tuple[str, ...]
    concentration: tuple[float, ...]

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        labels = require_type(domain, DirichletCategoricalDomain).categories
        concentration = require_type(prior, DirichletCategoricalPrior).concentration
        return cls(labels, by_key(concentration, labels, "prior.concentration", "category"))

    @property
    def columns(self) -> tuple[Column, ...]:
        """The column of categories; its levels have the order of the spec."""
        return (Column("answer", self.labels),)

    @property
    def parameters(self) -> tuple[str, ...]:
        """One parameter for each category, ``theta[label]``."""
        return tuple(f"theta[{label}]" for label in self.labels)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the probability that a new valid record falls into each category."""
        return dict(zip(self.labels, mean, strict=True))

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        """Return the shares of the categories with the highest estimates; of all categories, if they are few."""
        order = sorted(range(len(self.labels)), key=lambda k: -estimates[k])
        few = len(order) <= _FEW
        topic = "" if few else f"this release estimates {len(order)} shares, and the two highest are these"
        return Findings(tuple(share_of(column, self.labels[k], k) for k in order[: len(order) if few else 2]), topic)

    def joint_law(self, column: str, draws: "Floats", states: "Integers | None") -> JointLaw:
        network = Network((column or "category",), (self.labels,), ((),))
        return JointLaw(network, (Column(network.names[0], self.labels),), (draws,))

    def prior_quantiles(self, levels: "Floats") -> "Floats":
        total = sum(self.concentration)
        return beta_quantiles(self.concentration, [total - c for c in self.concentration], levels)

    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the K counts.

        Privacy: a record contributes a unit vector t(x), or zero if it is dropped. Under replace-one, two unit vectors
            differ by at most 2 in L1 and sqrt(2) in L2, attained by two different categories; a unit vector and zero
            differ by 1. Under add-remove, ||t(x)||_1 <= 1, attained by any category.
        Source: derived here.
        """
        add_remove = policy.neighbors is Neighbors.ADD_REMOVE
        return Statistic(
            tuple(f"count[{label}]" for label in self.labels),
            tuple(CountAt("answer", level) for level in range(len(self.labels))),
            1 if add_remove else 2,
            Witness((self.labels[0],), None if add_remove else (self.labels[1],)),
            1 if add_remove else 2,
            largest_change=1,
        )

    def simulated(self, policy: RecordPolicy, n_records: int, rng: "np.random.Generator") -> Simulated:
        theta = rng.dirichlet(self.concentration)
        return tuple(theta.tolist()), tuple(rng.multinomial(n_records, theta).tolist())

    def family(self, n_records: int) -> DirichletFamily:
        return DirichletFamily(self.concentration, n_records)

    def group_outcome(self) -> GroupedCounts:
        return GroupedCounts(self.concentration)

    def observation(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisyCounts:
        """Return the noisy count of each category; their total is known only for complete records."""
        return NoisyCounts(self.concentration, tuple(released), noise, record_count(policy, n_records))
