"""The plots of a guarantee: delta against epsilon, and the Renyi divergence against its order."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from dpbayes_cli.bundle.report.inline_svg import INK, LINE, QUIET, SERIES, Picture, blank_figure, inline_svg
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.tradeoff import Tradeoff

_SIZE = (3.8, 2.2)
_POINTS = 121
_MIN_DELTA = 1e-12  # deltas below this value are drawn at the lower edge of the plot


def guarantee_plots(guarantee: Guarantee, epsilon: float | None, delta: float) -> list[Picture]:
    """Return the plots of a guarantee, without empty ones; a dot marks the stated epsilon (if any) and delta."""
    return [*_tradeoff(guarantee, epsilon, delta), *_renyi(guarantee)]


def _tradeoff(guarantee: Guarantee, epsilon: float | None, delta: float) -> list[Picture]:
    curve = Tradeoff(guarantee)
    x = curve.epsilons(_POINTS)
    y = [max(curve.delta(point), _MIN_DELTA) for point in x]
    if len(x) < 2:
        return []
    figure, (panel,) = blank_figure(*_SIZE)
    pure = guarantee.epsilon.is_finite() and guarantee.delta == 0
    linear = guarantee.kind == "pure"  # this curve reaches 0 with a slope; others have a tail
    if linear:
        y[-1] = 0.0
    else:
        panel.set_yscale("log")
    panel.plot(x, y, color=SERIES[0], linewidth=1.6)
    if pure or guarantee.delta > 0:  # beyond the stated epsilon, delta stays constant
        panel.hlines(y[-1], x[-1], 1.12 * x[-1], color=SERIES[0], linewidth=1.6)
    if epsilon is not None and epsilon <= 1.12 * x[-1]:
        at = delta if linear else max(delta, _MIN_DELTA)
        panel.plot([epsilon], [at], marker="o", markersize=5, color=INK, clip_on=False)
    _axes(panel, "epsilon", "delta at most")
    panel.set_xlim(0.0, 1.12 * x[-1])
    if linear:
        panel.set_ylim(0.0, 1.15 * y[0])
        panel.locator_params(axis="y", nbins=5)
    else:
        panel.set_ylim(_MIN_DELTA, 1.0)
        exponents = range(-12, 1, 3)
        panel.set_yticks([10.0**e for e in exponents], ["1" if e == 0 else f"1e{e}" for e in exponents])
    if epsilon is not None:
        marks = f"The dot marks the stated guarantee: epsilon {epsilon:.4g} at delta {delta:.4g}."
    else:
        marks = "No epsilon is stated, because the account has no delta."
    if not linear and y[-1] <= _MIN_DELTA:
        marks += " Deltas of 1e-12 or less are drawn at the lower edge."
    caption = (
        "Delta against epsilon. The probability of any conclusion with one of two neighboring data sets is at most "
        f"exp(epsilon) times its probability with the other data set, plus delta. {marks}"
    )
    return [Picture("privacy-curve", inline_svg(figure, "privacy-curve", caption), caption)]


def _renyi(guarantee: Guarantee) -> list[Picture]:
    points = [(order, value) for order, value in Tradeoff(guarantee).renyi if value > 0]
    if len(points) < 2:
        return []
    orders, values = [order for order, _ in points], [value for _, value in points]
    figure, (panel,) = blank_figure(*_SIZE)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.plot(orders, values, color=SERIES[0], linewidth=1.6, marker="o", markersize=2.2)
    _axes(panel, "order", "divergence at most")
    panel.set_ylim(min(values) / 1.6, max(values) * 2.2)
    caption = "Upper bound on the Renyi divergence at each order"
    if guarantee.delta > 0:
        caption += f", except for an event of probability {float(guarantee.delta):.4g}"
    if guarantee.order_max.is_finite():
        largest = float(guarantee.order_max)
        panel.axvline(largest, color=SERIES[1], linewidth=1.4, linestyle=(0, (4, 2)))
        panel.annotate(
            f"lambda* = {largest:.4g}",
            (largest, 1.0),
            xytext=(-4, -3),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="right",
            va="top",
            color=INK,
            fontsize=9,
        )
        caption += f". The dashed line marks lambda* = {largest:.4g}: at this order and above, there is no guarantee"
        panel.set_xlim(orders[0] / 1.08, max(largest, orders[-1]) * 1.15)
    elif guarantee.rho.is_finite():
        caption += f". The divergence is at most rho times the order, with rho = {float(guarantee.rho):.4g}"
    _plain_orders(panel)
    return [Picture("renyi-curve", inline_svg(figure, "renyi-curve", f"{caption}."), f"{caption}.")]


def _axes(panel: Axes, x: str, y: str) -> None:
    panel.set_xlabel(x)
    panel.set_ylabel(y, color=QUIET, fontsize=9)
    panel.grid(color=LINE, linewidth=0.5)
    panel.set_axisbelow(True)
    panel.minorticks_off()


def _plain_orders(panel: Axes) -> None:
    for axis in (panel.xaxis, panel.yaxis):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
