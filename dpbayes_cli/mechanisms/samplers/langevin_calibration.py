"""Calibration of Langevin chains for convex losses: likelihood power, prior precision and steps."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from decimal import Decimal
from typing import Any

from dpbayes_cli.base.errors import DpbayesError, SpecError
from dpbayes_cli.core.columns import RecordPolicy, require_record_count
from dpbayes_cli.core.design import DesignRows
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
from dpbayes_cli.core.statistic import NO_STATISTIC
from dpbayes_cli.models.families.convex_loss import ConvexLossModel
from dpbayes_cli.privacy.conversions import bisect_floats, round_up
from dpbayes_cli.privacy.kinds import GaussianDP
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noisy_descent import Curvature, certificate, descent_mu, largest_likelihood_power

UNTEMPERED = 1.0
"""The likelihood power of the untempered posterior; a larger power would count every record more than once."""
_CONTRACTION_NATS = 3.0
"""The default number T of steps of size h makes (1 - h tau)^T at most exp(-3): 5 % of the distance from the start
remains."""
_MAX_WORK = 1.2e10
"""The default number of steps visits at most this many entries of the design matrix: half a minute of work."""
_MIN_STEPS = 100
_MAX_INFLATION = 4.0
"""The plan warns if the step size may inflate a posterior variance by more than this factor; for a step size of 1 / M
the factor is at most 2."""
_MAX_STEP_TIMES_SMOOTHNESS = 2.0 * (1.0 - 1e-5)
"""A step contracts if its size times the smoothness M is below 2; the margin covers rounding errors."""
_MAX_WIDENING = 0.1
"""A chain is refused if rounding in double precision requires widening its noise by more than this fraction."""
_DEFAULT_GAMMA = 0.01
_COEFFICIENT_RESOLUTION = 1 << 10
"""Released coefficients are rounded to multiples of the largest power of two that is at most 1 / (1024 sqrt(M))."""


class LangevinOptions(EpsilonOptions, frozen=True, kw_only=True):
    """The options of every mechanism on a convex loss."""

    draws: NumberOfDraws = 1
    sampler: ChainSampler = "langevin"
    step_size: StepSize = None
    n_steps: NumberOfSteps = None
    max_records: MaxRecords = None
    certificate: CertificateKind = None
    gamma: Gamma = _DEFAULT_GAMMA


@dataclass(frozen=True)
class CalibratedChain:
    """A calibrated chain.

    Attributes:
        tau: the prior precision.
        mu: the cost of one draw in Gaussian DP.
    """

    likelihood_power: float
    tau: float
    step_size: float
    n_steps: int
    mu: float


@dataclass(frozen=True)
class Calibrator:
    """The public facts of a request on a convex loss, from which chains are calibrated.

    Attributes:
        n_records: the public number of records, or its limit. It determines the smoothness M, the step size and the
            number of steps.
        curvature: the bounds on the derivatives of the loss and on the norm of a row.
    """

    model: ConvexLossModel
    options: LangevinOptions
    n_records: int
    curvature: Curvature

    def chain(self, power: float, tau: float) -> CalibratedChain:
        """Return the chain for a likelihood power and a prior precision, with its cost.

        Raises:
            SpecError: the stated step size is 2 / M or more.
        """
        smoothness = self.curvature.potential_smoothness(power, tau)
        step_size = 1.0 / smoothness if self.options.step_size is None else self.options.step_size
        if not step_size * smoothness < _MAX_STEP_TIMES_SMOOTHNESS:
            raise SpecError(
                f"the step size is {step_size:g}; it must be below 2 / M = {2.0 / smoothness:.6g}",
                where="sampling.step_size",
                hint="use a smaller step size; the default is 1 / M",
            )
        n_steps = self.horizon(step_size, tau) if self.options.n_steps is None else self.options.n_steps
        mu = descent_mu(self.curvature.gradient_sensitivity(power), step_size, n_steps, tau, smoothness)
        return CalibratedChain(power, tau, step_size, n_steps, mu)

    def horizon(self, step_size: float, tau: float) -> int:
        """Return the default number of steps: enough for contraction, within the limit on work."""
        wanted = math.ceil(_CONTRACTION_NATS / (step_size * tau))
        visits = self.n_records * self.model.design.entries_per_row * self.options.draws
        return max(1, min(wanted, max(_MIN_STEPS, int(_MAX_WORK / visits))))

    def cost(self, power: float, tau: float) -> float:
        """Return the mu of one draw; infinite if the stated step size is too large."""
        try:
            return self.chain(power, tau).mu
        except SpecError:
            return math.inf

    def with_largest_power(self, target: float) -> CalibratedChain:
        """Return the chain with the largest likelihood power, up to 1, whose cost stays within a target."""
        tau = self.model.precision
        power = largest_likelihood_power(lambda r: self.cost(r, tau), target, UNTEMPERED)
        if power < 1e-12:
            self.chain(1e-12, tau)
            raise SpecError("the budget is too small for any posterior draw", where="privacy", hint="spend more")
        return self.chain(power, tau)

    def least_concentrated(self, power: float, target: float) -> CalibratedChain:
        """Return the chain with this likelihood power, and the smallest precision for which it costs at most a target.

        The precision is at least that of the prior.
        """
        low = high = self.model.precision
        while self.cost(power, high) > target:
            low, high = high, 2.0 * high
            if high > 1e300:
                raise SpecError("the budget is too small for any posterior draw", where="privacy", hint="spend more")
        _, least = bisect_floats(lambda tau: self.cost(power, tau) > target, low, high)
        return self.chain(power, least)


def chain_calibrator(
    model: ConvexLossModel, policy: RecordPolicy, options: LangevinOptions, n_records: int | None
) -> Calibrator:
    """Return the calibrator of a request.

    Raises:
        SpecError: the number of records is unknown, or it is private and no ``max_records`` is stated; or gamma is
            stated without a certificate.
    """
    if policy.contributions > 1:
        raise SpecError(
            "a Langevin chain allows only one record per privacy unit",
            where="privacy.unit.max_contributions",
            hint="max_contributions: 1",
        )
    private = policy.neighbors is Neighbors.ADD_REMOVE
    if private and options.max_records is None:
        raise SpecError(
            "the number of records is private, but the step size and the smoothness depend on it",
            where="sampling.max_records",
            hint="state a public limit on the records that are read, or use replace-one neighbors",
        )
    if not private and options.max_records is not None:
        raise SpecError(
            "the number of records is public, so it needs no limit", where="sampling.max_records", hint="leave it out"
        )
    n = options.max_records or require_record_count(n_records)
    if options.certificate is None and options.gamma != _DEFAULT_GAMMA:
        raise SpecError(
            "gamma is the total variation of a certificate, but no certificate is requested",
            where="sampling.gamma",
            hint="--certificate total-variation, or leave it out",
        )
    # under add-remove, an added record may push another one beyond the limit: two gradients differ, as in replace-one
    return Calibrator(model, options, n, model.curvature(n, 2))


def plan_chains(
    calibrator: Calibrator, chain: CalibratedChain, calibration: str, rule_parameters: dict[str, Any]
) -> Plan:
    """Return the plan of a calibrated chain."""
    model, options = calibrator.model, calibrator.options
    power, tau, step_size, n_steps, mu = astuple(chain)
    smoothness = calibrator.curvature.potential_smoothness(power, tau)
    start_left = math.exp(n_steps * math.log1p(-min(step_size * tau, 1.0 - 1e-16)))
    inflation = 1.0 / (1.0 - step_size * smoothness / 2.0)
    grid = 2.0 ** math.floor(math.log2(1.0 / math.sqrt(smoothness) / _COEFFICIENT_RESOLUTION))
    width, row_norm = model.design.width, model.design.row_norm
    law = Langevin(model.loss, width, power, tau, step_size, n_steps, grid, calibrator.n_records, row_norm)
    if not law.arithmetic.widening <= _MAX_WIDENING:
        raise SpecError(
            f"double precision is too coarse for this chain: its noise would be {law.arithmetic.widening:.2g} times "
            "wider, or the budget is too small for any posterior draw",
            where="privacy",
            hint="spend more, or use fewer records",
        )
    total_mu = round_up(mu * math.sqrt(options.draws))
    guarantee = GaussianDP(total_mu)
    if not Decimal(0) < total_mu < Decimal(1000):
        raise DpbayesError("the cost of the chain is out of range; nothing is released")
    parameters: dict[str, Any] = {
        "likelihood_power": power,
        "tau": tau,
        "step_size": step_size,
        "n_steps": n_steps,
        "draws": options.draws,
        "calibration": calibration,
        "mu": float(total_mu),
        "sensitivity": calibrator.curvature.gradient_sensitivity(power),
        "smoothness": smoothness,
        "row_norm": row_norm,
        "width": width,
        "left_of_start": start_left,
        "variance_inflation": inflation,
        "memory": model.design.memory(calibrator.n_records),
        **rule_parameters,
    }
    if options.certificate is not None:
        parameters["certificate"] = _certificate(width, tau, smoothness, options.gamma)
    rows = DesignRows(model.design, model.target, options.max_records)
    step = Step(NO_STATISTIC, law, guarantee, options.draws, rows)
    chains = "a Langevin chain" if options.draws == 1 else f"{options.draws} independent Langevin chains"
    how = (
        f"the last iterate of {chains} of {n_steps} steps of size {step_size:.3g} from 0, at likelihood "
        f"power {power:.4g} and prior precision tau = {tau:.4g}; the guarantee holds for this "
        f"chain, whether or not it has mixed. Public bounds on its bias: at most {start_left:.2g} of the distance "
        f"from the start remains, and a variance is inflated at most {inflation:.3g} times"
    )
    return Plan((step,), guarantee, parameters, how, _warnings(n_steps, start_left, inflation))


def _certificate(width: int, tau: float, smoothness: float, gamma: float) -> dict[str, Any]:
    try:
        step_size, n_steps = certificate(width, tau, smoothness, gamma)
    except ValueError as error:
        raise SpecError(f"{error}", where="sampling.certificate") from None
    return {
        "total_variation": gamma,
        "step_size": step_size,
        "n_steps": n_steps,
        "start": "N(mode, I / M): not public, so that this chain is not the one that runs",
    }


def _warnings(n_steps: int, start_left: float, inflation: float) -> tuple[str, ...]:
    warnings = []
    if start_left > 1.0001 * math.exp(-_CONTRACTION_NATS):
        warnings.append(
            f"{n_steps} steps are few for the chain's contraction rate: up to {start_left:.2g} of the distance "
            "from the start remains in directions where the data are weak; the guarantee holds all the same"
        )
    if inflation > _MAX_INFLATION:
        warnings.append(
            f"the stated step size is large: in the narrowest direction the posterior variance is up to "
            f"{inflation:.3g} times too large; the guarantee holds all the same"
        )
    return tuple(warnings)
