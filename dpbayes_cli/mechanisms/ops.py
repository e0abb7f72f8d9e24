"""OPS: one posterior sample, tempered and truncated so that the draw itself is private."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

from dpbayes_cli.capabilities import LinearPosterior, OneParameterFamily, SharesPosterior
from dpbayes_cli.coefficient_grid import described, line_posterior
from dpbayes_cli.contracts import Card, Draws, Mechanism, Model, Plan, Sampler, Step, expect
from dpbayes_cli.discrete_network import DiscreteNetwork
from dpbayes_cli.grid_posterior import exact_curve, grid_posterior
from dpbayes_cli.lattice_posterior import LatticePosterior, cover_of
from dpbayes_cli.network_posterior import shares_or_tables
from dpbayes_cli.privacy.kinds import BoundedRange
from dpbayes_cli.privacy.lattice import LATTICE_SLACK
from dpbayes_cli.request import Request
from dpbayes_cli.statistic import Statistics
from dpbayes_cli.tempering import Tempering, tempered


class Ops(Mechanism):
    """Draw from the posterior of complete records, tempered so that each draw has the range that was asked for.

    Privacy: each of k draws has bounded range epsilon / k, together they are pure epsilon-DP; see ``GridPosterior``,
        ``LatticePosterior`` and ``LinePosterior`` for the code that draws.
    Source: Wang, Fienberg and Smola 2015; Foulds et al. 2016 sec. 2.2, 3.1; Zhang et al. 2016 sec. 4.
    """

    name: ClassVar[str] = "ops"
    summary: ClassVar[str] = "posterior samples, tempered and truncated; pure epsilon, bounded range"
    card: ClassVar[Card] = Card(
        releases="k draws from the posterior, truncated to a public range of the parameter and tempered by "
        "T = min(1, epsilon / (k R)). Nothing else: no statistic, no summary; more draws cost more.",
        guarantee="Pure epsilon-DP and bounded range epsilon / k for each draw, with its Renyi curve: accounts of "
        "(epsilon, delta), RDP or zCDP pay the curve, and many draws cost far less than their sum.",
        assumptions="Complete records, and a number of them that is public. The operating system's random numbers are "
        "secret.",
        source="Wang, Fienberg and Smola 2015; Foulds et al. 2016, sec. 2.2 and 3.1; Zhang, Rubinstein and "
        "Dimitrakakis 2016, sec. 4; Cesar and Rogers 2021 (Renyi curve of bounded range).",
        corrections="The papers draw real numbers, which floating point does not; here a cell of a public grid is "
        "drawn by exact integer weights. R = sup - inf of the log likelihood ratio replaces 2 Delta, and is never "
        "larger. Only the likelihood needs tempering (temper: joint gives the papers' form). Of a network every table "
        "has its own share of epsilon and its own temperature, whatever the number of its rows. Lines of a regression "
        "stay within the target's bounds on the whole box of the features: R does not grow with their number.",
        prefer_when="A single synthetic parameter is wanted, or many small releases on a curve budget. For anything "
        "else `laplace` tells more for the same epsilon.",
    )
    requires: ClassVar[tuple[type, ...]] = (OneParameterFamily, SharesPosterior, DiscreteNetwork, LinearPosterior)
    needs_n: ClassVar[bool] = True
    post_processing: ClassVar[bool] = False

    def plan(self, model: Model, request: Request) -> Plan:
        """Find the temperature.

        Raises:
            SpecError: records are not complete, the support is missing or wrong, or no guarantee can be given.
        """
        n = request.complete_records(model.columns)
        if isinstance(model, OneParameterFamily):
            return self._one_parameter(model, request)
        if isinstance(model, LinearPosterior):
            return self._line(model, request)
        one_row = partial(self._row, n_records=n)
        sampler, charged, parameters = shares_or_tables(model, request, request.temper, one_row)
        guarantee = BoundedRange(charged, request.draws)
        step = Step(self.statistic(model, request.policy), sampler, guarantee, request.draws)
        return Plan((step,), guarantee, parameters)

    def _one_parameter(self, model: OneParameterFamily, request: Request) -> Plan:
        sampler, found = grid_posterior(model, request, request.temper, Decimal(1))
        points = tuple((order, value * request.draws) for order, value in exact_curve(sampler))
        guarantee = BoundedRange(found.charged, request.draws, points)
        step = Step(model.statistic(request.policy), sampler, guarantee, request.draws)
        described = found.described(request, request.temper)
        return Plan((step,), guarantee, {**described, "support": list(sampler.support)})

    @staticmethod
    def _line(model: LinearPosterior, request: Request) -> Plan:
        sampler, found = line_posterior(model, request, request.temper)
        guarantee = BoundedRange(found.charged, request.draws)
        step = Step(model.statistic(request.policy), sampler, guarantee, request.draws)
        return Plan((step,), guarantee, described(sampler, found, request))

    @staticmethod
    def _row(
        concentration: tuple[float, ...], request: Request, touched: Decimal, *, n_records: int
    ) -> tuple[Sampler, Tempering, dict[str, Any]]:
        """Return the sampler of one vector of shares, its price, and its cover."""
        cover = cover_of(len(concentration), request, n_records)
        found = tempered(request, cover.spread, LATTICE_SLACK * touched, Decimal(1))
        return LatticePosterior(cover, concentration, found.temperature, request.temper), found, cover.described()

    def release(self, plan: Plan, evidence: Statistics) -> Draws:
        """Draw from the planned posterior.

        Privacy: bounded range epsilon / k a draw; the draws alone are returned.
        Source: see the class.
        """
        (step,) = plan.steps
        sampler = expect(step.law, Sampler)
        return Draws(tuple(sampler.draw(evidence.values, step.draws)))
