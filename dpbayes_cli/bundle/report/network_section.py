"""The section of a report about a network: its picture, and the posterior of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dpbayes_cli.bundle.report.markup import paragraph, prose, section
from dpbayes_cli.bundle.report.network_plot import network_plot, parents_first
from dpbayes_cli.bundle.report.page_figures import scrolled, summary_columns
from dpbayes_cli.bundle.report.table_plot import table_plot
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteNetwork

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.report.inline_svg import Picture
    from dpbayes_cli.core.contracts import Model

_TABLES = 16
"""So many tables are drawn; ``tables.csv`` holds them all."""


def network_section(identifier: str, document: ReleaseDocument, model: Model) -> str:
    """Return the picture of a network and its tables; nothing where the model is none.

    Args:
        identifier: the name by which the section is linked to.
        document: the release.
        model: its model.
    """
    if not isinstance(model, DiscreteNetwork):
        return ""
    drawn, count = len(drawn_tables(model)), len(model.network)
    counted = tables_text(document)
    parts = [
        *map(scrolled, network_pictures(document, model)),
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


def network_pictures(document: ReleaseDocument, model: DiscreteNetwork) -> list[Picture]:
    """Return the picture of the network and the plots of its tables, the target's and its neighbours' first."""
    network = model.network
    found = [network_plot(network.names, network.sizes, network.parents, model.target, "network")]
    parts = {name: model.split(values) for name, values in summary_columns(document).items()}
    for i in drawn_tables(model):
        parents = {network.names[j]: network.levels[j] for j in network.parents[i]}
        cells = {name: tables[i] for name, tables in parts.items()}
        found.append(table_plot(network.names[i], network.levels[i], parents, cells, f"table-{i}"))
    return found


def drawn_tables(model: DiscreteNetwork) -> list[int]:
    """Return the variables whose tables are drawn: the target, what depends on it, and others, parents first."""
    order = list(parents_first(model.network.parents))
    if model.target is not None:
        near = [i for i in order if model.target in model.network.parents[i]]
        order = list(dict.fromkeys([model.target, *near, *order]))
    return order[:_TABLES]
