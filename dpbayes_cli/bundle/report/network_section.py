"""The section of a report about a network: its graph, and the posterior of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dpbayes_cli.bundle.report.markup import paragraph, prose, section
from dpbayes_cli.bundle.report.network_plot import network_plot, parents_first
from dpbayes_cli.bundle.report.page_figures import scrolling_figure, summary_columns
from dpbayes_cli.bundle.report.table_plot import table_plot
from dpbayes_cli.core.model_sections import NetworkTables

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.report.inline_svg import Picture

_MAX_TABLES = 16
"""Tables plotted at most; ``tables.csv`` holds all of them."""


def network_section(identifier: str, document: ReleaseDocument, tables: NetworkTables) -> str:
    """Return the pictures of a network and of its tables.

    Args:
        identifier: the section's identifier, for links.
        document: the release.
        tables: how its parameters form tables.
    """
    drawn, count = len(drawn_tables(tables)), len(tables.network)
    sentence = tables_text(document)
    parts = [
        *map(scrolling_figure, network_pictures(document, tables)),
        paragraph(f"{drawn} of {count} tables are plotted.", "quiet") if drawn < count else "",
        paragraph(prose(sentence)) if sentence else "",
    ]
    return section(identifier, "The network", parts)


def tables_text(document: ReleaseDocument) -> str:
    """Return a sentence about the file of all cells; empty if there is no such file."""
    counted = document.tables
    if isinstance(counted, msgspec.UnsetType):
        return ""
    return f"`tables.csv` holds every cell; its counts are {counted}."


def network_pictures(document: ReleaseDocument, tables: NetworkTables) -> list[Picture]:
    """Return the picture of the network and the plots of its tables, in the order of ``drawn_tables``."""
    network = tables.network
    pictures = [network_plot(network.names, network.sizes, network.parents, tables.target, "network")]
    parts = {name: tables.split(values) for name, values in summary_columns(document).items()}
    for i in drawn_tables(tables):
        parents = {network.names[j]: network.levels[j] for j in network.parents[i]}
        cells = {name: part[i] for name, part in parts.items()}
        pictures.append(table_plot(network.names[i], network.levels[i], parents, cells, f"table-{i}"))
    return pictures


def drawn_tables(tables: NetworkTables) -> list[int]:
    """Return the variables whose tables are plotted: the target, its children, then others, parents first."""
    target, parents = tables.target, tables.network.parents
    order = list(parents_first(parents))
    if target is not None:
        children = [i for i in order if target in parents[i]]
        order = list(dict.fromkeys([target, *children, *order]))
    return order[:_MAX_TABLES]
