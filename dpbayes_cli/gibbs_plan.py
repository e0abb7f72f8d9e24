"""How the mechanisms of convex losses find their temperature, prior precision, step and horizon; never sees data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dpbayes_cli.contracts import Draws, Plan, Request, Step, expect
from dpbayes_cli.convex_loss import ConvexLossModel
from dpbayes_cli.design import DesignMatrix, Rows
from dpbayes_cli.errors import DpbayesError, SpecError
from dpbayes_cli.langevin import Langevin
from dpbayes_cli.privacy.kinds import GaussianDP
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noisy_descent import (
    Certificate,
    Curvature,
    certificate,
    concentrated_precision,
    descent_mu,
    diffuse_temperature,
    largest_temperature,
    minami_corollary,
    minami_delta,
    minami_temperature,
    mu_of_statement,
)
from dpbayes_cli.privacy.renyi import gaussian_delta, round_up
from dpbayes_cli.statistic import NO_STATISTIC, Statistics

HOTTEST = 1.0
"""The temperature of the untempered posterior: a larger one would count every record more than once."""
_NEAR = math.log(10.0)
"""A horizon is long enough where (1 - h tau)^T is a tenth: of a variance a hundredth is missing then."""
_WORK = 1.2e10
"""Entries of the design that a default horizon visits at most: half a minute."""
_FEWEST = 100
_UNDER = 1.0 - 1e-10
"""Targets are approached from below by more than prices are rounded up."""
_FINE = 1 << 10
"""Released coefficients are rounded to a power of two below so small a part of 1 / sqrt(M)."""


@dataclass(frozen=True)
class Chain:
    """A calibrated chain.

    Attributes:
        rho, tau: temperature and prior precision.
        step, steps: h and T.
        mu: what one draw costs.
    """

    rho: float
    tau: float
    step: float
    steps: int
    mu: float


@dataclass(frozen=True)
class Chains:
    """What is public about a question of a convex loss: from a temperature and a prior precision to a chain.

    Attributes:
        model: the model.
        request: the request.
        n_records: the declared number of records, from which alone M, the step and the horizon follow.
        curvature: what loss and rows promise.
    """

    model: ConvexLossModel
    request: Request
    n_records: int
    curvature: Curvature

    def chain(self, rho: float, tau: float) -> Chain:
        """Return the chain of a temperature and a prior precision, and its price.

        Raises:
            SpecError: a stated step is 2 / M or more.
        """
        smoothness = self.curvature.whole(rho, tau)
        step = 1.0 / smoothness if self.request.step is None else self.request.step
        if not step * smoothness < 2.0:
            raise SpecError(
                f"the step is {step:g}, and the map is a contraction below 2 / M = {2.0 / smoothness:.6g}",
                where="sampling.step",
                hint="a smaller step; by default it is 1 / M",
            )
        steps = self.horizon(step, tau) if self.request.steps is None else self.request.steps
        mu = descent_mu(self.curvature.gradient_sensitivity(rho), step, steps, tau, smoothness)
        return Chain(rho, tau, step, steps, mu)

    def horizon(self, step: float, tau: float) -> int:
        """Return the default horizon: as long as contraction needs, but no longer than a bounded amount of work."""
        wanted = math.ceil(_NEAR / (step * tau))
        visits = self.n_records * self.model.design.entries_per_row * self.request.draws
        return max(1, min(wanted, max(_FEWEST, int(_WORK / visits))))

    def cost(self, rho: float, tau: float) -> float:
        """Return the price of one draw; infinite where the stated step is too long."""
        try:
            return self.chain(rho, tau).mu
        except SpecError:
            return math.inf

    def hottest(self, target: float) -> Chain:
        """Return the chain of the largest temperature, up to 1, whose price stays within a target.

        Raises:
            SpecError: nothing fits.
        """
        tau = self.model.precision
        rho = largest_temperature(lambda r: self.cost(r, tau), target, HOTTEST)
        if rho < 1e-12:
            self.chain(1e-12, tau)
            raise SpecError("the budget is too small for any posterior draw", where="privacy")
        return self.chain(rho, tau)

    def least_concentrated(self, rho: float, target: float) -> Chain:
        """Return the chain of a stated temperature with the smallest prior precision whose price stays within a target.

        The precision is that of the prior or more.
        """
        low = high = self.model.precision
        while self.cost(rho, high) > target:
            low, high = high, 2.0 * high
            if high > 1e300:
                raise SpecError("the budget is too small for any posterior draw", where="privacy")
        for _ in range(200):
            middle = (low + high) / 2.0
            if not low < middle < high:
                break
            low, high = (low, middle) if self.cost(rho, middle) <= target else (middle, high)
        return self.chain(rho, high)


def chains_of(model: ConvexLossModel, request: Request) -> Chains:
    """Return what is public about a question.

    Raises:
        SpecError: the number of records is private and no ``n_max`` is stated, or it is not known.
    """
    if request.policy.neighbors is Neighbors.ADD_REMOVE:
        if request.n_max is None:
            raise SpecError(
                "the number of records is private, and step, contraction and smoothness would tell it",
                where="sampling.n_max",
                hint="state a public limit: only so many records are read; or use replace-one neighbours",
            )
        n = request.n_max
    else:
        if request.n_max is not None:
            raise SpecError("the number of records is public: there is no limit to state", where="sampling.n_max")
        if request.n_records is None:
            raise SpecError("the number of records must be known beforehand", where="records", hint="--records N")
        if request.n_records < 1:
            raise SpecError("there is no record to protect", where="records")
        n = request.n_records
    # Under add-remove a record more may push another beyond the limit: two gradients differ, as where one is replaced.
    return Chains(model, request, n, model.curvature(n, 2))


def target_mu(request: Request) -> float:
    """Return the mu that one draw may cost.

    Raises:
        SpecError: none, or several, of mu, rho and (epsilon, delta) are stated.
    """
    stated = [request.mu is not None, request.rho is not None, request.epsilon is not None]
    if sum(stated) != 1:
        raise SpecError(
            "state one of: mu; rho; epsilon and delta",
            where="privacy",
            hint="--mu 0.5, --rho 0.1, or --eps 1 --delta 1e-6",
        )
    if request.mu is not None:
        whole = float(request.mu)
    elif request.rho is not None:
        whole = math.sqrt(2.0 * float(request.rho))
    else:
        epsilon, delta = stated_pair(request)
        whole = mu_of_statement(epsilon, delta)
    return whole / math.sqrt(request.draws) * _UNDER


def stated_pair(request: Request) -> tuple[float, float]:
    """Return (epsilon, delta).

    Raises:
        SpecError: one is missing: no chain has a pure epsilon.
    """
    epsilon = float(request.stated_epsilon())
    if request.delta is None:
        raise SpecError(
            "missing: a Langevin chain has no pure epsilon, whatever its length",
            where="privacy.delta",
            hint="--eps 1 --delta 1e-6, or --mu 0.5",
        )
    return epsilon, float(request.delta)


def by_gdp(chains: Chains) -> tuple[Chain, dict[str, Any]]:
    """Calibrate by Gaussian differential privacy: the largest temperature, or the least precision for a stated one.

    Privacy: the price of the chain that runs, see ``descent_mu``.
    Source: Gopi, Lee and Liu 2022 (mu = D / sqrt(tau) for exact draws); Bok, Su and Altschuler 2024 for the chain.
    """
    target, stated = target_mu(chains.request), chains.request.temperature
    return (chains.hottest(target) if stated is None else chains.least_concentrated(stated, target)), {}


def by_minami(chains: Chains) -> tuple[Chain, dict[str, Any]]:
    """Calibrate by Theorem 7 of Minami et al., solved for the temperature.

    Raises:
        SpecError: the rule's temperature is not confirmed.

    Privacy: what is charged is the price of the chain that runs; the rule only chooses the temperature, which must keep
        the stated (epsilon, delta) by the exact curve.
    Source: Minami, Arai, Sato and Nakagawa 2016, Theorem 7; Corollary 8 is stated beside it, with whether Theorem 7
        confirms it.
    """
    request, tau, slope = chains.request, chains.model.precision, chains.curvature.slope
    if request.mu is not None or request.rho is not None or request.temperature is not None:
        raise SpecError("the rule of Minami et al. finds the temperature from epsilon and delta", where="privacy")
    epsilon, delta = stated_pair(request)
    each = epsilon / request.draws, delta / request.draws
    rho = min(HOTTEST, minami_temperature(*each, slope, tau)) * _UNDER
    corollary = minami_corollary(*each, slope, tau)
    found = chains.chain(rho, tau)
    if gaussian_delta(found.mu * math.sqrt(request.draws), epsilon) > delta:
        raise SpecError("the exact curve does not confirm the rule's temperature", where="sampling.calibration")
    confirmed = minami_delta(each[0], corollary, slope, tau) <= each[1] * (1.0 + 1e-9)
    return found, {"corollary_8": {"rho": corollary, "confirmed_by_theorem_7": confirmed}}


def planned(chains: Chains, found: Chain, calibration: str, more: dict[str, Any]) -> Plan:
    """Return the plan of a calibrated chain."""
    model, request = chains.model, chains.request
    smoothness = chains.curvature.whole(found.rho, found.tau)
    left = math.exp(found.steps * math.log1p(-min(found.step * found.tau, 1.0 - 1e-16)))
    grid = 2.0 ** math.floor(math.log2(1.0 / math.sqrt(smoothness) / _FINE))
    law = Langevin(model.loss, model.design.width, found.rho, found.tau, found.step, found.steps, grid)
    mu = round_up(found.mu * math.sqrt(request.draws))
    guarantee = GaussianDP(mu)
    if not Decimal(0) < mu < Decimal(1000):
        raise DpbayesError("the price of the chain cannot be stated; nothing is released")
    described: dict[str, Any] = {
        "rho": found.rho,
        "tau": found.tau,
        "step": found.step,
        "steps": found.steps,
        "draws": request.draws,
        "calibration": calibration,
        "mu": float(mu),
        "sensitivity": chains.curvature.gradient_sensitivity(found.rho),
        "smoothness": smoothness,
        "row_norm": model.design.row_norm,
        "width": model.design.width,
        "left_of_start": left,
        "variance_inflation": 1.0 / (1.0 - found.step * smoothness / 2.0),
        "memory": model.design.memory(chains.n_records),
        **more,
    }
    if request.gamma is not None:
        described["certificate"] = _certificate(chains, found, request.gamma)
    rows = Rows(model.design, model.target, request.n_max)
    step = Step(NO_STATISTIC, law, guarantee, request.draws, rows)
    return Plan((step,), guarantee, described, _how(found, request, described), _warnings(found, left))


def _certificate(chains: Chains, found: Chain, gamma: float) -> dict[str, Any]:
    try:
        smoothness = chains.curvature.whole(found.rho, found.tau)
        known: Certificate = certificate(chains.model.design.width, found.tau, smoothness, gamma)
    except ValueError as error:
        raise SpecError(f"{error}", where="sampling.certificate") from None
    return {
        "total_variation": gamma,
        "step": known.step,
        "steps": known.steps,
        "start": "N(mode, I / M): not public, so that this chain is not the one that runs",
    }


def _how(found: Chain, request: Request, described: dict[str, Any]) -> str:
    """Return how the draws were made, in a sentence."""
    chains = "a Langevin chain" if request.draws == 1 else f"{request.draws} independent Langevin chains"
    return (
        f"the last iterate of {chains} of {found.steps} steps of {found.step:.3g} from 0, at temperature rho = "
        f"{found.rho:.4g} and prior precision tau = {found.tau:.4g}; the guarantee is that of this chain, mixed or "
        f"not. "
        f"What is public about its bias: at most {described['left_of_start']:.2g} of the distance from the start is "
        f"left, and the steps widen a variance at most {described['variance_inflation']:.3g} times"
    )


def _warnings(found: Chain, left: float) -> tuple[str, ...]:
    if left <= 0.10001:
        return ()
    return (
        f"the horizon of {found.steps} steps is short for its own contraction rate: up to {left:.2g} of the distance "
        "from the start is left in directions about which the data say little; the guarantee does not depend on it",
    )


def diffused(chains: Chains) -> tuple[Chain, dict[str, Any]]:
    """Calibrate by Algorithm 5 of Geumlek et al.: the largest temperature, up to 1.

    Raises:
        SpecError: no epsilon is stated, or the chain does not keep the divergence at the order.

    Privacy: the price of the chain that runs; the rule chooses the temperature, and is checked against that price.
    Source: Geumlek, Song and Chaudhuri 2017, Theorem 17 and Algorithm 5.
    """
    order, epsilon = _divergence(chains)
    rho = min(HOTTEST, diffuse_temperature(order, epsilon, chains.curvature.slope, chains.model.precision))
    return _within(chains.chain(rho * _UNDER, chains.model.precision), order, epsilon), {"order": order}


def concentrated(chains: Chains) -> tuple[Chain, dict[str, Any]]:
    """Calibrate by Algorithm 4 of Geumlek et al.: the smallest prior precision, that of the prior or more.

    Raises:
        SpecError: no epsilon is stated, or the chain does not keep the divergence at the order.

    Privacy: the price of the chain that runs; the rule chooses the precision, and is checked against that price.
    Source: Geumlek, Song and Chaudhuri 2017, Theorem 16 and Algorithm 4.
    """
    order, epsilon = _divergence(chains)
    rho = HOTTEST if chains.request.temperature is None else chains.request.temperature
    wanted = concentrated_precision(order, epsilon, chains.curvature.slope, rho)
    tau = max(chains.model.precision, wanted / _UNDER)
    return _within(chains.chain(rho, tau), order, epsilon), {"order": order}


def geumlek(chains: Chains) -> tuple[Chain, dict[str, Any]]:
    """Calibrate by the rule of Geumlek et al. that fits: concentrated for a stated temperature, else diffused."""
    return diffused(chains) if chains.request.temperature is None else concentrated(chains)


def _divergence(chains: Chains) -> tuple[float, float]:
    """Return the order, and the divergence that one draw may have at it."""
    request = chains.request
    if request.mu is not None or request.rho is not None or request.delta is not None:
        raise SpecError(
            "the rules of Geumlek et al. take an epsilon at an order", where="privacy", hint="--eps 0.1 --order 8"
        )
    return float(request.order), float(request.stated_epsilon()) / request.draws


def _within(found: Chain, order: float, epsilon: float) -> Chain:
    if order * found.mu**2 / 2.0 > epsilon * (1.0 + 1e-9):
        raise SpecError(
            "the chain's divergence exceeds that of an exact draw, for its step is beyond 2 / (M + tau)",
            where="sampling.step",
            hint="a smaller step; by default it is 1 / M",
        )
    return found


def run_chains(plan: Plan, evidence: Statistics) -> Draws:
    """Run the chains of a plan, and return their last iterates.

    Privacy: mu of the plan.
    Source: see ``Langevin``.
    """
    (step,) = plan.steps
    drawn = expect(step.law, Langevin).draw(expect(evidence.design, DesignMatrix), step.draws)
    return Draws(tuple(tuple(point) for point in drawn.tolist()))


def untempered(chains: Chains) -> tuple[Chain, dict[str, Any]]:
    """Return the chain on the posterior itself, whose prior decides what it costs.

    Raises:
        SpecError: an epsilon is stated, and it costs more.

    Privacy: the price of the chain that runs.
    Source: Geumlek, Song and Chaudhuri 2017, Algorithm 1.
    """
    request, order = chains.request, float(chains.request.order)
    found = chains.chain(HOTTEST, chains.model.precision)
    cost = request.draws * order * found.mu**2 / 2.0
    if request.epsilon is not None and cost > float(request.epsilon):
        raise SpecError(
            f"draws of the posterior itself cost {cost:.6g} at order {order:g}, more than {request.epsilon:.6g} "
            f"asked for",
            where="privacy.epsilon",
            hint="leave epsilon out to pay their price, or use rdp-diffuse or rdp-concentrated",
        )
    return found, {"order": order}
