"""The privacy section of a spec: what is promised, and to whom."""

from typing import Annotated

from msgspec import Meta

from dpbayes_cli.core.section import Section
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.flags import said
from dpbayes_cli.spec.option_sections import OptionsSection


class UnitSection(Section, frozen=True, kw_only=True):
    """Who is protected: the unit that may have several records."""

    column: Annotated[str, Meta(min_length=1, description=said("privacy.unit.column"))]
    max_contributions: Annotated[int, Meta(ge=1, le=100_000, description=said("privacy.unit.max_contributions"))] = 1


class PrivacySection(OptionsSection, frozen=True, kw_only=True):
    """What is promised."""

    neighbors: Annotated[
        Neighbors,
        Meta(description=said("privacy.neighbors")),
    ] = Neighbors.REPLACE_ONE
    unit: Annotated[UnitSection | None, Meta(description="whose records neighbors differ in [one record]")] = None
