"""The section of a report about a network: its picture, and the posterior of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.bundle.files import spec_of
from dpbayes_cli.bundle.markup import figure
from dpbayes_cli.bundle.network_plot import network_plot, parents_first
from dpbayes_cli.bundle.table_plot import table_plot
from dpbayes_cli.discrete_network import DiscreteNetwork

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ReleaseDocument

_TABLES = 16
"""So many tables are drawn; ``tables.csv`` holds them all."""


def network_of(document: ReleaseDocument) -> DiscreteNetwork | None:
    """Return the network that a release is about, None where it is about another model."""
    model = spec_of(document).build_model()
    return model if isinstance(model, DiscreteNetwork) else None


def network_figures(document: ReleaseDocument, model: DiscreteNetwork) -> list[str]:
    """Return the picture of the network and the plots of its tables, the target's and its neighbours' first."""
    import numpy as np

    network = model.network
    picture = network_plot(network.names, network.sizes, network.parents, model.target, "network")
    found = [_scrolled(picture.svg, picture.caption)]
    summaries = list(document.posterior.values())
    columns = {
        "mean": np.array([p.mean for p in summaries]),
        "q05": np.array([p.mean if p.q05 is None else p.q05 for p in summaries]),
        "q95": np.array([p.mean if p.q95 is None else p.q95 for p in summaries]),
    }
    parts = {name: model.split(values) for name, values in columns.items()}
    for i in drawn_tables(model):
        parents = {network.names[j]: network.levels[j] for j in network.parents[i]}
        cells = {name: tables[i] for name, tables in parts.items()}
        plot = table_plot(network.names[i], network.levels[i], parents, cells, f"table-{i}")
        found.append(_scrolled(plot.svg, plot.caption))
    return found


def drawn_tables(model: DiscreteNetwork) -> list[int]:
    """Return the variables whose tables are drawn: the target, what depends on it, and others, parents first."""
    order = list(parents_first(model.network.parents))
    if model.target is not None:
        near = [i for i in order if model.target in model.network.parents[i]]
        order = list(dict.fromkeys([model.target, *near, *order]))
    return order[:_TABLES]


def _scrolled(svg: str, caption: str) -> str:
    """Return a figure that is as wide as it needs to be read, and scrolls where the page is narrower."""
    return figure(f'<div class="wide" tabindex="0" role="group" aria-label="drawing">{svg}</div>', caption)
