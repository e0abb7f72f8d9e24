"""Naive Bayes: a class, and features that are independent given the class."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from msgspec import Meta

from dpbayes_cli.core.examples import Example, discrete_example
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section, require_type
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.models.families.network_domain import Concentrations, VariableSection, check_variables


class NaiveBayesDomain(Section, frozen=True, kw_only=True):
    """The class and the features."""

    target: Annotated[str, Meta(description="the name of the class variable")]
    variables: Annotated[
        dict[str, VariableSection], Meta(min_length=2, description="for each column its values or cuts")
    ]

    def __post_init__(self) -> None:
        check_variables(self.variables, self.parents, self.target)

    @property
    def parents(self) -> list[tuple[str, ...]]:
        """The parents of each variable: the class has no parent, and each feature has the class as its parent."""
        return [() if name == self.target else (self.target,) for name in self.variables]


class NaiveBayesPrior(Section, frozen=True, kw_only=True):
    """Dirichlet priors on the class and on each feature given the class."""

    concentration: Concentrations = 1.0


@dataclass(frozen=True)
class NaiveBayes(DiscreteBayesNet):
    """Class c ~ theta; feature x_j ~ theta_{j|c}; every row of every table has a Dirichlet prior.

    Source: Zhang, Rubinstein and Dimitrakakis 2016, sec. 3 and Fig. 1.
    """

    name: ClassVar[str] = "naive-bayes"
    summary: ClassVar[str] = (
        "a class, and features independent given the class; Dirichlet priors; classifies new records"
    )
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="Noisy counts of the class, and noisy joint counts of the class and each feature; fourier-laplace "
        "releases noisy parities instead. From the released numbers, inference computes the posterior of every "
        "conditional probability table.",
        guarantee="The mechanism gives the guarantee. For m features the L1 sensitivity is 2 (m + 1) under replace-one "
        "and m + 1 under add-remove, because a record is in one cell of every table.",
        assumptions="Features are independent given the class. Values and cut points are public. A record with an "
        "invalid cell is left out of the tables with that column, but counts in all others. With impute, a public "
        "value replaces the invalid cell.",
        source="Zhang, Rubinstein and Dimitrakakis 2016, Algorithms 1 to 3 and Figure 1.",
        corrections="The paper clips noisy counts and treats them as exact. Here inference accounts for the noise, "
        "and combines the class totals of all tables. Variables may have more than two values.",
        prefer_when="You predict one column from many others with a small budget. This model needs only small tables "
        "of counts, which cost little.",
    )
    domain_type: ClassVar[type[Section]] = NaiveBayesDomain
    prior_type: ClassVar[type[Section]] = NaiveBayesPrior
    examples: ClassVar[tuple[Example, ...]] = tuple(
        discrete_example({"target": "t", "variables": variables})
        for variables in (
            {"t": {"values": ["p", "q"]}, "x": {"cuts": [0.5]}, "y": {"values": ["u", "v"]}},
            {"x": {"values": ["1", "0"]}, "t": {"values": ["p", "q", "r"]}, "y": {"cuts": [1.0, 2.0], "impute": "1.5"}},
        )
    )
    first_spec: ClassVar[Mapping[str, str]] = {
        "target": "ill",
        "variables": "\nill: {values: [yes, no], impute: no}\nage: {cuts: [40, 60], impute: 50}\n"
        "smoker: {values: [yes, no], impute: no}",
    }

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        graph = require_type(domain, NaiveBayesDomain)
        concentrations = require_type(prior, NaiveBayesPrior).concentration
        return cls.of_variables(graph.variables, graph.parents, graph.target, concentrations)
