"""How each kind of section is drawn, for every model that declares it, plug-ins included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbayes_cli.bundle.report.markup import identifier_of
from dpbayes_cli.bundle.report.network_section import network_pictures, network_section
from dpbayes_cli.bundle.report.states_section import states_pictures, states_section
from dpbayes_cli.core.model_sections import ModelSection, NetworkTables, StatesOverTime, section_of

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.report.inline_svg import Picture
    from dpbayes_cli.core.model import Model


@dataclass(frozen=True)
class SectionDrawing:
    """How a kind of section is drawn.

    Attributes:
        title: its heading.
        kind: the type of the section.
        markup: makes its markup from its identifier, the release and the section.
        pictures: makes its pictures from the release and the section.
    """

    title: str
    kind: type[ModelSection]
    markup: Callable[[str, ReleaseDocument, Any], str]
    pictures: Callable[[ReleaseDocument, Any], list[Picture]]

    def section(self, document: ReleaseDocument, model: Model) -> str:
        """Return this section of a release's page; empty if the model does not declare it."""
        declared = section_of(model.sections(), self.kind)
        return "" if declared is None else self.markup(identifier_of(self.title), document, declared)


DRAWINGS = (
    SectionDrawing("The network", NetworkTables, network_section, network_pictures),
    SectionDrawing("The states", StatesOverTime, states_section, states_pictures),
)
"""In the order of the page."""


def section_pictures(document: ReleaseDocument, model: Model) -> list[Picture]:
    """Return the pictures of all sections that the model declares."""
    sections = ((drawing, section_of(model.sections(), drawing.kind)) for drawing in DRAWINGS)
    return [picture for drawing, part in sections if part is not None for picture in drawing.pictures(document, part)]
