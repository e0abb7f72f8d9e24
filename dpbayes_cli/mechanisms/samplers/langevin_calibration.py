"""How the mechanisms of convex losses find likelihood power, prior precision, step size and horizon, without data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dpbayes_cli.base.errors import DpbayesError, SpecError
from dpbayes_cli.core.columns import RecordPolicy, known_number
from dpbayes_cli.core.design import DesignMatrix, Rows
from dpbayes_cli.core.langevin import Langevin
from dpbayes_cli.core.options import (
    CertificateKind,
    ChainSampler,
    EpsilonOptions,
    Gamma,
    MaxRecords,
    NumberOfDraws,
    NumberOfSteps,
    StepSize,
)
from dpbayes_cli.core.plan import Plan, Step
from dpbayes_cli.core.released import Draws
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import NO_STATISTIC, Statistics
from dpbayes_cli.models.families.convex_loss import ConvexLossModel
from dpbayes_cli.privacy.conversions import round_up
from dpbayes_cli.privacy.kinds import GaussianDP
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noisy_descent import (
    Certificate,
    Curvature,
    certificate,
    descent_mu,
    largest_likelihood_power,
)

UNTEMPERED = 1.0
"""The likelihood power of the untempered posterior: a larger one would count every record more than once."""
_NEAR = 3.0
"""A horizon is long enough where (1 - h tau)^T is exp(-3): 5 % of the start's distance are left."""
_WORK = 1.2e10
"""Entries of the design that a default horizon visits at most: half a minute."""
_FEWEST = 100
_WIDE = 4.0
"""Variances that are wider by more are worth a warning; a step of 1 / M makes it 2 at most."""
_CONTRACTS = 2.0 * (1.0 - 1e-5)
"""A step is a contraction where step M < 2; so close to it floats could not tell."""
BELOW_TARGET = 1.0 - 1e-10
"""Targets are approached from below by more than prices are rounded up."""
_WIDENED = 0.1
"""By how much a chain's noise may be wider than its posterior asks for, to cover what double precision loses."""
_GAMMA = 0.01
_FINE = 1 << 10
"""Released coefficients are rounded to a power of two below so small a part of 1 / sqrt(M)."""


class LangevinOptions(EpsilonOptions, frozen=True, kw_only=True):
    """What every mechanism on a convex loss reads."""

    draws: NumberOfDraws = 1
    sampler: ChainSampler = "langevin"
    step_size: StepSize = None
    n_steps: NumberOfSteps = None
    max_records: MaxRecords = None
    certificate: CertificateKind = None
    gamma: Gamma = _GAMMA


@dataclass(frozen=True)
class CalibratedChain:
    """A calibrated chain.

    Attributes:
        likelihood_power: the power of the likelihood.
        tau: the prior precision.
        step_size, n_steps: h and T.
        mu: what one draw costs.
    """

    likelihood_power: float
    tau: float
    step_size: float
    n_steps: int
    mu: float


@dataclass(frozen=True)
class ChainCalibrator:
    """What is public about a question of a convex loss: from a likelihood power and a prior precision to a chain.

    Attributes:
        model: the model.
        options: what is asked.
        n_records: the declared number of records, from which alone M, the step and the horizon follow.
        curvature: what loss and rows promise.
    """

    model: ConvexLossModel
    options: LangevinOptions
    n_records: int
    curvature: Curvature

    def chain(self, power: float, tau: float) -> CalibratedChain:
        """Return the chain of a likelihood power and a prior precision, and its price.

        Raises:
            SpecError: a stated step is 2 / M or more.
        """
        smoothness = self.curvature.potential_smoothness(power, tau)
        step_size = 1.0 / smoothness if self.options.step_size is None else self.options.step_size
        if not step_size * smoothness < _CONTRACTS:
            raise SpecError(
                f"the step size is {step_size:g}, and the map is a contraction below 2 / M = {2.0 / smoothness:.6g}",
                where="sampling.step_size",
                hint="a smaller step size; by default it is 1 / M",
            )
        n_steps = self.horizon(step_size, tau) if self.options.n_steps is None else self.options.n_steps
        mu = descent_mu(self.curvature.gradient_sensitivity(power), step_size, n_steps, tau, smoothness)
        return CalibratedChain(power, tau, step_size, n_steps, mu)

    def horizon(self, step_size: float, tau: float) -> int:
        """Return the default horizon: as long as contraction needs, but no longer than a bounded amount of work."""
        wanted = math.ceil(_NEAR / (step_size * tau))
        visits = self.n_records * self.model.design.entries_per_row * self.options.draws
        return max(1, min(wanted, max(_FEWEST, int(_WORK / visits))))

    def cost(self, power: float, tau: float) -> float:
        """Return the price of one draw; infinite where the stated step is too long."""
        try:
            return self.chain(power, tau).mu
        except SpecError:
            return math.inf

    def with_largest_power(self, target: float) -> CalibratedChain:
        """Return the chain of the largest likelihood power, up to 1, whose price stays within a target.

        Raises:
            SpecError: nothing fits.
        """
        tau = self.model.precision
        power = largest_likelihood_power(lambda r: self.cost(r, tau), target, UNTEMPERED)
        if power < 1e-12:
            self.chain(1e-12, tau)
            raise SpecError("the budget is too small for any posterior draw", where="privacy")
        return self.chain(power, tau)

    def least_concentrated(self, power: float, target: float) -> CalibratedChain:
        """Return the chain of a stated likelihood power whose price stays within a target.

        Its prior precision is the smallest that does, and that of the prior or more.
        """
        low = high = self.model.precision
        while self.cost(power, high) > target:
            low, high = high, 2.0 * high
            if high > 1e300:
                raise SpecError("the budget is too small for any posterior draw", where="privacy")
        for _ in range(200):
            middle = (low + high) / 2.0
            if not low < middle < high:
                break
            low, high = (low, middle) if self.cost(power, middle) <= target else (middle, high)
        return self.chain(power, high)


def chain_calibrator(
    model: ConvexLossModel, policy: RecordPolicy, options: LangevinOptions, n_records: int | None
) -> ChainCalibrator:
    """Return what is public about a question.

    Raises:
        SpecError: the number of records is private and no ``max_records`` is stated, or it is not known; or a total
            variation is stated, and no certificate.
    """
    if policy.contributions > 1:
        raise SpecError(
            "a chain takes one gradient a privacy unit",
            where="privacy.unit.max_contributions",
            hint="max_contributions: 1",
        )
    if policy.neighbors is Neighbors.ADD_REMOVE:
        if options.max_records is None:
            raise SpecError(
                "the number of records is private, and step, contraction and smoothness would tell it",
                where="sampling.max_records",
                hint="state a public limit: only so many records are read; or use replace-one neighbors",
            )
        n = options.max_records
    else:
        if options.max_records is not None:
            raise SpecError("the number of records is public: there is no limit to state", where="sampling.max_records")
        n = known_number(n_records)
    # Under add-remove a record more may push another beyond the limit: two gradients differ, as where one is replaced.
    if options.certificate is None and options.gamma != _GAMMA:
        raise SpecError(
            "the total variation is that of a certificate, and none is asked for",
            where="sampling.gamma",
            hint="--certificate total-variation, or leave it out",
        )
    return ChainCalibrator(model, options, n, model.curvature(n, 2))


def plan_chains(chains: ChainCalibrator, found: CalibratedChain, calibration: str, more: dict[str, Any]) -> Plan:
    """Return the plan of a calibrated chain."""
    model, options = chains.model, chains.options
    smoothness = chains.curvature.potential_smoothness(found.likelihood_power, found.tau)
    left = math.exp(found.n_steps * math.log1p(-min(found.step_size * found.tau, 1.0 - 1e-16)))
    grid = 2.0 ** math.floor(math.log2(1.0 / math.sqrt(smoothness) / _FINE))
    law = Langevin(
        model.loss,
        model.design.width,
        found.likelihood_power,
        found.tau,
        found.step_size,
        found.n_steps,
        grid,
        chains.n_records,
        model.design.row_norm,
    )
    if not law.arithmetic.widening <= _WIDENED:
        raise SpecError(
            f"double precision is too coarse for this chain: its noise would be {law.arithmetic.widening:.2g} times "
            "wider, or the budget is too small for any posterior draw",
            where="privacy",
            hint="a larger price, or fewer records",
        )
    mu = round_up(found.mu * math.sqrt(options.draws))
    guarantee = GaussianDP(mu)
    if not Decimal(0) < mu < Decimal(1000):
        raise DpbayesError("the price of the chain cannot be stated; nothing is released")
    described: dict[str, Any] = {
        "likelihood_power": found.likelihood_power,
        "tau": found.tau,
        "step_size": found.step_size,
        "n_steps": found.n_steps,
        "draws": options.draws,
        "calibration": calibration,
        "mu": float(mu),
        "sensitivity": chains.curvature.gradient_sensitivity(found.likelihood_power),
        "smoothness": smoothness,
        "row_norm": model.design.row_norm,
        "width": model.design.width,
        "left_of_start": left,
        "variance_inflation": 1.0 / (1.0 - found.step_size * smoothness / 2.0),
        "memory": model.design.memory(chains.n_records),
        **more,
    }
    if options.certificate is not None:
        described["certificate"] = _certificate(chains, found, options.gamma)
    rows = Rows(model.design, model.target, options.max_records)
    step = Step(NO_STATISTIC, law, guarantee, options.draws, rows)
    return Plan(
        (step,),
        guarantee,
        described,
        _how(found, options.draws, described),
        _warnings(found, left, described["variance_inflation"]),
    )


def _certificate(chains: ChainCalibrator, found: CalibratedChain, gamma: float) -> dict[str, Any]:
    try:
        smoothness = chains.curvature.potential_smoothness(found.likelihood_power, found.tau)
        known: Certificate = certificate(chains.model.design.width, found.tau, smoothness, gamma)
    except ValueError as error:
        raise SpecError(f"{error}", where="sampling.certificate") from None
    return {
        "total_variation": gamma,
        "step_size": known.step_size,
        "n_steps": known.n_steps,
        "start": "N(mode, I / M): not public, so that this chain is not the one that runs",
    }


def _how(found: CalibratedChain, draws: int, described: dict[str, Any]) -> str:
    """Return how the draws were made, in a sentence."""
    chains = "a Langevin chain" if draws == 1 else f"{draws} independent Langevin chains"
    return (
        f"the last iterate of {chains} of {found.n_steps} steps of size {found.step_size:.3g} from 0, at likelihood "
        f"power {found.likelihood_power:.4g} and prior precision tau = {found.tau:.4g}; the guarantee is that of this "
        f"chain, mixed or not. "
        f"What is public about its bias: at most {described['left_of_start']:.2g} of the distance from the start is "
        f"left, and the steps widen a variance at most {described['variance_inflation']:.3g} times"
    )


def _warnings(found: CalibratedChain, left: float, inflation: float) -> tuple[str, ...]:
    warnings = []
    if left > 1.0001 * math.exp(-_NEAR):
        warnings.append(
            f"the horizon of {found.n_steps} steps is short for its own contraction rate: up to {left:.2g} of the "
            "distance from the start is left in directions about which the data say little; the guarantee does not "
            "depend on it"
        )
    if inflation > _WIDE:
        warnings.append(
            f"the stated step size is large: where the posterior is narrowest its variance is up to {inflation:.3g} "
            f"times too large; the guarantee does not depend on it"
        )
    return tuple(warnings)


def run_chains(plan: Plan, evidence: Statistics) -> Draws:
    """Run the chains of a plan, and return their last iterates.

    Privacy: mu of the plan.
    Source: see ``Langevin``.
    """
    (step,) = plan.steps
    drawn = require_type(step.law, Langevin).draw(require_type(evidence.design, DesignMatrix), step.draws)
    return Draws(tuple(tuple(point) for point in drawn.tolist()))
