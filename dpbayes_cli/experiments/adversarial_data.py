"""Adversarial data: the privacy loss of one posterior draw on data that an adversary chooses record by record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from scipy.special import log_softmax

from dpbayes_cli.core.plan import Step
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.plots import label_axes, stamped_panels
from dpbayes_cli.experiments.results import OURS, Claim, GridPoint, PointOutcome, Results
from dpbayes_cli.experiments.study import COMPLETE, CoinCase, Study, plan_release
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler
from dpbayes_cli.privacy.conversions import bounded_range_rdp

SOURCE = "[F] Figure 8"
_LARGE_EPSILON = Decimal(1000)  # an epsilon so large that the power of the likelihood is 1
_ORDER = 2.0
_MIN_SHARE = 0.95  # the claim requires that the loss reaches at least this share of the worst case


class AdversaryCase(CoinCase, frozen=True, kw_only=True):
    """A Beta prior, and the public range to which the probability of success is restricted."""

    support: Annotated[tuple[float, float], Meta(description="public range of the parameter")]

    def step(self, n_records: int) -> Step:
        """Return the only step of a release that draws once from the truncated posterior."""
        stated = {"epsilon": _LARGE_EPSILON, "support": self.support}
        return plan_release("ops", self.model, COMPLETE, n_records, **stated).steps[0]


class AdversarialData(Study, frozen=True, kw_only=True):
    """The privacy loss of one draw of a truncated posterior on data that an adversary adds record by record.

    In each step the adversary adds a success or a failure, whichever makes the privacy loss of a draw larger. Nothing
    is simulated: the loss is computed from the probabilities of all possible draws.

    Source: Foulds et al. 2016, appendix A and Fig. 8.
    """

    study: Literal["adversarial-data"]
    n: Annotated[int, Meta(ge=2, le=5000, description="number of records that are added")]
    cases: Annotated[dict[str, AdversaryCase], Meta(min_length=1)]

    columns = ("case",)
    measures = ("worst_case", "reached", "share", "divergence", "largest_divergence", "divergence_by_range")
    by_trial = ("successes", "local_epsilon", "local_divergence")
    trials_file = "paths.csv"
    unit = "record"
    shown = ("case", "worst_case", "reached", "share", "divergence", "largest_divergence")
    legend = (
        "The local epsilon of a data set is the largest log ratio of a draw's probabilities under this data set and a "
        "neighboring one. `reached`: the local epsilon after the last record; `worst_case`: the epsilon that a release "
        "costs. `divergence`: the Renyi divergence of order 2 after the last record. `largest_divergence`: the largest "
        "Renyi divergence of order 2 over all data sets with as many records as were added."
    )

    def grid(self) -> list[GridPoint]:
        cases = self.cases.items()
        return [self.point({"case": name}, msgspec.to_builtins(case), {"n": self.n}) for name, case in cases]

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
        measures = {
            "worst_case": worst,
            "reached": float(losses[-1]),
            "share": float(losses[-1] / worst),
            "divergence": float(divergences[-1]),
            "largest_divergence": float(step.guarantee.rdp(Decimal(2))),
            "divergence_by_range": bounded_range_rdp(worst, _ORDER),
        }
        trials = {"successes": chosen, "local_epsilon": losses, "local_divergence": divergences}
        return PointOutcome(measures, trials)

    def figures(self, results: Results) -> dict[str, Any]:
        def draw(axes: Any, name: str) -> None:
            result = results.one(case=name)
            n = np.arange(1, self.n + 1)
            axes.plot(n, result.trials["local_epsilon"], color="tab:blue", label="local epsilon")
            axes.plot(n, result.trials["local_divergence"], color="tab:orange", label="local divergence of order 2")
            worst, charged = result.measure("worst_case"), result.measure("largest_divergence")
            axes.axhline(worst, color="tab:blue", linestyle="--", linewidth=1.0, label="worst-case epsilon")
            axes.plot(self.n, charged, "x", color="tab:orange", label="cost at order 2")
            label_axes(axes, f"{name}, theta in {list(self.cases[name].support)}", "number of records added")

        title = "Privacy loss of one posterior draw on an adversary's data"
        panels = [(name,) for name in self.cases]
        return {"local-epsilon": stamped_panels(panels, min(len(panels), 3), draw, title)}

    def claims(self, results: Results) -> Iterator[Claim]:
        for each in results:
            losses, path = each.trials["local_epsilon"], each.trials["local_divergence"]
            worst, charged, by_range = map(each.measure, ("worst_case", "largest_divergence", "divergence_by_range"))
            at, n, share, first = each["case"], len(losses), losses[-1] / worst, losses[0] / worst
            yield Claim(
                SOURCE,
                f"{at}: the local epsilon of one posterior draw approaches the worst case as records are added.",
                _MIN_SHARE <= share <= 1.0 and first < share and max(losses) <= worst,
                f"the worst case is {worst:.4f}; the local epsilon is {first:.1%} of it at n = 1, and {share:.1%} at n "
                f"= {n}",
                "The worst case is the limit for many records. A draw is the midpoint of a grid cell, so the most "
                "extreme draw is half a cell away from the end of the support.",
            )
            yield Claim(
                OURS,
                f"{at}: draws that reach the worst case are improbable, so the Renyi divergence falls with n.",
                path[-1] <= charged < by_range and path[-1] < path[0],
                f"divergence of order 2 on the adversary's data: {path[0]:.3f} at n = 1, {path[-1]:.2g} at n = {n}; at "
                f"most {charged:.3f} over all data sets of {n} records; bound from epsilon alone: {by_range:.3g}",
            )


def local_loss(sampler: ScalarSampler, successes: int) -> tuple[float, float]:
    """Return the largest privacy loss of a draw against neighbors, and the largest divergence of order 2."""
    own = log_softmax(sampler.logs((successes,)))
    loss = divergence = 0.0
    for other in (successes - 1, successes + 1):
        if 0 <= other <= sampler.n_records:
            ratio = own - log_softmax(sampler.logs((other,)))
            loss = max(loss, float(np.abs(ratio).max()))
            for direction, law in ((ratio, own), (-ratio, own - ratio)):
                total = np.exp(law + (_ORDER - 1.0) * direction).sum()
                divergence = max(divergence, float(np.log(total)) / (_ORDER - 1.0))
    return loss, divergence
