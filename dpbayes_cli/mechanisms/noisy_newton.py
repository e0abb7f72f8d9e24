"""Noisy Newton: noisy gradients and Hessians of a log likelihood at one or two public points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar

from dpbayes_cli.base.errors import SpecError, VerificationError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.derivatives import TOP, DerivativeMatrix, DerivativeRows, Point, point_of
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import MethodInfo, Model
from dpbayes_cli.core.noisy_observation import NoisyDerivatives
from dpbayes_cli.core.options import Options
from dpbayes_cli.core.plan import Plan, Step
from dpbayes_cli.core.released import Payload
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence, Statistic, Witness
from dpbayes_cli.mechanisms.samplers.stated_mu import BELOW_TARGET, MuOptions, stated_mu
from dpbayes_cli.models.families.curved_loss import CurvedLossModel
from dpbayes_cli.privacy.kinds import GaussianDP
from dpbayes_cli.privacy.laws.part_noise import PartNoise
from dpbayes_cli.privacy.laws.rounded_gaussian import RoundedGaussian
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noise import NoiseLaw

PERCENT: Mapping[int, tuple[tuple[int, int], ...]] = {
    1: ((70, 30),),
    2: ((25, 10), (45, 20)),
}
"""The shares of mu^2, in percent, that the gradient and the Hessian of each round get, by the number of rounds."""
_FEW = 50.0
"""One round tells more if the number of records times mu, divided by the width of the design, is below this value:
measured with simulated and with real data. Four rounds tell more than two for the largest data alone, and little."""
_MAX_WIDTH = 300
"""The largest number of columns of the design: two rounds then release 90,900 numbers."""
_DOWN = Context(prec=30, rounding=ROUND_FLOOR)


class NoisyNewton(Mechanism):
    """Release noisy gradients and Hessians of the log likelihood at one or two public points; see ``n_rounds``.

    The first point is public; for two classes it is zero. The second point is an estimate from the noisy numbers of the
    first round.

    Privacy: mu-Gaussian differential privacy. Each round is a rounded Gaussian mechanism on an integer statistic, whose
        sensitivity is the same at every point; see ``sensitivities``. Points are post-processing. Under adaptive
        composition the squares of mu add up.
    Source: Dong, Roth and Su 2022, sec. 2 and 3; the rest is derived here.
    """

    name: ClassVar[str] = "noisy-newton"
    summary: ClassVar[str] = "noisy gradients and Hessians of a log likelihood, with free posterior draws; Gaussian DP"
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {"privacy": {"epsilon": "1", "delta": "1e-6"}}
    first_spec: ClassVar[Mapping[str, str]] = {"privacy.epsilon": "1", "privacy.delta": "1e-6"}
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="Sums over the records of the gradient and of the Hessian of the log likelihood at two public points, "
        "or at one if the number of records is public and small for the noise and the width of the design, with "
        "independent Gaussian noise on every number, and the points. Posterior samples under any prior precision, and "
        "any other analysis of these numbers, cost nothing more.",
        guarantee="Exactly mu-Gaussian differential privacy: with --mu, or with --eps and --delta or --rho, from which "
        "mu is computed. There is no pure epsilon: the account must be kept in Gaussian DP, zCDP, RDP or (epsilon, "
        "delta).",
        assumptions="Rows have a bounded norm, which is enforced in integers. A record's contribution is computed in "
        "integers from the record and the public point alone, and sums are exact. The operating system's random "
        "numbers are secret. If a release is interrupted between the rounds, it starts again with new noise. Nothing "
        "of the earlier rounds is stored, and the number of operations between rounds does not depend on their noisy "
        "numbers; it is assumed that neither does the time of a floating-point operation.",
        source="Dong, Roth and Su 2022, sec. 2 and 3 (Gaussian DP, adaptive composition).",
        corrections="A replaced record changes a Hessian by at most sqrt(2), not 2, times its norm: both matrices are "
        "positive semidefinite. An entry off the diagonal is released once and gets half the variance.",
        prefer_when="You want predictions, or coefficients with intervals. `gibbs-posterior` releases single posterior "
        "draws, at a likelihood power that is far below 1 for few records; it also handles losses that are no log "
        "likelihood. With four files and epsilon 0.3 to 3, predictions by `noisy-newton` were as good as those of one "
        "draw of equal cost, or better; its estimates were 0.65 to 1.7 times as far from the non-private coefficients. "
        "`plan --compare` simulates both.",
    )
    requires: ClassVar[tuple[type, ...]] = (CurvedLossModel,)
    options_type: ClassVar[type[Options]] = MuOptions

    def rows(self, model: Model, policy: RecordPolicy) -> DerivativeRows:
        """Return the rows from which derivatives are computed."""
        regression = require_type(model, CurvedLossModel)
        if regression.design.width > _MAX_WIDTH:
            raise SpecError(
                f"the design has {regression.design.width:,} columns; noisy-newton releases every pair of columns of "
                f"at most {_MAX_WIDTH}",
                where="domain.features",
                hint="--mechanism gibbs-posterior, or fewer columns and values",
            )
        return DerivativeRows(
            design=regression.design,
            target=regression.target,
            loss=regression.curved_loss,
            prior=regression.prior,
            policy=policy,
        )

    def released_names(self, model: Model, policy: RecordPolicy, points: Sequence[Sequence[int]]) -> Sequence[str]:
        return self.rows(model, policy).names(len(points))

    def observation(
        self,
        model: Model,
        policy: RecordPolicy,
        released: Sequence[int],
        noise: NoiseLaw,
        n_records: int | None,
        points: Sequence[Point] = (),
    ) -> NoisyDerivatives:
        rows = self.rows(model, policy)
        if not rows.are_points(points, len(released)):
            raise VerificationError("points: expected one point for each round, the first of them public")
        return rows.observation(released, noise.scales(len(released)), points, n_records)

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        from dpbayes_cli.inference.derivatives.infer_derivatives import known_excess, known_miscalibration

        rows, stated = self.rows(model, policy), require_type(options, MuOptions)
        largest = stated_mu(stated)  # refuses a second cost beside mu
        mu = _DOWN.create_decimal(Decimal(largest * BELOW_TARGET)) if stated.mu is None else stated.mu
        step = _step(rows, GaussianDP(mu), n_records)
        scales = step.noise.scales(len(step.statistic.names))[: len(rows.names(1))]
        first = rows.observation([0] * len(rows.names(1)), scales, [rows.first_point], 1)
        warnings, note = known_miscalibration(first, n_records), known_excess(first, n_records)
        return Plan((step,), step.guarantee, {"mu": float(mu)}, warnings=warnings, note=note)

    def release(self, plan: Plan, evidence: ExactEvidence) -> Payload:
        """Release the noisy derivatives of all rounds; each round's point depends on the noisy numbers before it.

        The rounds are those of the number of records if it is public, which the plan need not know.

        Privacy: the guarantee of the plan; only noisy integers, and points computed from them, leave this function.
        Source: see the class.
        """
        matrix = require_type(evidence.design, DerivativeMatrix)
        n_records = evidence.n_records if _is_public(matrix.rows.policy) else None
        step = _step(matrix.rows, require_type(plan.final_step.guarantee, GaussianDP), n_records)
        values, points = rounds(
            step, matrix.rows, n_records, matrix.derivatives, lambda law, exact: law.release(exact), even=True
        )
        return Payload(step.statistic.names, tuple(values), step.noise, points=tuple(points))


def _step(rows: DerivativeRows, guarantee: GaussianDP, n_records: int | None) -> Step:
    """Return the step with the names and the noise of all rounds; the numbers depend on points not known in advance."""
    mu, public = Fraction(guarantee.mu), n_records if _is_public(rows.policy) else None
    shares = PERCENT[n_rounds(rows.width, float(mu), public)]
    statistic = Statistic(rows.names(len(shares)), (), 0, Witness(None, None), 0)
    return Step(statistic, _noise(rows, mu**2, shares), guarantee, rows=rows)


def n_rounds(width: int, mu: float, n_records: int | None) -> int:
    """Return the number of rounds.

    Few records and a large noise tell most in one round: at the first point slopes are bounded best, and the second
    would be an estimate that is mostly noise. With many records, a second point near the mode is worth its price.

    Args:
        width: the number of coefficients.
        n_records: the public number of records; None if it is private.
    """
    if n_records is None:
        return 2
    return 1 if n_records * mu / width < _FEW else 2


def _is_public(policy: RecordPolicy) -> bool:
    """Return whether the number of records is public; how many records units have is private."""
    return policy.neighbors is Neighbors.REPLACE_ONE and policy.contributions == 1


def rounds(
    step: Step,
    rows: DerivativeRows,
    n_records: int | None,
    derivatives: Callable[[Point], list[int]],
    add_noise: Callable[[PartNoise, list[int]], list[int]],
    *,
    even: bool = False,
) -> tuple[list[int], list[Point]]:
    """Return the noisy derivatives of all rounds, and the points.

    Args:
        n_records: the public number of records; None if it is private.
        derivatives: returns the exact integers at a point.
        add_noise: returns integers with noise of a law.
        even: whether the work between rounds is the same whatever the noisy numbers are.
    """
    from dpbayes_cli.inference.derivatives.infer_derivatives import next_point

    noise, size = require_type(step.noise, PartNoise), len(rows.names(1))
    number = len(step.statistic.names) // size
    per_round, scales = len(noise.laws) // number, noise.scales(len(step.statistic.names))
    values: list[int] = []
    points: list[Point] = []
    for i in range(number):
        seen = rows.observation(values, scales[: i * size], points, n_records)
        points.append(point_of(next_point(seen, even=even)) if points else rows.first_point)
        parts = slice(i * per_round, (i + 1) * per_round)
        values += add_noise(PartNoise(noise.laws[parts], noise.sizes[parts]), derivatives(points[-1]))
    return values, points


def sensitivities(rows: DerivativeRows) -> tuple[int, int]:
    """Return the squared L2 sensitivities of a gradient, and of a Hessian in the Frobenius norm, at any point.

    Privacy: see ``DerivativeRows`` for the norms of one record. A replaced record changes a gradient by at most twice
        its norm, and a Hessian by at most sqrt(2) times its norm. A record that is added or removed, or exchanged with
        an invalid one, changes them by at most their norms. With up to k records, a privacy unit changes them by at
        most k times as much.
    Source: see ``NoisyNewton``.
    """
    replaced = rows.policy.neighbors is Neighbors.REPLACE_ONE
    k, norm = rows.policy.contributions, rows.squared_norm
    return (4 if replaced else 1) * k**2 * norm * TOP**2, (2 if replaced else 1) * k**2 * norm**2 * TOP**2


def _noise(rows: DerivativeRows, budget: Fraction, shares: tuple[tuple[int, int], ...]) -> PartNoise:
    """Return the noise of all rounds: on each gradient, and on the diagonal of each Hessian and above it.

    Privacy: an entry above the diagonal is released once, but counts twice in the Frobenius norm: its noise has half
        the variance. So the squared mu of both parts together is the squared Frobenius norm of the change, divided by
        the variance on the diagonal. The shares of all rounds add up to the budget.
    Source: see ``NoisyNewton``.
    """
    gradient_change, hessian_change = sensitivities(rows)
    width, above = rows.width, rows.width * (rows.width - 1) // 2
    laws, sizes = [], []
    for gradient_share, hessian_share in shares:
        diagonal = _law(hessian_change, budget * hessian_share / 100)
        laws += [_law(gradient_change, budget * gradient_share / 100), diagonal]
        sizes += [width, width]
        if above:
            laws.append(_half_variance(diagonal))
            sizes.append(above)
    return PartNoise(tuple(laws), tuple(sizes))


def _law(squared_change: int, budget: Fraction) -> RoundedGaussian:
    return RoundedGaussian.calibrate(
        squared_change, _DOWN.divide(Decimal(budget.numerator), Decimal(budget.denominator))
    )


def _half_variance(law: RoundedGaussian) -> RoundedGaussian:
    scale = law.scale / math.sqrt(2.0)
    while 2 * Fraction(scale) ** 2 < Fraction(law.scale) ** 2:
        scale = math.nextafter(scale, math.inf)
    return RoundedGaussian(scale)
