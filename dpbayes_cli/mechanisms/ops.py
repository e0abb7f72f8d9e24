"""OPS: one posterior sample, tempered and truncated so that the draw itself is private."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from typing import Any, ClassVar

from dpbayes_cli.capabilities import DECIMALS, OneParameterFamily, SharesPosterior
from dpbayes_cli.contracts import Card, Draws, Mechanism, Model, Plan, Request, Sampler, Step, Temper, expect
from dpbayes_cli.errors import SpecError
from dpbayes_cli.grid_posterior import LARGEST_LOG, GridPosterior, exact_curve
from dpbayes_cli.privacy.grid import EXACT, SLACK
from dpbayes_cli.privacy.kinds import BoundedRange
from dpbayes_cli.privacy.lattice import LATTICE_SLACK, SimplexLattice, share_table
from dpbayes_cli.privacy.renyi import round_up
from dpbayes_cli.statistic import Statistics

_MOST_SHARES = 32
_DOWN = Context(prec=30, rounding=ROUND_FLOOR)
_UP = Context(prec=30, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class LatticePosterior(Sampler):
    """The tempered posterior of a vector of shares on the lattice {k / G : sum k = G, k_j >= a0 G}.

    Privacy: replacing a record divides a weight by theta_i^T and multiplies it by theta_j^T, which varies over the
        lattice by at most T R, R = 2 log(largest / smallest share); integers add less than ``LATTICE_SLACK``.
    Source: Foulds et al. 2016 sec. 3.1; Zhang et al. 2016 Lemma 2; mechanisms, truncated Dirichlet.
    """

    concentration: tuple[float, ...]
    n_records: int
    temperature: Decimal
    temper: Temper
    resolution: int
    least: int

    @property
    def most(self) -> int:
        """The largest count of a coordinate."""
        return self.resolution - (len(self.concentration) - 1) * self.least

    def lattice(self, values: Sequence[int]) -> SimplexLattice:
        """Return the law that exact counts determine.

        The factor exp(-kappa share) does not change the law, for shares add up to one; it centres the tables.
        """
        power = self.temperature if self.temper == "joint" else Decimal(1)
        priors = [EXACT.multiply(EXACT.subtract(Decimal(a), Decimal(1)), power) for a in self.concentration]
        kappa = max(Decimal(0), EXACT.multiply(self.temperature, Decimal(self.n_records)) + sum(priors, Decimal(0)))
        tables = []
        for prior, count in zip(priors, values, strict=True):
            exponent = EXACT.add(prior, EXACT.multiply(self.temperature, Decimal(count)))

            def log_weight(share: Decimal, exponent: Decimal = exponent) -> Decimal:
                return EXACT.subtract(EXACT.multiply(exponent, EXACT.ln(share)), EXACT.multiply(kappa, share))

            tables.append(share_table(self.resolution, self.least, self.most, log_weight))
        return SimplexLattice(self.resolution, self.least, tuple(tables))

    def draw(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        """Draw lattice points exactly."""
        return [tuple(k / self.resolution for k in point) for point in self.lattice(values).draw(size)]

    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        """Return those of the tempered Dirichlet law, without its truncation."""
        power = float(self.temperature)
        prior = [(a - 1.0) * (power if self.temper == "joint" else 1.0) + 1.0 for a in self.concentration]
        shape, total = prior[0] + power * values[0], sum(prior) + power * sum(values)
        return shape / total, math.sqrt(max(0.0, shape * (total - shape)) / (total + 1.0)) / total


class Ops(Mechanism):
    """Draw from the posterior of complete records, tempered so that each draw has the range that was asked for.

    Privacy: each of k draws has bounded range epsilon / k, together they are pure epsilon-DP; see ``GridPosterior``
        and ``LatticePosterior`` for the code that draws.
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
        "larger. Only the likelihood needs tempering (temper: joint gives the papers' form).",
        prefer_when="A single synthetic parameter is wanted, or many small releases on a curve budget. For anything "
        "else `laplace` tells more for the same epsilon.",
    )
    requires: ClassVar[tuple[type, ...]] = (OneParameterFamily, SharesPosterior)
    needs_n: ClassVar[bool] = True
    post_processing: ClassVar[bool] = False

    def plan(self, model: Model, request: Request) -> Plan:
        """Find the temperature.

        Raises:
            SpecError: records are not complete, the support is missing or wrong, or no guarantee can be given.
        """
        n = request.complete_records(model)
        epsilon = request.stated_epsilon()
        each = _DOWN.divide(epsilon, Decimal(request.draws))
        if isinstance(model, OneParameterFamily):
            return self._one_parameter(model, request, n, epsilon, each)
        return self._shares(expect(model, SharesPosterior), request, n, epsilon, each)

    def _one_parameter(
        self, model: OneParameterFamily, request: Request, n: int, epsilon: Decimal, each: Decimal
    ) -> Plan:
        low, high = support = _support(model, request)
        _, width, steps = model.grid
        with localcontext(EXACT):
            (a_low, _), (a_high, _) = (model.natural(Decimal(end), DECIMALS) for end in (low, high))
            exact = abs(a_high - a_low) * width.numerator * steps / width.denominator
        spread = _UP.multiply(exact, Decimal("1") + Decimal("1e-25"))
        temperature, charged = _temperature(each, epsilon, spread, SLACK, request.draws)
        n_cells = min(1 << 20, max(1 << 10, 1 << math.ceil(math.log2(64.0 * math.sqrt(n)))))
        sampler = GridPosterior(model, n, temperature, request.temper, support, n_cells)
        if not sampler.magnitude <= LARGEST_LOG:
            raise SpecError(
                "the log density is too large on this support for the grid to be screened in floats",
                where="sampling.support",
                hint="state bounds, a prior and a support that are not far from zero, in units of the bounds' width",
            )
        points = tuple((order, value * request.draws) for order, value in exact_curve(sampler))
        guarantee = BoundedRange(charged, request.draws, points)
        step = Step(model.statistic(request.policy), sampler, guarantee, request.draws)
        return Plan((step,), guarantee, {**_described(temperature, spread, request), "support": [low, high]})

    def _shares(self, model: SharesPosterior, request: Request, n: int, epsilon: Decimal, each: Decimal) -> Plan:
        k = len(model.concentration)
        if k > _MOST_SHARES:
            raise SpecError(f"ops draws at most {_MOST_SHARES} shares exactly; this model has {k}", where="mechanism")
        a0 = request.support[0] if request.support else min(0.1, 0.5 / k)
        if not 0.0 < a0 < 1.0 / k or (request.support and abs(request.support[1] - (1.0 - (k - 1) * a0)) > 1e-9):
            raise SpecError(
                f"the shares' support is [a0, 1 - {k - 1} a0] with 0 < a0 < 1 / {k}", where="sampling.support"
            )
        coarse = 1 << math.ceil(math.log2(max(8.0 * math.sqrt(n), 8.0 * k, 2.0 / a0)))
        resolution = min(1024 if k <= 8 else 512, max(64, coarse))
        least = math.ceil(Decimal(a0) * resolution)
        most = resolution - (k - 1) * least
        if most <= least:
            raise SpecError("the shares' support holds no point of the lattice", where="sampling.support")
        spread = _UP.multiply(Decimal(2), _UP.ln(_UP.divide(Decimal(most), Decimal(least)))) + Decimal("1e-25")
        temperature, charged = _temperature(each, epsilon, spread, LATTICE_SLACK, request.draws)
        sampler = LatticePosterior(model.concentration, n, temperature, request.temper, resolution, least)
        guarantee = BoundedRange(charged, request.draws)
        step = Step(model.statistic(request.policy), sampler, guarantee, request.draws)
        parameters = {**_described(temperature, spread, request), "support": [least / resolution, most / resolution]}
        return Plan((step,), guarantee, {**parameters, "resolution": resolution})

    def release(self, plan: Plan, evidence: Statistics) -> Draws:
        """Draw from the planned posterior.

        Privacy: bounded range epsilon / k a draw; the draws alone are returned.
        Source: see the class.
        """
        (step,) = plan.steps
        sampler = expect(step.law, Sampler)
        return Draws(tuple(sampler.draw(evidence.values, step.draws)))


def _support(model: OneParameterFamily, request: Request) -> tuple[float, float]:
    """Return the public truncation of the parameter."""
    support = request.support or model.default_support
    least, most = model.parameter_range
    if support is None:
        raise SpecError(
            "the posterior must be truncated to a public range of its parameter",
            where="sampling.support",
            hint="choose it without looking at the data: --support LOW,HIGH",
        )
    if not (least < support[0] < support[1] < most and all(map(math.isfinite, support))):
        raise SpecError(
            f"the support is {list(support)}; allowed: low < high, strictly inside ({least:g}, {most:g})",
            where="sampling.support",
        )
    return support


def _temperature(
    each: Decimal, epsilon: Decimal, spread: Decimal, extra: Decimal, draws: int
) -> tuple[Decimal, Decimal]:
    """Return T = min(1, (each - extra) / R), rounded down, and the epsilon that is charged, rounded up."""
    if each <= 2 * extra:
        raise SpecError(
            f"epsilon is {epsilon:g} for {draws} draws; below {2 * extra * draws:g} nothing can be drawn exactly",
            where="privacy.epsilon",
        )
    temperature = min(Decimal(1), _DOWN.divide(_DOWN.subtract(each, extra), spread))
    one = _UP.add(_UP.multiply(temperature, spread), extra)
    return temperature, min(epsilon, _UP.create_decimal(round_up(float(one * draws))))


def _described(temperature: Decimal, spread: Decimal, request: Request) -> dict[str, Any]:
    return {
        "temperature": float(temperature),
        "range": float(spread),
        "draws": request.draws,
        "temper": request.temper,
    }
