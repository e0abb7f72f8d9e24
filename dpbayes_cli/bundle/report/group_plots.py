"""The plots of groups: all estimates in order, by the number of records, and against the released rates."""

from __future__ import annotations

from collections.abc import Iterator

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.bundle.report.inline_svg import INK, QUIET, SERIES, Picture, blank_figure, inline_svg
from dpbayes_cli.bundle.report.plots import density
from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior
from dpbayes_cli.privacy.lazy_numpy import np

_MAX_INTERVALS, _MAX_POINTS = 150, 600
_SIZE = (4.2, 2.2)
"""In inches."""
_MANY_TIMES = 20.0
"""If the sizes of groups differ by a larger factor, their axis is logarithmic."""


def group_plots(
    groups: GroupedPosterior, parameter: int, name: str, noisy: Floats | None, mean: float, *, pooled: bool
) -> Iterator[Picture]:
    """Yield the plots of one parameter of all groups.

    Args:
        parameter: the index of the parameter.
        name: the name of the parameter.
        noisy: each group's share or mean as it follows from the released statistics alone, shape (n_groups,); NaN if
            it is not known.
        mean: the mean of all groups.
        pooled: whether the law of the groups was learned; otherwise each group has the stated prior.
    """
    estimates = groups.means[:, parameter]
    low, high = groups.quantiles[:, parameter, 0], groups.quantiles[:, parameter, 2]
    ends, sizes, drawn = (low, high), groups.sizes[:, 0], groups.new_group[:, parameter]
    yield _caterpillar(name, estimates, ends, mean, f"groups-in-order-{parameter}")
    yield _funnel(name, estimates, ends, sizes, mean, f"groups-by-size-{parameter}", pooled=pooled)
    if noisy is not None and pooled:
        yield _shrinkage(name, estimates, noisy, mean, f"groups-shrinkage-{parameter}")
    yield _new_group(name, drawn, estimates, f"groups-law-{parameter}", pooled=pooled)


def _some(n_groups: int, most: int) -> Integers:
    """Return evenly spaced indices, at most ``most`` of them."""
    return np.unique(np.linspace(0, n_groups - 1, min(n_groups, most)).round()).astype(np.int64)


def _of(shown: int, n_groups: int) -> str:
    return "all groups" if shown == n_groups else f"{shown} of {n_groups:,} groups, evenly spaced in this order"


def _known(shown: int, known: int, n_groups: int) -> str:
    """Return how many groups are shown, and that the others have noisy counts that add up to nothing."""
    if known == n_groups:
        return _of(shown, known)
    return f"{shown} of the {known:,} groups whose noisy counts add up to 1 or more"


def _caterpillar(of: str, estimates: Floats, ends: tuple[Floats, Floats], mean: float, name: str) -> Picture:
    low, high = ends
    order = np.argsort(estimates, kind="stable")
    chosen = order[_some(len(order), _MAX_INTERVALS)]
    figure, (panel,) = blank_figure(*_SIZE)
    places = np.arange(len(chosen))
    differs = (low[chosen] > mean) | (high[chosen] < mean)
    for mask, color in ((~differs, QUIET), (differs, SERIES[0])):
        panel.vlines(places[mask], low[chosen][mask], high[chosen][mask], color=color, linewidth=1.0, alpha=0.7)
    panel.plot(places, estimates[chosen], linestyle="none", marker="o", markersize=1.6, color=INK)
    panel.axhline(mean, color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
    panel.set_xticks([])
    panel.set_xlabel("groups, from the lowest to the highest estimate")
    panel.set_ylabel(of)
    caption = (
        f"Estimates and 90 % intervals of {of} in {_of(len(chosen), len(order))}. The dashed line is the mean of all "
        "groups; intervals that exclude it are colored"
    )
    return Picture(name, inline_svg(figure, name, caption), caption)


def _funnel(
    of: str, estimates: Floats, ends: tuple[Floats, Floats], sizes: Floats, mean: float, name: str, *, pooled: bool
) -> Picture:
    low, high = ends
    order = np.argsort(sizes, kind="stable")
    chosen = order[_some(len(order), _MAX_POINTS)]
    differs = (low[chosen] > mean) | (high[chosen] < mean)
    figure, (panel,) = blank_figure(*_SIZE)
    for mask, color in ((~differs, QUIET), (differs, SERIES[0])):
        at = np.maximum(sizes[chosen][mask], 0.5), estimates[chosen][mask]
        panel.plot(*at, linestyle="none", marker="o", markersize=2.2, color=color, alpha=0.6)
    panel.axhline(mean, color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
    if sizes.max() > _MANY_TIMES * max(sizes.min(), 0.5):
        panel.set_xscale("log")
    panel.set_xlabel("estimated number of valid records")
    panel.set_ylabel(of)
    caption = f"Estimates of {of} against the number of valid records, for {_of(len(chosen), len(order))}"
    if pooled:
        caption += ". Small groups are drawn toward the mean of all groups"
    return Picture(name, inline_svg(figure, name, caption), caption)


def _shrinkage(of: str, estimates: Floats, noisy: Floats, mean: float, name: str) -> Picture:
    known = np.flatnonzero(np.isfinite(noisy))
    chosen = known[_some(len(known), _MAX_POINTS)] if len(known) else known
    figure, (panel,) = blank_figure(*_SIZE)
    panel.plot(
        noisy[chosen], estimates[chosen], linestyle="none", marker="o", markersize=2.2, color=SERIES[0], alpha=0.6
    )
    ends = [float(estimates.min()), float(estimates.max())]
    panel.plot(ends, ends, color=QUIET, linewidth=0.8)
    panel.axhline(mean, color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
    spread = 3.0 * (ends[1] - ends[0]) + 1e-9
    panel.set_xlim(
        max(float(noisy[chosen].min(initial=mean)), ends[0] - spread),
        min(float(noisy[chosen].max(initial=mean)), ends[1] + spread) + 1e-9,
    )
    panel.set_xlabel("value from the noisy statistics of the group alone")
    panel.set_ylabel("estimate")
    caption = (
        f"Estimates of {of} against the values that follow from each group's noisy statistics alone, for "
        f"{_known(len(chosen), len(known), len(noisy))}. "
        "On the gray line, the estimate equals the value; near the dashed line, it is close to the mean of all groups"
    )
    return Picture(name, inline_svg(figure, name, caption), caption)


def _new_group(of: str, draws: Floats, estimates: Floats, name: str, *, pooled: bool) -> Picture:
    figure, (panel,) = blank_figure(*_SIZE)
    panel.set_yticks([])
    low, high = np.quantile(draws, [0.005, 0.995]).tolist()
    ends = min(low, float(estimates.min())), max(high, float(estimates.max()))
    panel.hist(estimates, bins=40, range=ends, density=True, color=QUIET, alpha=0.35)
    panel.plot(*density(draws), color=SERIES[0], linewidth=1.3)
    panel.set_xlim(*ends)
    panel.set_ylim(bottom=0.0)
    panel.set_xlabel(of)
    law = "learned law of a new group, which is the prior of each group" if pooled else "stated prior of each group"
    caption = f"The line is the {law}, for {of}. The bars are the estimates of the groups"
    if pooled:
        caption += ", which vary less"
    return Picture(name, inline_svg(figure, name, caption), caption)
