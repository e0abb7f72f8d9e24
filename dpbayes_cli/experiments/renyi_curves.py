"""Renyi curves: what one posterior draw costs at each order, and at which order the cost becomes infinite.

Source: Geumlek, Song and Chaudhuri 2017, sec. 5.1 and Fig. 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta

from dpbayes_cli.experiments.coin import CoinCase
from dpbayes_cli.experiments.plots import Style, draw_line, label_axes, stamped_panels
from dpbayes_cli.experiments.results import OURS, Claim, GridPoint, PointOutcome, Results
from dpbayes_cli.experiments.study import StudyFile, StudyLayout, check_within
from dpbayes_cli.privacy.conjugate import gain_term, loss_term
from dpbayes_cli.spec.convert_section import Exact

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Method = Literal["rdp-diffuse", "rdp-concentrated"]
Records = Literal["complete", "dropped"]

SOURCE = "[G] Figure 1"
_GAP = 1e-3
"""The curve is evaluated at this distance below the order of its vertical asymptote."""
_LARGEST_EPSILON = 2.0
"""The largest epsilon in the paper's figure."""


class RenyiCase(CoinCase, frozen=True, kw_only=True):
    """A Beta prior, and the public number of records."""

    n: Annotated[int, Meta(ge=1, le=10**9, description="number of records")]


@dataclass(frozen=True)
class Curve:
    """The privacy cost of one posterior draw as a function of the Renyi order.

    Attributes:
        case: the prior and the number of records.
        records: ``complete``; or ``dropped``: records may be invalid, and invalid ones are left out.
        weight: r, the power of the likelihood, for ``rdp-diffuse``; m, the divisor of the prior's parameters, for
            ``rdp-concentrated``.
    """

    case: RenyiCase
    method: Method
    records: Records
    weight: str

    @property
    def r_and_m(self) -> tuple[float, float]:
        """The power r of the likelihood, and the divisor m of the prior's parameters."""
        weight = float(self.weight)
        return (weight, 1.0) if self.method == "rdp-diffuse" else (1.0, weight)

    @property
    def order_max(self) -> float:
        return self.case.model.family(self.case.n).order_max(*self.r_and_m)

    def divergence(self, order: float) -> float:
        """Return the largest Renyi divergence of one draw between neighboring data sets, at an order.

        If invalid records are dropped, there may be data sets without valid records. Both terms of the divergence are
        then evaluated at the prior. For complete records see ``privacy.conjugate.DirichletFamily``.
        """
        family, (r, m) = self.case.model.family(self.case.n), self.r_and_m
        if self.records == "complete" or order >= family.order_max(r, m):
            return family.divergence(order, r, m)
        first, second = (each / m for each in family.concentration)
        return max(gain_term(x, order, r) + loss_term(y, order, r) for x, y in ((first, second), (second, first)))


class RenyiCurves(StudyFile, frozen=True, kw_only=True):
    """A grid of cases x methods x records x weights; nothing is random."""

    study: Literal["renyi-curves"]
    weights: Annotated[
        tuple[Exact, ...],
        Meta(min_length=1, description="r of rdp-diffuse and m of rdp-concentrated; 1 means rdp-direct"),
    ]
    highest_order: Annotated[float, Meta(gt=1, le=256, description="the highest order that is studied")] = 20.0
    points: Annotated[int, Meta(ge=2, le=10_000, description="number of orders per curve, equally spaced")] = 400
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)] = ("rdp-diffuse", "rdp-concentrated")
    records: Annotated[
        tuple[Records, ...],
        Meta(min_length=1, description="dropped: records may be invalid, and invalid ones are left out"),
    ] = ("complete",)
    cases: Annotated[dict[str, RenyiCase], Meta(min_length=1)]

    layout: ClassVar = StudyLayout(
        columns=("case", "method", "records", "weight"),
        measures=("epsilon_at_2", "order_max"),
        by_trial=("order", "epsilon"),
        trials_file="curves.csv",
        unit="point",
        shown=("case", "method", "records", "weight", "epsilon_at_2", "order_max"),
        plots={},
        about="The privacy cost of one draw of a Beta posterior: the largest Renyi divergence between neighboring "
        "data sets, as a function of the order. Nothing is simulated, and there are no data.",
        legend="`order_max`: the smallest order at which the divergence is infinite. If `records` is `dropped`, any "
        "number of records may be invalid, and neighboring data sets may have different numbers of invalid records.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.state_exactly("weights", check_within("a weight is positive and at most 1", "0", "1"))
        self.check_distinct("weights", "methods", "records")

    @property
    def orders(self) -> list[float]:
        return list(np.linspace(1.0, self.highest_order, self.points + 1)[1:].tolist())

    def curves(self, name: str) -> list[Curve]:
        return [Curve(self.cases[name], *place) for place in product(self.methods, self.records, self.weights)]

    def grid(self) -> list[GridPoint]:
        sizes = {"highest_order": self.highest_order, "points": self.points}
        places = (
            (name, {"method": curve.method, "records": curve.records, "weight": curve.weight})
            for name in self.cases
            for curve in self.curves(name)
        )
        return [
            self.point({"case": name, **place}, msgspec.to_builtins(self.cases[name]), {**place, **sizes})
            for name, place in places
        ]

    def run(self, point: GridPoint) -> PointOutcome:
        curve = Curve(self.cases[point.case], point["method"], point["records"], point["weight"])
        costs = {order: curve.divergence(order) for order in self.orders}
        finite = {order: cost for order, cost in costs.items() if math.isfinite(cost)}
        at_2 = curve.divergence(2.0)
        return PointOutcome(
            {"order_max": curve.order_max, "epsilon_at_2": at_2 if math.isfinite(at_2) else None},
            {"order": np.array(list(finite)), "epsilon": np.array(list(finite.values()))},
        )

    def figures(self, results: Results) -> dict[str, Figure]:
        from matplotlib import colormaps

        colors = {weight: colormaps["viridis"](k / len(self.weights)) for k, weight in enumerate(self.weights)}

        def draw(axes: Axes, name: str, method: str) -> None:
            for each in results.where(case=name, method=method):
                color, is_complete = colors[each["weight"]], each["records"] == "complete"
                points = zip(each.trials["order"], each.trials["epsilon"], strict=True)
                label = f"r, m = {each['weight']}" if is_complete else "dropped records"
                draw_line(axes, points, Style(color, "", "-" if is_complete else ":"), label)
                if is_complete and each.measure("order_max") <= self.highest_order:
                    axes.axvline(each.measure("order_max"), color=color, linewidth=0.5, linestyle="--")
            axes.set(xlim=(0.0, self.highest_order), ylim=(0.0, _LARGEST_EPSILON))
            label_axes(axes, f"{name}, {method}", "order", "epsilon", "linear linear")

        title = "Cost of one draw of the posterior; dashed: the order at which it becomes infinite"
        panels = product(self.cases, self.methods)
        return {"curves": stamped_panels(panels, len(self.methods), draw, title, panel=4.2)}

    def claims(self, results: Results) -> list[Claim]:
        made = []
        for name in self.cases:
            curves = self.curves(name)
            direct = {curve.records: curve for curve in reversed(curves) if curve.weight == "1"}
            if "complete" in direct:
                made.append(_asymptote(name, direct["complete"]))
            if len(self.weights) > 1:
                made.append(self._improves(name, curves))
            if len(direct) > 1:
                made.append(_dropped(name, direct["complete"], direct["dropped"]))
        return made

    def _improves(self, name: str, curves: list[Curve]) -> Claim:
        parts, holds = [], True
        for method, records in product(self.methods, self.records):
            some = [curve for curve in curves if (curve.method, curve.records) == (method, records)]
            some.sort(key=lambda curve: float(curve.weight))
            for less, more in pairwise(some):
                finite = [order for order in self.orders if math.isfinite(more.divergence(order))]
                holds = holds and less.order_max > more.order_max
                holds = holds and all(less.divergence(order) <= more.divergence(order) for order in finite)
            parts.append(f"{method}, {records}: lambda* {', '.join(f'{curve.order_max:.4g}' for curve in some)}")
        says = "a smaller r or m lowers epsilon at every order, and moves the asymptote to a larger order."
        weights = ", ".join(sorted(self.weights, key=float))
        return Claim(SOURCE, f"{name}: {says}", holds, f"for r or m = {weights}: {'; '.join(parts)}")

    def about_case(self, own: Results) -> str:
        case = self.cases[own[0]["case"]]
        return f"Beta({case.alpha:g}, {case.beta:g}), n = {case.n}."


def _asymptote(name: str, curve: Curve) -> Claim:
    case = curve.case
    expected = 1.0 + min(case.alpha, case.beta)
    below, nearer = (curve.divergence(expected - _GAP / k) for k in (1.0, 1e2))
    at = curve.divergence(expected)
    return Claim(
        SOURCE,
        f"{name}: direct sampling has a vertical asymptote at order {expected:g} under Beta({case.alpha:g}, "
        f"{case.beta:g}).",
        curve.order_max == expected and below < nearer < float("inf") == at,
        f"the asymptote is at lambda* = {curve.order_max:g}; epsilon is {curve.divergence(2.0):.6f} at order 2, "
        f"{below:.3f} at order {expected - _GAP:g}, {nearer:.3f} at order {expected - _GAP / 1e2:g}, and {at:g} at "
        f"order {expected:g}",
        "The paper's bound compares two posteriors, one of which may be impossible for every data set. The bound is "
        "then too large for small priors; for Beta(6, 12) it equals the cost here. The asymptote is the same "
        "as here.",
    )


def _dropped(name: str, complete: Curve, dropped: Curve) -> Claim:
    less, more = complete.divergence(2.0), dropped.divergence(2.0)
    return Claim(
        OURS,
        f"{name}: the true posterior costs more if invalid records are dropped.",
        more > less,
        f"at order 2 the cost is {more:.3f} against {less:.3f} with complete records",
        "Fewer records may remain, so that the posterior may be wider, and one record may move it further. The "
        "mechanisms of dpbayes refuse to drop records.",
    )
