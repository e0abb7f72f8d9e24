"""Bayes net: discrete variables, each with a conditional probability table given its parents."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from msgspec import Meta
from msgspec.structs import replace

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import Column, CutColumn
from dpbayes_cli.core.examples import Example, discrete_example
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.private_choice import Parents
from dpbayes_cli.core.section import Section, require_type
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.models.families.network_domain import Concentrations, VariableSection, check_variables


class NodeSection(VariableSection, frozen=True, kw_only=True):
    """A variable with its parents."""

    parents: Annotated[
        tuple[str, ...], Meta(max_length=16, description="the variables on which this variable depends")
    ] = ()


class BayesNetDomain(Section, frozen=True, kw_only=True):
    """A directed acyclic graph of variables."""

    variables: Annotated[
        dict[str, NodeSection], Meta(min_length=1, description="for each column its values or cuts, and its parents")
    ]
    target: Annotated[str | None, Meta(description="the variable to predict by default")] = None

    def __post_init__(self) -> None:
        check_variables(self.variables, self.parents, self.target)

    @property
    def parents(self) -> list[tuple[str, ...]]:
        """The parents of each variable, by name."""
        return [part.parents for part in self.variables.values()]


class BayesNetPrior(Section, frozen=True, kw_only=True):
    """Dirichlet priors on the rows of the tables."""

    concentration: Concentrations = 1.0


@dataclass(frozen=True)
class BayesNet(DiscreteBayesNet):
    """x_i ~ theta_{i|parents}; every row of every table has a Dirichlet prior.

    Source: Zhang, Rubinstein and Dimitrakakis 2016, sec. 2 and 3.
    """

    name: ClassVar[str] = "bayes-net"
    summary: ClassVar[str] = "a directed acyclic graph of discrete variables, Dirichlet priors on its tables"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="Noisy joint counts of each variable and its parents; fourier-laplace releases noisy parities "
        "instead. From the released numbers, inference computes the posterior of every conditional probability table.",
        guarantee="The mechanism gives the guarantee. For |I| variables the L1 sensitivity is 2 |I| under replace-one "
        "and |I| under add-remove, because a record is in one cell of every table.",
        assumptions="The values and the cut points are public and chosen without looking at the records, and so is the "
        "graph, unless the first step of the release chooses a tree privately (structure). A "
        "record with an invalid cell is left out of the tables with that column, but counts in all others. With "
        "impute, a public value replaces the invalid cell.",
        source="Zhang, Rubinstein and Dimitrakakis 2016, Algorithms 1 to 3.",
        corrections="The paper clips noisy counts and treats them as exact. Here inference accounts for the noise. If "
        "several tables estimate the same totals, inference combines their estimates; in a tree, the draws of all "
        "tables agree on the columns that they share. Variables may have more than two values.",
        prefer_when="You have several questions about how columns depend on each other, and the graph is known.",
    )
    has_private_trees: ClassVar[bool] = True
    domain_type: ClassVar[type[Section]] = BayesNetDomain
    prior_type: ClassVar[type[Section]] = BayesNetPrior
    examples: ClassVar[tuple[Example, ...]] = tuple(
        discrete_example({"variables": variables})
        for variables in (
            {"a": {"values": ["x", "y"]}},
            {
                "c": {"cuts": [0.0, 2.5], "parents": ["b", "a"]},
                "a": {"values": ["x", "y"], "impute": "y"},
                "b": {"values": ["1", "2", "3"], "parents": ["a"]},
            },
            {v: {"values": ["0", "1"], "parents": [*p]} for v, p in {"a": "", "b": "a", "c": "ab", "d": "cb"}.items()},
        )
    )
    first_spec: ClassVar[Mapping[str, str]] = {
        "variables": "\nage: {cuts: [40, 60], impute: 50}\nsmoker: {values: [yes, no], parents: [age], impute: no}\n"
        "ill: {values: [yes, no], parents: [age, smoker], impute: no}"
    }

    @classmethod
    def tree_variables(cls, domain: Section) -> tuple[tuple[Column | CutColumn, ...], str]:
        graph = require_type(domain, BayesNetDomain)
        for name, variable in graph.variables.items():
            if variable.parents:
                raise SpecError(
                    "this variable states its parents, although the tree is to be chosen privately",
                    where=f"domain.variables.{name}.parents",
                    hint="leave out either the parents of all variables or structure",
                )
        columns = tuple(variable.column(name) for name, variable in graph.variables.items())
        return columns, graph.target or columns[0].role

    @classmethod
    def with_parents(cls, domain: Section, parents: Parents) -> Section:
        graph = require_type(domain, BayesNetDomain)
        variables = {name: replace(graph.variables[name], parents=of) for name, of in parents}
        return replace(graph, variables=variables)

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        graph = require_type(domain, BayesNetDomain)
        concentrations = require_type(prior, BayesNetPrior).concentration
        return cls.of_variables(graph.variables, graph.parents, graph.target, concentrations)
