"""Mixtures of naive Bayes: a hidden class per record, and features that are independent given the class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from msgspec import Meta

from dpbayes_cli.core.columns import Column, CutColumn, RecordPolicy
from dpbayes_cli.core.encoded_records import CodedColumns
from dpbayes_cli.core.examples import Example, discrete_example
from dpbayes_cli.core.findings import Fact, Findings
from dpbayes_cli.core.joint_law import JointLaw, hidden_name
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Positive, Section, require_type
from dpbayes_cli.models.families.latent_variables import LatentVariables
from dpbayes_cli.models.families.network_domain import (
    Concentrations,
    VariableSection,
    check_variables,
    concentrations_by_variable,
)
from dpbayes_cli.privacy.dag import MAX_CELLS, Network

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.models.families.mixture_sweep import MixtureStructure

_MAX_CLASSES = 50


class NaiveBayesMixtureDomain(Section, frozen=True, kw_only=True):
    """The features, and the number of classes."""

    variables: Annotated[
        dict[str, VariableSection], Meta(min_length=1, description="for each column its values or cuts")
    ]
    classes: Annotated[int, Meta(ge=1, le=_MAX_CLASSES, description="the number of hidden classes")]

    def __post_init__(self) -> None:
        network = self.graph()
        cells = self.classes * sum(network.n_cells)
        if cells > MAX_CELLS:
            raise ValueError(f"the tables have {cells:,} cells, expected at most {MAX_CELLS:,}")
        weighted = next((name for name, part in self.variables.items() if part.weight != 1.0), None)
        if weighted is not None:
            raise ValueError(f"{weighted!r} has a weight, but this model adds no noise to tables; remove the weight")

    def graph(self) -> Network:
        """Return the graph of the variables, without the class."""
        return check_variables(self.variables, [() for _ in self.variables], None)


class NaiveBayesMixturePrior(Section, frozen=True, kw_only=True):
    """Dirichlet priors on the class probabilities, and on each feature given the class."""

    classes: Annotated[Positive, Meta(description="concentration of the class probabilities")] = 1.0
    concentration: Concentrations = 1.0


@dataclass(frozen=True)
class NaiveBayesMixture(LatentVariables):
    """Hidden classes z_i ~ shares; independent features x_ij ~ theta_j[z_i]; Dirichlet priors on all probabilities.

    Privacy: only a private chain reads the records; see ``PrivateGibbs``. Replacing a record changes the law of that
        record's class, and changes the counts in each feature's table by one record.
    Source: Foulds et al. 2016, sec. 4.1 (latent variables each associated with one data point).

    Attributes:
        share: the prior concentration of the class probabilities.
        concentrations: for each variable the prior concentration of each of its values.
    """

    variables: tuple[Column | CutColumn, ...]
    classes: int
    share: float
    concentrations: tuple[tuple[float, ...], ...]

    name: ClassVar[str] = "naive-bayes-mixture"
    summary: ClassVar[str] = "hidden classes, and features independent given the class; Dirichlet priors"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="Draws of the class probabilities and of each class's feature tables, from a private chain. The "
        "class of each record is part of the chain's state and is not released.",
        guarantee="The mechanism gives the guarantee. If a record is replaced, only the law of that record's "
        "class changes in the update of the classes. In the update of the feature tables, the counts change by one "
        "record.",
        assumptions="Records are complete: a public value replaces every invalid cell. Given its class, a record's "
        "features are independent. Values, cut points and the number of classes are public. All records are kept in "
        "memory, with one to four bytes per cell.",
        source="Foulds, Geumlek, Welling and Chaudhuri 2016, sec. 4.1; Goodman 1974 (latent classes).",
        corrections="The model does not determine the order of the classes, so the order could differ between draws. "
        "Therefore classes are numbered by frequency; class 1 is the most frequent class.",
        prefer_when="You look for groups of records, and no column states the group. The model has no small statistic "
        "to which noise could be added.",
    )
    domain_type: ClassVar[type[Section]] = NaiveBayesMixtureDomain
    prior_type: ClassVar[type[Section]] = NaiveBayesMixturePrior
    examples: ClassVar[tuple[Example, ...]] = (
        discrete_example({"variables": {"x": {"values": ["1", "0"]}, "y": {"cuts": [1.0, 2.0]}}, "classes": 2}),
        discrete_example({"variables": {"x": {"values": ["1", "0", "2"]}}, "classes": 1}),
    )
    first_spec: ClassVar[Mapping[str, str]] = {
        "variables": "\nage: {cuts: [40, 60], impute: 50}\nsmoker: {values: [yes, no], impute: no}",
        "classes": "2",
    }
    default_mechanism: ClassVar[str] = "gibbs"

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        parts, stated_prior = require_type(domain, NaiveBayesMixtureDomain), require_type(prior, NaiveBayesMixturePrior)
        return cls(
            tuple(part.column(name) for name, part in parts.variables.items()),
            parts.classes,
            stated_prior.classes,
            concentrations_by_variable(stated_prior.concentration, parts.graph()),
        )

    @property
    def columns(self) -> tuple[Column | CutColumn, ...]:
        return self.variables

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.role for column in self.variables)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Tables by feature and class, then the class probabilities; classes are numbered from 1."""
        names = [str(k + 1) for k in range(self.classes)]
        return (
            *(
                f"theta[{column.role}={level}|class={k}]"
                for column in self.variables
                for k in names
                for level in column.levels
            ),
            *(f"share[class={k}]" for k in names),
        )

    @property
    def structure(self) -> MixtureStructure:
        """The structure of the model for a chain that draws the class of each record."""
        from dpbayes_cli.models.families.mixture_sweep import MixtureStructure

        return MixtureStructure(self.classes, self.concentrations, concentration=self.share)

    def chain_input(self, policy: RecordPolicy) -> CodedColumns:
        return CodedColumns(self.variables)

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        share = Fact("about", len(self.parameters) - self.classes, "are in class 1", is_share=True)
        return Findings((share,), f"{self.classes} hidden classes of records were estimated, the largest first")

    def joint_law(self, column: str, draws: Floats, states: Integers | None) -> JointLaw:
        import numpy as np

        sizes = [len(each.levels) for each in self.variables]
        *tables, shares = np.split(draws, np.cumsum([self.classes * size for size in sizes]), axis=1)
        names = (*self.column_names, hidden_name("class", self.column_names))
        levels = (*(each.levels for each in self.variables), tuple(str(k + 1) for k in range(self.classes)))
        network = Network(names, levels, (*((len(sizes),) for _ in sizes), ()))
        shaped = [table.reshape(-1, self.classes, size) for table, size in zip(tables, sizes, strict=True)]
        return JointLaw(network, self.variables, (*shaped, shares))

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return no prediction: the order of classes may differ between draws, so means over draws have no meaning."""
        return {}
