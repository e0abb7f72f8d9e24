"""Renyi curves: what one posterior draw costs at each order, and at which order the cost becomes infinite."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta

from dpbayes_cli.experiments.plots import label_axes, stamped_panels
from dpbayes_cli.experiments.results import OURS, Claim, GridPoint, PointOutcome, Results
from dpbayes_cli.experiments.study import CoinCase, Study
from dpbayes_cli.privacy.conjugate import gain_term, loss_term
from dpbayes_cli.spec.convert_section import Exact

Method = Literal["rdp-diffuse", "rdp-concentrated"]
Records = Literal["complete", "dropped"]

SOURCE = "[G] Figure 1"
_METHODS: tuple[Method, ...] = ("rdp-diffuse", "rdp-concentrated")
_GAP = 1e-3  # a claim evaluates the curve at this distance below the order of its vertical asymptote
_LARGEST_EPSILON = 2.0  # the largest epsilon in the paper's figure


class RenyiCase(CoinCase, frozen=True, kw_only=True):
    """A Beta prior, and the public number of records."""

    n: Annotated[int, Meta(ge=1, le=10**9, description="number of records")]


@dataclass(frozen=True)
class Curve:
    """The privacy cost of one posterior draw as a function of the Renyi order."""

    case: RenyiCase
    method: Method
    records: Records
    weight: str

    @property
    def r_and_m(self) -> tuple[float, float]:
        """The power r of the likelihood, and the divisor m of the prior's parameters; one of them is 1."""
        weight = float(self.weight)
        return (weight, 1.0) if self.method == "rdp-diffuse" else (1.0, weight)

    @property
    def order_max(self) -> float:
        return self.case.model.family(self.case.n).order_max(*self.r_and_m)

    def divergence(self, order: float) -> float:
        """Return the largest Renyi divergence of one draw between neighboring data sets, at an order.

        If invalid records are dropped, a data set may have no valid record. Both terms of the divergence are then
        evaluated at the prior. For complete records see ``privacy.conjugate.DirichletFamily``.
        """
        family, (r, m) = self.case.model.family(self.case.n), self.r_and_m
        if self.records == "complete" or order >= family.order_max(r, m):
            return family.divergence(order, r, m)
        first, second = (each / m for each in family.concentration)
        return max(gain_term(x, order, r) + loss_term(y, order, r) for x, y in ((first, second), (second, first)))


class RenyiCurves(Study, frozen=True, kw_only=True):
    """The privacy cost of one draw of a Beta posterior as a function of the Renyi order.

    The cost is the largest Renyi divergence between neighboring data sets. Nothing is simulated, and there are no data.

    Source: Geumlek, Song and Chaudhuri 2017, sec. 5.1 and Fig. 1.
    """

    study: Literal["renyi-curves"]
    weights: Annotated[tuple[Exact, ...], Meta(min_length=1, description="values of r or m; 1 is the true posterior")]
    highest_order: Annotated[float, Meta(gt=1, le=256, description="the highest order that is studied")] = 20.0
    points: Annotated[int, Meta(ge=2, le=10_000, description="number of orders per curve, equally spaced")] = 400
    records: Annotated[tuple[Records, ...], Meta(min_length=1)] = ("complete",)
    cases: Annotated[dict[str, RenyiCase], Meta(min_length=1)]

    exact: ClassVar = {"weights": ("0", "1")}
    columns = ("case", "method", "records", "weight")
    measures = ("epsilon_at_2", "order_max")
    by_trial = ("order", "epsilon")
    trials_file = "curves.csv"
    unit = "point"
    shown = ("case", "method", "records", "weight", "epsilon_at_2", "order_max")
    legend = (
        "`order_max`: the smallest order at which the divergence is infinite. If `records` is `dropped`, any number of "
        "records may be invalid, and neighboring data sets may have different numbers of invalid records."
    )

    @property
    def orders(self) -> list[float]:
        return list(np.linspace(1.0, self.highest_order, self.points + 1)[1:].tolist())

    def grid(self) -> list[GridPoint]:
        sizes, grid = {"highest_order": self.highest_order, "points": self.points}, []
        for name, *values in product(self.cases, _METHODS, self.records, self.weights):
            place = dict(zip(self.columns[1:], values, strict=True))
            data = msgspec.to_builtins(self.cases[name])
            grid.append(self.point({"case": name, **place}, data, {**place, **sizes}))
        return grid

    def run(self, point: GridPoint) -> PointOutcome:
        curve = Curve(self.cases[point.case], point["method"], point["records"], point["weight"])
        costs = {order: curve.divergence(order) for order in self.orders}
        finite = {order: cost for order, cost in costs.items() if math.isfinite(cost)}
        at_2 = curve.divergence(2.0)
        measures = {"order_max": curve.order_max, "epsilon_at_2": at_2 if math.isfinite(at_2) else None}
        return PointOutcome(measures, {"order": np.array(list(finite)), "epsilon": np.array(list(finite.values()))})

    def figures(self, results: Results) -> dict[str, Any]:
        def draw(axes: Any, name: str, method: str) -> None:
            for each in results.where(case=name, method=method):
                color, is_complete = f"C{self.weights.index(each['weight'])}", each["records"] == "complete"
                label = f"r, m = {each['weight']}" if is_complete else "dropped records"
                style = f"{color}{'-' if is_complete else ':'}"
                axes.plot(each.trials["order"], each.trials["epsilon"], style, label=label)
                if is_complete and each.measure("order_max") <= self.highest_order:
                    axes.axvline(each.measure("order_max"), color=color, linewidth=0.5, linestyle="--")
            axes.set(xlim=(0.0, self.highest_order), ylim=(0.0, _LARGEST_EPSILON))
            label_axes(axes, f"{name}, {method}", "order", "epsilon", "linear linear")

        title = "Cost of one draw of the posterior; dashed: the order at which it becomes infinite"
        return {"curves": stamped_panels(product(self.cases, _METHODS), len(_METHODS), draw, title)}

    def claims(self, results: Results) -> Iterator[Claim]:
        for name, case in self.cases.items():
            yield from self._claims(name, case)

    def _claims(self, name: str, case: RenyiCase) -> Iterator[Claim]:
        complete, dropped = (Curve(case, "rdp-diffuse", records, "1") for records in ("complete", "dropped"))
        has_direct = "1" in self.weights
        if has_direct and "complete" in self.records:
            expected = 1.0 + min(case.alpha, case.beta)
            below, nearer, at = (complete.divergence(expected - gap) for gap in (_GAP, _GAP / 1e2, 0.0))
            yield Claim(
                SOURCE,
                f"{name}: direct sampling has a vertical asymptote at order {expected:g} under Beta({case.alpha:g}, "
                f"{case.beta:g}).",
                complete.order_max == expected and below < nearer < math.inf == at,
                f"the asymptote is at lambda* = {complete.order_max:g}; epsilon is {complete.divergence(2.0):.6f} at "
                f"order 2, and {below:.3f} at order {expected - _GAP:g}",
            )
        if len(self.weights) > 1:
            parts, holds = [], True
            for method, records in product(_METHODS, self.records):
                curves = [Curve(case, method, records, weight) for weight in sorted(self.weights, key=float)]
                for less, more in pairwise(curves):
                    pairs = [(less.divergence(order), more.divergence(order)) for order in self.orders]
                    holds = holds and less.order_max > more.order_max
                    holds = holds and all(low <= high for low, high in pairs if math.isfinite(high))
                parts.append(f"{method}, {records}: lambda* {', '.join(f'{curve.order_max:.4g}' for curve in curves)}")
            says = "a smaller r or m lowers epsilon at every order, and moves the asymptote to a larger order."
            yield Claim(SOURCE, f"{name}: {says}", holds, f"at increasing r or m: {'; '.join(parts)}")
        if has_direct and set(self.records) == {"complete", "dropped"}:
            less_cost, more_cost = complete.divergence(2.0), dropped.divergence(2.0)
            yield Claim(
                OURS,
                f"{name}: the true posterior costs more if invalid records are dropped, which dpbayes refuses to do.",
                more_cost > less_cost,
                f"at order 2 the cost is {more_cost:.3f} against {less_cost:.3f} with complete records",
            )
