"""The figures of the sections that a model declares: a network with its tables, or hidden states over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import UnsetType

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.report.inline_svg import Picture
from dpbayes_cli.bundle.report.network_plot import network_plot, parents_first
from dpbayes_cli.bundle.report.probability_plots import emissions_plot, table_plot
from dpbayes_cli.bundle.report.states_plot import states_plot
from dpbayes_cli.bundle.report.transitions_plot import transitions_plot
from dpbayes_cli.bundle.report.wording import states_text, tables_text
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.model_sections import NetworkTables, StatesOverTime
from dpbayes_cli.privacy.lazy_numpy import np

MAX_FEATURES, MAX_TABLES = 12, 16
"""The largest numbers of features and of tables that are plotted."""


@dataclass(frozen=True)
class DrawnSection:
    """A section of the page with its figures."""

    title: str
    pictures: list[Picture]
    introduction: str = ""  # sentences before the figures
    left_out: str = ""  # a sentence that says how many of the parts are plotted; empty if all are plotted
    about_file: str = ""  # a sentence about the file with all values; empty if there is no such file


def drawn_sections(document: ReleaseDocument, model: Model) -> Iterator[DrawnSection]:
    """Yield the sections that the model declares, with their figures."""
    for part in model.sections():
        match part:
            case NetworkTables():
                yield _draw_network(document, part)
            case StatesOverTime():
                yield _draw_states(document, part)


def _draw_network(document: ReleaseDocument, tables: NetworkTables) -> DrawnSection:
    network = tables.network
    pictures = [network_plot(network.names, network.sizes, network.parents, tables.target, "network")]
    parts = {name: tables.split(values) for name, values in _summary_columns(document).items()}
    drawn = drawn_tables(tables)
    for i in drawn:
        parents = {network.names[j]: network.levels[j] for j in network.parents[i]}
        cells = {name: part[i] for name, part in parts.items()}
        pictures.append(table_plot(network.names[i], network.levels[i], parents, cells, f"table-{i}"))
    left_out = f"{len(drawn)} of {len(network)} tables are plotted." if len(drawn) < len(network) else ""
    return DrawnSection("The network", pictures, left_out=left_out, about_file=tables_text(document))


def drawn_tables(tables: NetworkTables) -> list[int]:
    """Return the variables whose tables are plotted: the target, its children, then others, parents before children."""
    target, parents = tables.target, tables.network.parents
    order = list(parents_first(parents))
    if target is not None:
        children = [i for i in order if target in parents[i]]
        order = list(dict.fromkeys([target, *children, *order]))
    return order[:MAX_TABLES]


def _draw_states(document: ReleaseDocument, over_time: StatesOverTime) -> DrawnSection:
    parts = {name: over_time.split(values) for name, values in _summary_columns(document).items()}
    pictures = []
    if not isinstance(document.states, UnsetType):
        pictures.append(states_plot(*over_time.axes, np.array(document.states), "states"))
    for i, column in enumerate(over_time.features[:MAX_FEATURES]):
        cells = {name: emissions[i] for name, (emissions, _, _) in parts.items()}
        pictures.append(emissions_plot(column.role, column.levels, cells, f"emissions-{i}"))
    _, transition, initial = parts["mean"]
    pictures.append(transitions_plot(transition, initial, "transitions"))
    n_features = len(over_time.features)
    return DrawnSection(
        "The states",
        pictures,
        "States have no names: they are numbered from 1, and the most frequent state is state 1.",
        f"The emissions of the first {MAX_FEATURES} of {n_features} features are plotted."
        if n_features > MAX_FEATURES
        else "",
        states_text(document),
    )


def _summary_columns(document: ReleaseDocument) -> dict[str, Floats]:
    """Return mean, q05 and q95 of all parameters, shape (n_parameters,); a missing quantile is replaced by the mean."""
    summaries = document.posterior.values()
    return {
        "mean": np.array([p.mean for p in summaries]),
        "q05": np.array([p.mean if p.q05 is None else p.q05 for p in summaries]),
        "q95": np.array([p.mean if p.q95 is None else p.q95 for p in summaries]),
    }
