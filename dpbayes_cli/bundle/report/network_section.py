"""The section of a report about a network: its picture, and the posterior of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dpbayes_cli.bundle.report.markup import paragraph, prose, section
from dpbayes_cli.bundle.report.network_plot import network_plot, parents_first
from dpbayes_cli.bundle.report.page_figures import scrolled, summary_columns
from dpbayes_cli.bundle.report.table_plot import table_plot
from dpbayes_cli.core.model_sections import NetworkTables

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.report.inline_svg import Picture

_TABLES = 16
"""So many tables are drawn; ``tables.csv`` holds them all."""


def network_section(identifier: str, document: ReleaseDocument, tables: NetworkTables) -> str:
    """Return the picture of a network and its tables.

    Args:
        identifier: the name by which the section is linked to.
        document: the release.
        tables: what its parameters are.
    """
    drawn, count = len(drawn_tables(tables)), len(tables.network)
    counted = tables_text(document)
    parts = [
        *map(scrolled, network_pictures(document, tables)),
        paragraph(f"{drawn} of {count} tables are drawn.", "quiet") if drawn < count else "",
        paragraph(prose(counted)) if counted else "",
    ]
    return section(identifier, "The network", parts)


def tables_text(document: ReleaseDocument) -> str:
    """Return what the table of all cells holds, a sentence; nothing where there is none."""
    counted = document.tables
    if isinstance(counted, msgspec.UnsetType):
        return ""
    return f"`tables.csv` holds every cell; its counts are {counted}."


def network_pictures(document: ReleaseDocument, tables: NetworkTables) -> list[Picture]:
    """Return the picture of the network and the plots of its tables, the target's and its neighbors' first."""
    network = tables.network
    found = [network_plot(network.names, network.sizes, network.parents, tables.target, "network")]
    parts = {name: tables.split(values) for name, values in summary_columns(document).items()}
    for i in drawn_tables(tables):
        parents = {network.names[j]: network.levels[j] for j in network.parents[i]}
        cells = {name: part[i] for name, part in parts.items()}
        found.append(table_plot(network.names[i], network.levels[i], parents, cells, f"table-{i}"))
    return found


def drawn_tables(tables: NetworkTables) -> list[int]:
    """Return the variables whose tables are drawn: the target, what depends on it, and others, parents first."""
    target, parents = tables.target, tables.network.parents
    order = list(parents_first(parents))
    if target is not None:
        near = [i for i in order if target in parents[i]]
        order = list(dict.fromkeys([target, *near, *order]))
    return order[:_TABLES]
