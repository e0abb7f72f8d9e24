"""Choose and draw the figures of the page, with their captions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec import UnsetType

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.document_parts import ParameterSummary
from dpbayes_cli.bundle.report.digits import rounded
from dpbayes_cli.bundle.report.group_plots import group_plots
from dpbayes_cli.bundle.report.group_results import (
    about_files,
    all_groups_table,
    extreme_tables,
    group_sentences,
    noisy_shares,
)
from dpbayes_cli.bundle.report.guarantee_plot import guarantee_plots
from dpbayes_cli.bundle.report.inline_svg import Picture
from dpbayes_cli.bundle.report.intervals import Intervals, share_without_noise, stored_intervals
from dpbayes_cli.bundle.report.network_plot import network_plot, sort_parents_first
from dpbayes_cli.bundle.report.plots import density_plot, interval_plot, rank_plot, trace_plot
from dpbayes_cli.bundle.report.prior import prior_densities, prior_ends
from dpbayes_cli.bundle.report.probability_plots import emissions_plot, table_plot, transitions_plot
from dpbayes_cli.bundle.report.report_context import EMPTY_CONTEXT, ReportContext
from dpbayes_cli.bundle.report.report_tables import ReportTable
from dpbayes_cli.bundle.report.states_plot import states_plot
from dpbayes_cli.bundle.report.wording import are_estimates, draws_word, is_pooled, states_text, tables_text
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.model_sections import NetworkTables, StatesOverTime
from dpbayes_cli.privacy.lazy_numpy import np

_MAX_INTERVALS = 40
_MAX_DENSITIES = 12
_MAX_GROUP_PARAMETERS = 3
_MAX_TRACED, _MAX_CHAINS = 4, 8
MAX_FEATURES, MAX_TABLES = 12, 16  # the largest numbers of features and of tables that are plotted


@dataclass(frozen=True)
class PageFigures:
    """The figures of the page, by section."""

    guarantee: list[Picture]  # the curves of the guarantee; empty if the guarantee could not be recomputed
    intervals: list[Picture]  # one figure; empty if there is only one parameter, or if their units differ
    densities: list[Picture]  # the posterior densities of the first parameters, or the spread of several estimates
    sections: list[DrawnSection]  # the sections that the model declares, which replace the intervals and densities
    chains: list[tuple[str, list[Picture]]]  # the first parameters, each with its trace plot and rank histograms

    @property
    def pictures(self) -> list[Picture]:
        """All figures, in their order in the page."""
        sections, chains = [section.pictures for section in self.sections], [pictures for _, pictures in self.chains]
        groups = [self.intervals, self.densities, *sections, self.guarantee, *chains]
        return [picture for group in groups for picture in group]


def page_figures(
    document: ReleaseDocument,
    analysis: Analysis,
    context: ReportContext = EMPTY_CONTEXT,
    intervals: Intervals | None = None,
) -> PageFigures:
    """Draw the figures of the page, each with a unique name; for the arguments see ``report_html``."""
    shown = intervals or stored_intervals(document)
    guarantee, stated = context.guarantee, document.guarantee
    joint, densities = _posterior_pictures(document, analysis, shown)
    return PageFigures(
        [] if guarantee is None else guarantee_plots(guarantee, stated.epsilon, stated.delta),
        joint,
        densities,
        [*drawn_sections(document, analysis.model), *_groups(document, analysis)],
        [] if analysis.chains is None else _chain_pictures(analysis.parameters, analysis.chains),
    )


def _posterior_pictures(
    document: ReleaseDocument, analysis: Analysis, shown: Intervals
) -> tuple[list[Picture], list[Picture]]:
    if analysis.model.sections():
        return [], []
    if are_estimates(document):
        return [], _density_pictures(document, analysis, shown) if len(document.draws) > 1 else []
    joint = _interval_pictures(document, shown) if analysis.model.has_one_unit else []
    return joint, _density_pictures(document, analysis, shown)


def _density_pictures(document: ReleaseDocument, analysis: Analysis, shown: Intervals) -> list[Picture]:
    """Return densities of the first parameters, with the prior and the interval's width without noise, if known."""
    summaries = list(document.posterior.items())[:_MAX_DENSITIES]
    title = f"Released {draws_word(document)}" if document.draws else "Posterior density"
    ends, priors = prior_ends(document, analysis.model, shown.tails), prior_densities(document, analysis.model)
    pictures = []
    for place, (parameter, summary) in enumerate(summaries):
        samples, name = analysis.samples[:, place], f"density-{place}"
        caption = (
            _draws_text(parameter, samples, draws_word(document))
            if document.draws
            else _summary_text(parameter, summary, shown)
        )
        if parameter in priors and parameter in ends:
            low, high = (rounded(end, ends[parameter][1] - ends[parameter][0]) for end in ends[parameter])
            caption += f"; the dashed line is the prior, with {shown.percent} between {low} and {high}"
        length = None
        remaining = share_without_noise(document, parameter)
        if remaining is not None and parameter in shown.ends:
            length = remaining * (shown.ends[parameter][1] - shown.ends[parameter][0])
            caption += (
                f". The bar at the top shows how wide the {shown.percent} interval would be without the noise for "
                f"privacy, {rounded(length, length)}; the position of the bar has no meaning"
            )
        svg = density_plot(
            samples,
            summary,
            shown.ends.get(parameter),
            name,
            f"{title} of {caption}",
            alone=len(summaries) == 1,
            width_bar=length,
            prior=priors.get(parameter),
        )
        pictures.append(Picture(name, svg, caption))
    return pictures


def _interval_pictures(document: ReleaseDocument, shown: Intervals) -> list[Picture]:
    drawn, n_parameters = dict(list(document.posterior.items())[:_MAX_INTERVALS]), len(document.posterior)
    if len(drawn) < 2:
        return []
    which = f"the first {len(drawn)} of {n_parameters}" if n_parameters > len(drawn) else "all"
    title = (
        f"Medians and {shown.percent} intervals"
        if drawn.keys() <= shown.ends.keys()
        else f"The {draws_word(document)[:-1]}"
    )
    caption = f"{title} of {which} parameters"
    svg = interval_plot(drawn, shown.ends, "intervals", f"{caption}; the numbers are in the table above")
    return [Picture("intervals", svg, caption)]


def _chain_pictures(parameters: Sequence[str], chains: Floats) -> list[tuple[str, list[Picture]]]:
    pictures = []
    for place, parameter in enumerate(parameters[:_MAX_TRACED]):
        draws, trace, ranks = _shown_chains(chains[:, :, place]), f"trace-{place}", f"ranks-{place}"
        among = "" if len(draws) == len(chains) else f" of {len(chains)}, from the lowest to the highest mean"
        trace_caption = f"Trace of {parameter}, {len(draws)} chains{among}"
        ranks_caption = f"Ranks of {parameter} by chain, among {'these' if among else 'all'} draws"
        pair = [
            Picture(trace, trace_plot(draws, trace, trace_caption), trace_caption),
            Picture(ranks, rank_plot(draws, ranks, ranks_caption), ranks_caption),
        ]
        pictures.append((parameter, pair))
    return pictures


def _shown_chains(draws: Floats) -> Floats:
    """Return the draws of at most ``_MAX_CHAINS`` chains: of many, some from the lowest to the highest mean."""
    if len(draws) <= _MAX_CHAINS:
        return draws
    places = [round(i * (len(draws) - 1) / (_MAX_CHAINS - 1)) for i in range(_MAX_CHAINS)]
    chosen: Floats = draws[draws.mean(axis=1).argsort()[places]]
    return chosen


def _summary_text(name: str, summary: ParameterSummary, shown: Intervals) -> str:
    if name not in shown.ends or summary.q50 is None:
        return f"{name}: {summary.mean:.4g}"
    low, high = shown.ends[name]
    median, *ends = (rounded(x, high - low) for x in (summary.q50, low, high))
    return f"{name}: median {median}, {shown.percent} between {ends[0]} and {ends[1]}"


def _draws_text(name: str, draws: Floats, word: str) -> str:
    if len(draws) == 1:
        return f"{name}: one {word[:-1]}, {draws[0]:.4g}"
    return f"{name}: {len(draws)} {word} between {draws.min():.4g} and {draws.max():.4g}"


@dataclass(frozen=True)
class DrawnSection:
    """A section of the page with its figures."""

    title: str
    pictures: list[Picture]
    introduction: Sequence[str] = ()  # one or more sentences each, before the figures
    left_out: str = ""  # a sentence that says how many of the parts are plotted; empty if all are plotted
    about_file: str = ""  # a sentence about the file with all values; empty if there is no such file
    tables: Sequence[ReportTable] = ()  # tables before the figures
    listed: ReportTable | None = None  # a long table, which readers unfold
    are_wide: bool = True  # whether the figures are drawings that may be wider than the page


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


def _groups(document: ReleaseDocument, analysis: Analysis) -> Iterator[DrawnSection]:
    """Yield the section on groups, if there are any; of several parameters, the first ones are plotted."""
    groups = analysis.groups
    if groups is None or isinstance(document.groups, UnsetType):
        return
    names, pictures = analysis.model.group_parameters, list[Picture]()
    shares = noisy_shares(document, analysis.model)
    for k in range(min(len(names), _MAX_GROUP_PARAMETERS) if len(groups.means) else 0):
        noisy = None if shares is None else shares[:, k]
        pictures += group_plots(groups, k, names[k], noisy, analysis.marginals[k].mean, pooled=is_pooled(document))
    plotted = f"{', '.join(names[:_MAX_GROUP_PARAMETERS])} of {len(names)} parameters are plotted."
    yield DrawnSection(
        "The groups",
        pictures,
        group_sentences(document),
        plotted if len(names) > _MAX_GROUP_PARAMETERS else "",
        about_files(document),
        extreme_tables(document),
        all_groups_table(document, groups),
        are_wide=False,
    )


def drawn_tables(tables: NetworkTables) -> list[int]:
    """Return the variables whose tables are plotted: the target, its children, then others, parents before children."""
    target, parents = tables.target, tables.network.parents
    order = list(sort_parents_first(parents))
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
        ["States have no names: they are numbered from 1, and the most frequent state is state 1."],
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
