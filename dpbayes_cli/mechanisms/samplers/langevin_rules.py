"""The rules that find temperature and prior precision: by Gaussian DP, by Minami et al., by Geumlek et al."""

from __future__ import annotations

import math
from typing import Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.request import Request
from dpbayes_cli.mechanisms.samplers.langevin_calibration import HOTTEST, UNDER, CalibratedChain, Chains
from dpbayes_cli.privacy.noisy_descent import (
    concentrated_precision,
    diffuse_temperature,
    minami_corollary,
    minami_delta,
    minami_temperature,
    mu_of_statement,
)
from dpbayes_cli.privacy.renyi import gaussian_delta_above


def target_mu(request: Request) -> float:
    """Return the mu that one draw may cost.

    Raises:
        SpecError: none, or several, of mu, rho and (epsilon, delta) are stated, or a delta without its epsilon.
    """
    stated = [request.mu is not None, request.rho is not None, request.epsilon is not None]
    if sum(stated) != 1 or (request.delta is not None and request.epsilon is None):
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
    return whole / math.sqrt(request.draws) * UNDER


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


def by_gdp(chains: Chains) -> tuple[CalibratedChain, dict[str, Any]]:
    """Calibrate by Gaussian differential privacy: the largest temperature, or the least precision for a stated one.

    Privacy: the price of the chain that runs, see ``descent_mu``.
    Source: Gopi, Lee and Liu 2022 (mu = D / sqrt(tau) for exact draws); Bok, Su and Altschuler 2024 for the chain.
    """
    target, stated = target_mu(chains.request), chains.request.temperature
    return (chains.hottest(target) if stated is None else chains.least_concentrated(stated, target)), {}


def by_minami(chains: Chains) -> tuple[CalibratedChain, dict[str, Any]]:
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
    rho = min(HOTTEST, minami_temperature(*each, slope, tau)) * UNDER
    corollary = minami_corollary(*each, slope, tau)
    found = chains.chain(rho, tau)
    if gaussian_delta_above(found.mu * math.sqrt(request.draws), epsilon) > delta:
        raise SpecError("the exact curve does not confirm the rule's temperature", where="sampling.calibration")
    confirmed = minami_delta(each[0], corollary, slope, tau) <= each[1] * (1.0 + 1e-9)
    return found, {"corollary_8": {"rho": corollary, "confirmed_by_theorem_7": confirmed}}


def diffused(chains: Chains) -> tuple[CalibratedChain, dict[str, Any]]:
    """Calibrate by Algorithm 5 of Geumlek et al.: the largest temperature, up to 1.

    Raises:
        SpecError: no epsilon is stated, or the chain does not keep the divergence at the order.

    Privacy: the price of the chain that runs; the rule chooses the temperature, and is checked against that price.
    Source: Geumlek, Song and Chaudhuri 2017, Theorem 17 and Algorithm 5.
    """
    order, epsilon = _divergence(chains)
    _check_no_temperature(chains.request)
    rho = min(HOTTEST, diffuse_temperature(order, epsilon, chains.curvature.slope, chains.model.precision))
    return _within(chains.chain(rho * UNDER, chains.model.precision), order, epsilon), {"order": order}


def concentrated(chains: Chains) -> tuple[CalibratedChain, dict[str, Any]]:
    """Calibrate by Algorithm 4 of Geumlek et al.: the smallest prior precision, that of the prior or more.

    Raises:
        SpecError: no epsilon is stated, or the chain does not keep the divergence at the order.

    Privacy: the price of the chain that runs; the rule chooses the precision, and is checked against that price.
    Source: Geumlek, Song and Chaudhuri 2017, Theorem 16 and Algorithm 4.
    """
    order, epsilon = _divergence(chains)
    rho = HOTTEST if chains.request.temperature is None else chains.request.temperature
    wanted = concentrated_precision(order, epsilon, chains.curvature.slope, rho)
    tau = max(chains.model.precision, wanted / UNDER)
    return _within(chains.chain(rho, tau), order, epsilon), {"order": order}


def geumlek(chains: Chains) -> tuple[CalibratedChain, dict[str, Any]]:
    """Calibrate by the rule of Geumlek et al. that fits: concentrated for a stated temperature, else diffused."""
    return diffused(chains) if chains.request.temperature is None else concentrated(chains)


def _divergence(chains: Chains) -> tuple[float, float]:
    """Return the order, and the divergence that one draw may have at it."""
    request = chains.request
    _check_divergence(request)
    return float(request.order), float(request.stated_epsilon()) / request.draws


def _check_divergence(request: Request) -> None:
    """Refuse a price that these rules would not keep, rather than pay another."""
    if request.mu is not None or request.rho is not None or request.delta is not None:
        raise SpecError(
            "the rules of Geumlek et al. take an epsilon at an order", where="privacy", hint="--eps 0.1 --order 8"
        )


def _check_no_temperature(request: Request) -> None:
    """Refuse a temperature that would not be that of the chain."""
    if request.temperature is not None:
        raise SpecError(
            "this rule decides the temperature itself", where="sampling.temperature", hint="rdp-concentrated takes one"
        )


def _within(found: CalibratedChain, order: float, epsilon: float) -> CalibratedChain:
    if order * found.mu**2 / 2.0 > epsilon * (1.0 + 1e-9):
        raise SpecError(
            "the chain's divergence exceeds that of an exact draw, for its step is beyond 2 / (M + tau)",
            where="sampling.step",
            hint="a smaller step; by default it is 1 / M",
        )
    return found


def untempered(chains: Chains) -> tuple[CalibratedChain, dict[str, Any]]:
    """Return the chain on the posterior itself, whose prior decides what it costs.

    Raises:
        SpecError: an epsilon is stated, and it costs more; or another price, or a temperature, is stated.

    Privacy: the price of the chain that runs.
    Source: Geumlek, Song and Chaudhuri 2017, Algorithm 1.
    """
    request, order = chains.request, float(chains.request.order)
    _check_divergence(request)
    _check_no_temperature(request)
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
