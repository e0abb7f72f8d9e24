"""The privacy section of a spec: the guarantee, and whom it protects."""

from typing import Annotated

from msgspec import Meta

from dpbayes_cli.core.section import Section
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.flags import description_of
from dpbayes_cli.spec.option_sections import OptionsSection


class UnitSection(Section, frozen=True, kw_only=True):
    """A privacy unit that may have several records."""

    column: Annotated[str, Meta(min_length=1, description=description_of("privacy.unit.column"))]
    max_contributions: Annotated[
        int, Meta(ge=1, le=100_000, description=description_of("privacy.unit.max_contributions"))
    ] = 1


class PrivacySection(OptionsSection, frozen=True, kw_only=True):
    """The guarantee: its neighbors, its unit, and what a mechanism reads of its cost."""

    neighbors: Annotated[
        Neighbors,
        Meta(description=description_of("privacy.neighbors")),
    ] = Neighbors.REPLACE_ONE
    unit: Annotated[
        UnitSection | None,
        Meta(description="whose data is protected: all records with the same value in a column [one record]"),
    ] = None
