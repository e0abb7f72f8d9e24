"""The section of a report about hidden states over time: their emissions, their transitions, and where they occur."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UnsetType

from dpbayes_cli.bundle.report.emissions_plot import emissions_plot
from dpbayes_cli.bundle.report.markup import paragraph, prose, section
from dpbayes_cli.bundle.report.page_figures import scrolling_figure, summary_columns
from dpbayes_cli.bundle.report.states_plot import states_plot
from dpbayes_cli.bundle.report.transitions_plot import transitions_plot
from dpbayes_cli.core.model_sections import StatesOverTime

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.report.inline_svg import Picture

MAX_FEATURES = 12
"""Features whose emissions are plotted at most; ``release.json`` holds all of them."""


def states_section(identifier: str, document: ReleaseDocument, over_time: StatesOverTime) -> str:
    """Return the pictures of hidden states.

    Args:
        identifier: the section's identifier, for links.
        document: the release.
        over_time: the meaning of its parameters.
    """
    drawn, count = min(len(over_time.features), MAX_FEATURES), len(over_time.features)
    sentence = states_text(document)
    parts = [
        paragraph("States are numbered from 1, the most frequent first; they have no other names.", "quiet"),
        *map(scrolling_figure, states_pictures(document, over_time)),
        paragraph(f"The emissions of the first {drawn} of {count} features are plotted.", "quiet")
        if drawn < count
        else "",
        paragraph(prose(sentence)) if sentence else "",
    ]
    return section(identifier, "The states", parts)


def states_text(document: ReleaseDocument) -> str:
    """Return a sentence about the file of all states; empty if there is no such file."""
    if isinstance(document.states, UnsetType):
        return ""
    return "`states.csv` holds, for each sequence and step, the most likely state and the probability of every state."


def states_pictures(document: ReleaseDocument, over_time: StatesOverTime) -> list[Picture]:
    """Return the plots of the states over time, if they are known, of the emissions, and of the transitions."""
    import numpy as np

    parts = {name: over_time.split(values) for name, values in summary_columns(document).items()}
    pictures = []
    if not isinstance(document.states, UnsetType):
        sequences, steps = over_time.axes
        pictures.append(states_plot(sequences, steps, np.array(document.states), "states"))
    for i, column in enumerate(over_time.features[:MAX_FEATURES]):
        cells = {name: emissions[i] for name, (emissions, _, _) in parts.items()}
        pictures.append(emissions_plot(column.role, column.levels, cells, f"emissions-{i}"))
    _, transition, initial = parts["mean"]
    return [*pictures, transitions_plot(transition, initial, "transitions")]
