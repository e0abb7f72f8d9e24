"""Rules that choose likelihood power and prior precision: by Gaussian DP, by Minami et al., or by Geumlek et al."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.options import Calibration, Delta, LikelihoodPower, Mu, Order, Rho
from dpbayes_cli.mechanisms.samplers.langevin_calibration import (
    UNTEMPERED,
    CalibratedChain,
    Calibrator,
    LangevinOptions,
)
from dpbayes_cli.mechanisms.samplers.stated_mu import BELOW_TARGET, stated_mu
from dpbayes_cli.privacy import noisy_descent
from dpbayes_cli.privacy.conversions import gaussian_delta_above

DEFAULT_ORDER = Decimal(2)
"""The default order of the Renyi divergence that a stated epsilon bounds."""


class GibbsPosteriorOptions(LangevinOptions, frozen=True, kw_only=True):
    """The cost in Gaussian DP, zCDP, (epsilon, delta) or Renyi DP, and the rule that calibrates a chain to it."""

    delta: Delta = None
    rho: Rho = None
    mu: Mu = None
    order: Order = None
    calibration: Calibration = "gdp"
    likelihood_power: LikelihoodPower = None


def epsilon_and_delta(options: GibbsPosteriorOptions) -> tuple[float, float]:
    """Return the stated (epsilon, delta); refuse a request without delta, because no chain has a pure epsilon."""
    epsilon = float(options.stated_epsilon())
    if options.delta is None:
        raise SpecError(
            "missing: this mechanism has no pure epsilon, so it always needs a delta",
            where="privacy.delta",
            hint="--eps 1 --delta 1e-6, or --mu 0.5",
        )
    return epsilon, float(options.delta)


def gdp_rule(chains: Calibrator, options: GibbsPosteriorOptions) -> tuple[CalibratedChain, dict[str, Any]]:
    """Calibrate by Gaussian DP: find the largest likelihood power or, if a power is stated, the least prior precision.

    Raises:
        SpecError: not exactly one of mu, rho and (epsilon, delta) is stated, or delta is stated without epsilon.

    Privacy: the charge is the cost of the chain that runs, see ``descent_mu``.
    Source: Gopi, Lee and Liu 2022 (mu = D / sqrt(tau) for exact draws); Bok, Su and Altschuler 2024 for the chain.
    """
    _check_no_order(options)
    target, stated = stated_mu(options) / math.sqrt(options.draws) * BELOW_TARGET, options.likelihood_power
    return (chains.with_largest_power(target) if stated is None else chains.least_concentrated(stated, target)), {}


def minami_rule(chains: Calibrator, options: GibbsPosteriorOptions) -> tuple[CalibratedChain, dict[str, Any]]:
    """Calibrate by Theorem 7 of Minami et al., solved for the likelihood power.

    Raises:
        SpecError: mu, rho or a likelihood power is stated, or the cost of the chain exceeds (epsilon, delta).

    Privacy: the charge is the cost of the chain that runs. The rule only chooses the likelihood power. The exact
        Gaussian curve of the chain at this power must imply the stated (epsilon, delta).
    Source: Minami, Arai, Sato and Nakagawa 2016, Theorem 7. The plan also states the likelihood power of Corollary 8,
        and whether Theorem 7 confirms it.
    """
    _check_no_order(options)
    tau, slope = chains.model.precision, chains.curvature.slope
    if options.mu is not None or options.rho is not None or options.likelihood_power is not None:
        raise SpecError("this calibration needs epsilon and delta, and no mu, rho or likelihood power", where="privacy")
    epsilon, delta = epsilon_and_delta(options)
    per_draw = epsilon / options.draws, delta / options.draws
    power = min(UNTEMPERED, noisy_descent.minami_likelihood_power(*per_draw, slope, tau)) * BELOW_TARGET
    corollary = noisy_descent.minami_corollary(*per_draw, slope, tau)
    chain = chains.chain(power, tau)
    if gaussian_delta_above(chain.mu * math.sqrt(options.draws), epsilon) > delta:
        raise SpecError(
            "at the likelihood power of this rule the chain costs more than epsilon and delta",
            where="sampling.calibration",
            hint="--calibration gdp",
        )
    confirmed = noisy_descent.minami_delta(per_draw[0], corollary, slope, tau) <= per_draw[1] * (1.0 + 1e-9)
    return chain, {"corollary_8": {"likelihood_power": corollary, "confirmed_by_theorem_7": confirmed}}


def calibrate_diffuse(chains: Calibrator, order: Decimal | None) -> tuple[CalibratedChain, dict[str, Any]]:
    """Calibrate by Algorithm 5 of Geumlek et al.: the largest likelihood power, up to 1.

    Raises:
        SpecError: no epsilon is stated, or the chain's Renyi divergence at the order exceeds it.

    Privacy: the charge is the cost of the chain that runs; it must stay within epsilon at the rule's likelihood power.
    Source: Geumlek, Song and Chaudhuri 2017, Theorem 17 and Algorithm 5.
    """
    at_order, epsilon = _divergence(chains, order)
    slope, tau = chains.curvature.slope, chains.model.precision
    power = min(UNTEMPERED, noisy_descent.diffuse_likelihood_power(at_order, epsilon, slope, tau))
    chain = chains.chain(power * BELOW_TARGET, tau)
    return _check_divergence(chain, at_order, epsilon), {"order": at_order}


def calibrate_concentrated(
    chains: Calibrator, order: Decimal | None, likelihood_power: float | None
) -> tuple[CalibratedChain, dict[str, Any]]:
    """Calibrate by Algorithm 4 of Geumlek et al.: the smallest prior precision, at least that of the prior.

    Raises:
        SpecError: no epsilon is stated, or the chain's Renyi divergence at the order exceeds it.

    Privacy: the charge is the cost of the chain that runs; it must stay within epsilon at the rule's precision.
    Source: Geumlek, Song and Chaudhuri 2017, Theorem 16 and Algorithm 4.
    """
    at_order, epsilon = _divergence(chains, order)
    power = UNTEMPERED if likelihood_power is None else likelihood_power
    needed = noisy_descent.concentrated_precision(at_order, epsilon, chains.curvature.slope, power)
    tau = max(chains.model.precision, needed / BELOW_TARGET)
    return _check_divergence(chains.chain(power, tau), at_order, epsilon), {"order": at_order}


def geumlek_rule(chains: Calibrator, options: GibbsPosteriorOptions) -> tuple[CalibratedChain, dict[str, Any]]:
    """Calibrate by a rule of Geumlek et al.: concentrated if a likelihood power is stated, otherwise diffuse."""
    if options.mu is not None or options.rho is not None or options.delta is not None:
        raise SpecError(
            "the rules of Geumlek et al. need a Renyi divergence epsilon at an order",
            where="privacy",
            hint="--eps 0.1 --order 8",
        )
    if options.likelihood_power is None:
        return calibrate_diffuse(chains, options.order)
    return calibrate_concentrated(chains, options.order, options.likelihood_power)


def _divergence(chains: Calibrator, order: Decimal | None) -> tuple[float, float]:
    """Return the order, and the Renyi divergence that one draw may have at this order."""
    return float(order or DEFAULT_ORDER), float(chains.options.stated_epsilon()) / chains.options.draws


def _check_no_order(options: GibbsPosteriorOptions) -> None:
    if options.order is not None:
        raise SpecError(
            "only the calibration rules of Geumlek et al. use an order",
            where="privacy.order",
            hint="--calibration geumlek, or leave it out",
        )


def _check_divergence(chain: CalibratedChain, order: float, epsilon: float) -> CalibratedChain:
    if order * chain.mu**2 / 2.0 > epsilon * (1.0 + 1e-9):
        raise SpecError(
            "the chain would cost more than epsilon, because its step size is above 2 / (M + tau)",
            where="sampling.step_size",
            hint="use a smaller step size; the default is 1 / M",
        )
    return chain


def untempered_chain(chains: Calibrator, order: Decimal | None) -> tuple[CalibratedChain, dict[str, Any]]:
    """Return the chain on the untempered posterior; the narrower its prior is, the less the chain costs.

    Raises:
        SpecError: an epsilon is stated, and the chain costs more.

    Privacy: the charge is the cost of the chain that runs.
    Source: Geumlek, Song and Chaudhuri 2017, Algorithm 1.
    """
    options, at_order = chains.options, float(order or DEFAULT_ORDER)
    chain = chains.chain(UNTEMPERED, chains.model.precision)
    cost = options.draws * at_order * chain.mu**2 / 2.0
    if options.epsilon is not None and cost > float(options.epsilon):
        raise SpecError(
            f"untempered draws cost {cost:.6g} at order {at_order:g}, more than epsilon {options.epsilon:.6g}",
            where="privacy.epsilon",
            hint="leave epsilon out to pay the cost of the posterior, or use rdp-diffuse or rdp-concentrated",
        )
    return chain, {"order": at_order}
