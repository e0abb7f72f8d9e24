"""The structure section of a spec, which requests a tree that is found privately instead of stated in the domain."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from msgspec import Meta

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.core.columns import RecordPolicy, has_stand_in
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.private_choice import Chosen, Parents
from dpbayes_cli.core.private_tree import PrivateTree
from dpbayes_cli.core.section import Section
from dpbayes_cli.privacy.guarantee import check_epsilon
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.bounds_section import BoundsSection, check_place_of_bounds, no_bounds, unbounded_domain
from dpbayes_cli.spec.convert_section import Exact, exact_number

_PLACE = "structure.private"
TREE_PER_TABLES = Decimal("0.25")
"""The default epsilon of the tree, as a multiple of the epsilon of the tables: a fifth of the total."""


class PrivateStructureSection(Section, frozen=True, kw_only=True):
    """How the structure is found privately, at its own privacy cost."""

    kind: Annotated[
        Literal["tree"], Meta(description="the structure: a tree, in which each variable has one parent")
    ] = "tree"
    epsilon: Annotated[
        Exact | None,
        Meta(
            description="privacy cost of the tree, on top of that of the tables [0.25 times the epsilon of the tables]"
        ),
    ] = None

    def __post_init__(self) -> None:
        exact = exact_number(self, "epsilon")
        if exact is not None:
            _check_epsilon(exact)


class StructureSection(Section, frozen=True, kw_only=True):
    """Where the structure comes from, if the domain does not state it."""

    private: Annotated[PrivateStructureSection, Meta(description="the tree is chosen privately from the data")]

    def law(
        self, model: type[Model], policy: RecordPolicy, domain: Section, epsilon_of_tables: Decimal | None
    ) -> PrivateTree:
        """Return the law by which the tree is drawn.

        Raises:
            SpecError: a tree cannot be chosen privately from such records, or at such a cost.
        """
        columns, root = model.tree_variables(domain)
        if policy.neighbors is not Neighbors.REPLACE_ONE:
            raise SpecError(
                "under add-remove the number of records is private, but the scores of the edges need it",
                where="privacy.neighbors",
                hint="choose replace-one, or state the parents of each variable",
            )
        if policy.contributions > 1:
            raise SpecError(
                "if a unit may have several records, their number is private, but the scores of the edges need it",
                where="privacy.unit.max_contributions",
                hint="count one record of each unit, or state the parents of each variable",
            )
        incomplete = [column.role for column in columns if not has_stand_in(policy, column)]
        if incomplete:
            raise SpecError(
                f"records with an invalid cell would be dropped, but their scores need all records: {incomplete[0]!r} "
                "has no stand-in",
                where=f"domain.variables.{incomplete[0]}.impute",
                hint="state impute for every variable: the public value that replaces an invalid cell",
            )
        mixed = [column.role for column in columns if any(mark in column.role for mark in "=|,")]
        mixed += [text for column in columns for text in column.levels if any(mark in text for mark in "|,")]
        if mixed:  # whether two cells have the same name would depend on the tree
            raise SpecError(
                f"{mixed[0]!r} holds a character that joins the parts of a cell's name (=, | or a comma)",
                where="domain.variables",
                hint="rename the column or the value, or state the parents of each variable",
            )
        try:
            return PrivateTree.of_columns(columns, root, self._epsilon(epsilon_of_tables))
        except ValueError as error:
            raise SpecError(str(error), where="domain.variables", hint="state the parents of each variable") from None

    def _epsilon(self, of_tables: Decimal | None) -> Decimal:
        if self.private.epsilon is not None:
            return parse_decimal(self.private.epsilon)
        if of_tables is None:
            raise SpecError(
                "missing, because the cost of the tables states no epsilon",
                where=f"{_PLACE}.epsilon",
                hint="state it in the spec, such as: structure: {private: {epsilon: 0.3}}",
            )
        epsilon = TREE_PER_TABLES * of_tables
        _check_epsilon(epsilon)
        return epsilon


def _check_epsilon(epsilon: Decimal) -> None:
    try:
        check_epsilon(epsilon)
    except SpecError:
        raise SpecError(
            f"epsilon is {epsilon:g}; allowed: 1e-12 to 1000", where=f"{_PLACE}.epsilon", hint="for example 0.3"
        ) from None


def domain_with_tree(model: type[Model], law: PrivateTree, domain: Section, chosen: Chosen | None) -> Section:
    """Return the domain of a model with a chosen tree or, if it is None, with the tree that plans use.

    Raises:
        SpecError: the law cannot choose this tree.
    """
    parents: Parents = law.star() if chosen is None else law.checked(chosen)
    return model.with_parents(domain, parents)


def private_section(model: type[Model], document: Mapping[str, Any]) -> str:
    """Return ``structure`` or ``bounds`` if a request has this section, else an empty text.

    Raises:
        SpecError: the model has no structure or no bounds that can be found privately, or states them too.
    """
    if document.get("structure") is not None:
        if not model.has_private_trees:
            raise SpecError(
                f"the structure of {model.name} cannot be found privately", where="structure", hint="leave it out"
            )
        return "structure"
    if document.get("bounds") is not None:
        check_place_of_bounds(model, document)
        return "bounds"
    return ""


def choice_fields(kind: type[Model], private: str) -> tuple[type[Section], list[Any]]:
    """Return the type of a spec's domain, and the fields ``bounds`` and ``structure`` of the spec.

    Args:
        private: ``bounds`` or ``structure`` if the spec has this section in place of keys of the domain.
    """
    if private == "bounds":
        check_place_of_bounds(kind, {})
    bounds = (BoundsSection,) if private == "bounds" else (no_bounds(kind), None)
    structure = (StructureSection,) if private == "structure" else (_no_structure(kind), None)
    domain = unbounded_domain(kind) if private == "bounds" else kind.domain_type
    return domain, [("bounds", *bounds), ("structure", *structure)]


def _no_structure(kind: type[Model]) -> Any:
    """Return the type of the key ``structure`` in a spec whose domain states the structure; it allows only None."""
    if not kind.has_private_trees:
        return None
    text = "a private tree, in place of the parents in domain.variables: {private: {epsilon: 0.3, kind: tree}}"
    return Annotated[None, Meta(description=text)]
