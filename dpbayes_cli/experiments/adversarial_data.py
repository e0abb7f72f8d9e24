"""Adversarial data: the privacy loss of one posterior draw on data that an adversary chooses record by record.

Source: Foulds et al. 2016, appendix A and Fig. 8.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta

from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.coin import COMPLETE, CoinCase
from dpbayes_cli.experiments.plots import Style, draw_line, label_axes, stamped_panels
from dpbayes_cli.experiments.results import OURS, Claim, GridPoint, PointOutcome, Result, Results
from dpbayes_cli.experiments.study import StudyFile, StudyLayout
from dpbayes_cli.mechanisms.ops import Ops, OpsRangeOptions
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler
from dpbayes_cli.privacy.conversions import bounded_range_rdp

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.core.plan import Step

SOURCE = "[F] Figure 8"
_LARGE_EPSILON = Decimal(1000)
"""At this epsilon the power of the likelihood is 1."""
_ORDER = 2.0
_MIN_SHARE = 0.95
"""The claim requires that the loss reaches at least this share of the worst case."""


class AdversaryCase(CoinCase, frozen=True, kw_only=True):
    """A Beta prior, and the public range to which the probability of success is restricted."""

    support: Annotated[tuple[float, float], Meta(description="public range of the parameter")]

    def step(self, n_records: int) -> Step:
        """Return the step of a release that draws once from the truncated posterior, with its privacy cost.

        Raises:
            SpecError: the support is not within the parameter's range.
        """
        options = OpsRangeOptions(epsilon=_LARGE_EPSILON, support=self.support)
        (step,) = Ops().plan(self.model, COMPLETE, options, n_records).steps
        return step


class AdversarialData(StudyFile, frozen=True, kw_only=True):
    """For each case, an adversary adds the success or failure that loses more privacy, record after record."""

    study: Literal["adversarial-data"]
    n: Annotated[int, Meta(ge=2, le=5000, description="number of records that are added")]
    cases: Annotated[dict[str, AdversaryCase], Meta(min_length=1)]

    layout: ClassVar = StudyLayout(
        columns=("case",),
        measures=("worst_case", "reached", "share", "divergence", "largest_divergence", "divergence_by_range"),
        by_trial=("successes", "local_epsilon", "local_divergence"),
        trials_file="paths.csv",
        unit="record",
        shown=("case", "worst_case", "reached", "share", "divergence", "largest_divergence"),
        plots={},
        about="An adversary adds records one by one. Of a success and a failure, the adversary adds the one after "
        "which one draw of the truncated posterior loses more privacy on the data set. Nothing is simulated: the "
        "loss is computed from the probabilities of all possible draws.",
        legend="The local epsilon of a data set is the largest log ratio of a draw's probabilities under this data "
        "set and under a neighboring one. `reached`: the local epsilon after the last record. `worst_case`: the pure "
        "epsilon that a release costs. `divergence`: the largest Renyi divergence of order 2 between the laws of a "
        "draw under the last data set and under a neighboring one. `largest_divergence`: the largest such divergence "
        "over all data sets of as many records, which is the cost at order 2.",
    )

    def grid(self) -> list[GridPoint]:
        return [
            self.point({"case": name}, msgspec.to_builtins(case), {"n": self.n}) for name, case in self.cases.items()
        ]

    def run(self, point: GridPoint) -> PointOutcome:
        step = self.cases[point.case].step(self.n)
        sampler = require_type(step.law, ScalarSampler)
        successes, path = 0, []
        for n in range(1, self.n + 1):
            at_n = replace(sampler, n_records=n)
            losses_by_count = {s: local_loss(at_n, s) for s in (successes, successes + 1)}
            successes = max(losses_by_count, key=lambda s: (losses_by_count[s][0], s))
            path.append((successes, *losses_by_count[successes]))
        chosen, losses, divergences = np.array(path, dtype=np.float64).T
        worst = float(step.guarantee.epsilon)
        return PointOutcome(
            {
                "worst_case": worst,
                "reached": float(losses[-1]),
                "share": float(losses[-1] / worst),
                "divergence": float(divergences[-1]),
                "largest_divergence": float(step.guarantee.rdp(Decimal(2))),
                "divergence_by_range": bounded_range_rdp(worst, _ORDER),
            },
            {"successes": chosen, "local_epsilon": losses, "local_divergence": divergences},
        )

    def figures(self, results: Results) -> dict[str, Figure]:
        def draw(axes: Axes, name: str) -> None:
            result = results.one(case=name)
            low, high = self.cases[name].support
            n = np.arange(1, len(result.trials["local_epsilon"]) + 1)
            axes.plot(n, result.trials["local_epsilon"], color="tab:blue", label="local epsilon")
            axes.plot(n, result.trials["local_divergence"], color="tab:orange", label="local divergence of order 2")
            worst, charged = result.measure("worst_case"), result.measure("largest_divergence")
            axes.axhline(worst, color="tab:blue", linestyle="--", linewidth=1.0, label="worst-case epsilon")
            draw_line(axes, [(n[-1], charged)], Style("tab:orange", "x", ""), "cost at order 2")
            label_axes(axes, f"{name}, theta in [{low:g}, {high:g}]", "number of records added")

        panels = [(name,) for name in self.cases]
        title = "Privacy loss of one posterior draw on an adversary's data"
        return {"local-epsilon": stamped_panels(panels, min(len(panels), 3), draw, title, share_y=False, panel=4.0)}

    def claims(self, results: Results) -> list[Claim]:
        return [claim for result in results for claim in (_approaches(result), _typical(result))]

    def about_case(self, own: Results) -> str:
        low, high = self.cases[own[0]["case"]].support
        return f"theta in [{low:g}, {high:g}], {self.n} records."


def local_loss(sampler: ScalarSampler, successes: int) -> tuple[float, float]:
    """Return two measures of the privacy loss of one draw: its largest log ratio and its divergence of order 2.

    Both are maxima over the neighboring data sets, which have one success more or less.

    Args:
        sampler: the sampler of the truncated posterior, which holds the number of records.
        successes: the number of successes in the data set.
    """
    own = _log_masses(sampler, successes)
    loss = divergence = 0.0
    for other in (successes - 1, successes + 1):
        if 0 <= other <= sampler.n_records:
            ratio = own - _log_masses(sampler, other)
            loss = max(loss, float(np.abs(ratio).max()))
            for direction, law in ((ratio, own), (-ratio, own - ratio)):
                total = np.exp(law + (_ORDER - 1.0) * direction).sum()
                divergence = max(divergence, float(np.log(total)) / (_ORDER - 1.0))
    return loss, divergence


def _log_masses(sampler: ScalarSampler, successes: int) -> Floats:
    logs = sampler.logs((successes,))
    largest = logs.max()
    return np.asarray(logs - largest - np.log(np.exp(logs - largest).sum()))


def _approaches(result: Result) -> Claim:
    losses, worst = result.trials["local_epsilon"], result.measure("worst_case")
    share, first = losses[-1] / worst, losses[0] / worst
    near = next((n for n, loss in enumerate(losses, start=1) if loss >= 0.9 * worst), None)
    return Claim(
        SOURCE,
        f"{result['case']}: the local epsilon of one posterior draw approaches the worst case as records are added.",
        _MIN_SHARE <= share <= 1.0 and first < share and max(losses) <= worst,
        f"local epsilon {losses[-1]:.4f} at n = {len(losses)}, which is {share:.1%} of the worst case {worst:.4f}; "
        f"{first:.1%} of it at n = 1; 90 % of it is "
        f"{'never reached' if near is None else f'first reached at n = {near}'}",
        "The worst case is the limit for many records. Draws are midpoints of grid cells, so that the most extreme "
        "draw lies half a cell inside the support.",
    )


def _typical(result: Result) -> Claim:
    path = result.trials["local_divergence"]
    charged, by_range = result.measure("largest_divergence"), result.measure("divergence_by_range")
    return Claim(
        OURS,
        f"{result['case']}: draws that reach the worst case are improbable, so that the Renyi divergence falls with n.",
        path[-1] <= charged < by_range and path[-1] < path[0],
        f"on the adversary's data the divergence of order 2 is {path[0]:.3f} at n = 1 and {path[-1]:.2g} at n = "
        f"{len(path)}; over all data sets of {len(path)} records it is at most {charged:.3f}, which is the cost of a "
        f"release; the worst-case epsilon alone bounds it only by {by_range:.3g}",
    )
