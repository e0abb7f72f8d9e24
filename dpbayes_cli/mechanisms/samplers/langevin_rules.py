"""The rules that find likelihood power and prior precision: by Gaussian DP, by Minami et al., by Geumlek et al."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.options import Calibration, Delta, LikelihoodPower, Mu, Order, Rho
from dpbayes_cli.mechanisms.samplers.langevin_calibration import (
    BELOW_TARGET,
    UNTEMPERED,
    CalibratedChain,
    ChainCalibrator,
    LangevinOptions,
)
from dpbayes_cli.privacy.conversions import gaussian_delta_above
from dpbayes_cli.privacy.noisy_descent import (
    concentrated_precision,
    diffuse_likelihood_power,
    minami_corollary,
    minami_delta,
    minami_likelihood_power,
    mu_of_statement,
)

DEFAULT_ORDER = Decimal(2)
"""The order at which a divergence is meant where none is stated."""


class GibbsPosteriorOptions(LangevinOptions, frozen=True, kw_only=True):
    """A price in Gaussian DP, zCDP, (epsilon, delta) or Renyi DP, and the rule that keeps it."""

    delta: Delta = None
    rho: Rho = None
    mu: Mu = None
    order: Order = None
    calibration: Calibration = "gdp"
    likelihood_power: LikelihoodPower = None


def target_mu(options: GibbsPosteriorOptions) -> float:
    """Return the mu that one draw may cost.

    Raises:
        SpecError: none, or several, of mu, rho and (epsilon, delta) are stated, or a delta without its epsilon.
    """
    stated = [options.mu is not None, options.rho is not None, options.epsilon is not None]
    if sum(stated) != 1 or (options.delta is not None and options.epsilon is None):
        raise SpecError(
            "state one of: mu; rho; epsilon and delta",
            where="privacy",
            hint="--mu 0.5, --rho 0.1, or --eps 1 --delta 1e-6",
        )
    if options.mu is not None:
        whole = float(options.mu)
    elif options.rho is not None:
        whole = math.sqrt(2.0 * float(options.rho))
    else:
        epsilon, delta = epsilon_and_delta(options)
        whole = mu_of_statement(epsilon, delta)
    return whole / math.sqrt(options.draws) * BELOW_TARGET


def epsilon_and_delta(options: GibbsPosteriorOptions) -> tuple[float, float]:
    """Return (epsilon, delta).

    Raises:
        SpecError: one is missing: no chain has a pure epsilon.
    """
    epsilon = float(options.stated_epsilon())
    if options.delta is None:
        raise SpecError(
            "missing: a Langevin chain has no pure epsilon, whatever its length",
            where="privacy.delta",
            hint="--eps 1 --delta 1e-6, or --mu 0.5",
        )
    return epsilon, float(options.delta)


def calibrate_gdp(chains: ChainCalibrator, options: GibbsPosteriorOptions) -> tuple[CalibratedChain, dict[str, Any]]:
    """Calibrate by Gaussian DP: the largest likelihood power, or the least precision for a stated one.

    Privacy: the price of the chain that runs, see ``descent_mu``.
    Source: Gopi, Lee and Liu 2022 (mu = D / sqrt(tau) for exact draws); Bok, Su and Altschuler 2024 for the chain.
    """
    _check_no_order(options)
    target, stated = target_mu(options), options.likelihood_power
    return (chains.with_largest_power(target) if stated is None else chains.least_concentrated(stated, target)), {}


def calibrate_minami(chains: ChainCalibrator, options: GibbsPosteriorOptions) -> tuple[CalibratedChain, dict[str, Any]]:
    """Calibrate by Theorem 7 of Minami et al., solved for the likelihood power.

    Raises:
        SpecError: the rule's likelihood power is not confirmed.

    Privacy: what is charged is the price of the chain that runs; the rule only chooses the likelihood power, which must
        keep the stated (epsilon, delta) by the exact curve.
    Source: Minami, Arai, Sato and Nakagawa 2016, Theorem 7; Corollary 8 is stated beside it, with whether Theorem 7
        confirms it.
    """
    _check_no_order(options)
    tau, slope = chains.model.precision, chains.curvature.slope
    if options.mu is not None or options.rho is not None or options.likelihood_power is not None:
        raise SpecError("the rule of Minami et al. finds the likelihood power from epsilon and delta", where="privacy")
    epsilon, delta = epsilon_and_delta(options)
    each = epsilon / options.draws, delta / options.draws
    power = min(UNTEMPERED, minami_likelihood_power(*each, slope, tau)) * BELOW_TARGET
    corollary = minami_corollary(*each, slope, tau)
    found = chains.chain(power, tau)
    if gaussian_delta_above(found.mu * math.sqrt(options.draws), epsilon) > delta:
        raise SpecError("the exact curve does not confirm the rule's likelihood_power", where="sampling.calibration")
    confirmed = minami_delta(each[0], corollary, slope, tau) <= each[1] * (1.0 + 1e-9)
    return found, {"corollary_8": {"likelihood_power": corollary, "confirmed_by_theorem_7": confirmed}}


def calibrate_diffuse(chains: ChainCalibrator, order: Decimal | None) -> tuple[CalibratedChain, dict[str, Any]]:
    """Calibrate by Algorithm 5 of Geumlek et al.: the largest likelihood power, up to 1.

    Raises:
        SpecError: no epsilon is stated, or the chain does not keep the divergence at the order.

    Privacy: the price of the chain that runs; the rule chooses the likelihood power, and is checked against that price.
    Source: Geumlek, Song and Chaudhuri 2017, Theorem 17 and Algorithm 5.
    """
    at, epsilon = _divergence(chains, order)
    power = min(UNTEMPERED, diffuse_likelihood_power(at, epsilon, chains.curvature.slope, chains.model.precision))
    return _within(chains.chain(power * BELOW_TARGET, chains.model.precision), at, epsilon), {"order": at}


def calibrate_concentrated(
    chains: ChainCalibrator, order: Decimal | None, likelihood_power: float | None
) -> tuple[CalibratedChain, dict[str, Any]]:
    """Calibrate by Algorithm 4 of Geumlek et al.: the smallest prior precision, that of the prior or more.

    Raises:
        SpecError: no epsilon is stated, or the chain does not keep the divergence at the order.

    Privacy: the price of the chain that runs; the rule chooses the precision, and is checked against that price.
    Source: Geumlek, Song and Chaudhuri 2017, Theorem 16 and Algorithm 4.
    """
    at, epsilon = _divergence(chains, order)
    power = UNTEMPERED if likelihood_power is None else likelihood_power
    wanted = concentrated_precision(at, epsilon, chains.curvature.slope, power)
    tau = max(chains.model.precision, wanted / BELOW_TARGET)
    return _within(chains.chain(power, tau), at, epsilon), {"order": at}


def calibrate_geumlek(
    chains: ChainCalibrator, options: GibbsPosteriorOptions
) -> tuple[CalibratedChain, dict[str, Any]]:
    """Calibrate by the rule of Geumlek et al. that fits: concentrated for a stated likelihood power, else diffused.

    Raises:
        SpecError: another price is stated, which these rules would not keep.
    """
    if options.mu is not None or options.rho is not None or options.delta is not None:
        raise SpecError(
            "the rules of Geumlek et al. take an epsilon at an order", where="privacy", hint="--eps 0.1 --order 8"
        )
    if options.likelihood_power is None:
        return calibrate_diffuse(chains, options.order)
    return calibrate_concentrated(chains, options.order, options.likelihood_power)


def _divergence(chains: ChainCalibrator, order: Decimal | None) -> tuple[float, float]:
    """Return the order, and the divergence that one draw may have at it."""
    return float(order or DEFAULT_ORDER), float(chains.options.stated_epsilon()) / chains.options.draws


def _check_no_order(options: GibbsPosteriorOptions) -> None:
    """Refuse an order that the rule does not read."""
    if options.order is not None:
        raise SpecError(
            "an order is read by the rules of Geumlek et al. alone",
            where="privacy.order",
            hint="--calibration geumlek, or leave it out",
        )


def _within(found: CalibratedChain, order: float, epsilon: float) -> CalibratedChain:
    if order * found.mu**2 / 2.0 > epsilon * (1.0 + 1e-9):
        raise SpecError(
            "the chain's divergence exceeds that of an exact draw, for its step is beyond 2 / (M + tau)",
            where="sampling.step_size",
            hint="a smaller step size; by default it is 1 / M",
        )
    return found


def untempered_chain(chains: ChainCalibrator, order: Decimal | None) -> tuple[CalibratedChain, dict[str, Any]]:
    """Return the chain on the posterior itself, whose prior decides what it costs.

    Raises:
        SpecError: an epsilon is stated, and it costs more.

    Privacy: the price of the chain that runs.
    Source: Geumlek, Song and Chaudhuri 2017, Algorithm 1.
    """
    options, at = chains.options, float(order or DEFAULT_ORDER)
    found = chains.chain(UNTEMPERED, chains.model.precision)
    cost = options.draws * at * found.mu**2 / 2.0
    if options.epsilon is not None and cost > float(options.epsilon):
        raise SpecError(
            f"draws of the posterior itself cost {cost:.6g} at order {at:g}, more than {options.epsilon:.6g} asked for",
            where="privacy.epsilon",
            hint="leave epsilon out to pay their price, or use rdp-diffuse or rdp-concentrated",
        )
    return found, {"order": at}
