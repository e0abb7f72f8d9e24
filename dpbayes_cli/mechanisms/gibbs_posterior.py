"""Gibbs posterior: draws of coefficients by a Langevin chain, which is itself differentially private."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.model import MethodInfo, Model
from dpbayes_cli.core.options import Options
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import NO_STATISTIC, Statistic
from dpbayes_cli.mechanisms.samplers.draw_mechanism import DrawMechanism
from dpbayes_cli.mechanisms.samplers.langevin_calibration import chain_calibrator, plan_chains
from dpbayes_cli.mechanisms.samplers.langevin_rules import GibbsPosteriorOptions, gdp_rule, geumlek_rule, minami_rule
from dpbayes_cli.models.families.convex_loss import ConvexLossModel


class GibbsPosterior(DrawMechanism):
    """Draw w from exp(-beta * loss(w) - tau * |w|^2 / 2) by noisy gradient descent, and release the last iterate.

    ``loss(w)`` is the sum of the records' losses.

    Privacy: mu-Gaussian differential privacy of the chain that runs, for any number of steps; see ``descent_mu``.
    Source: Minami et al. 2016; Geumlek et al. 2017, sec. 4; Gopi, Lee and Liu 2022; Bok, Su and Altschuler 2024.
    """

    name: ClassVar[str] = "gibbs-posterior"
    summary: ClassVar[str] = "posterior draws under a convex loss by a private Langevin chain; Gaussian DP"
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "privacy": {"epsilon": "1", "delta": "1e-6"},
        "sampling": {"draws": 3},
    }
    first_spec: ClassVar[Mapping[str, str]] = {"privacy.epsilon": "1", "privacy.delta": "1e-6"}
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="k draws of the coefficients, each the last iterate of its own Langevin chain on the posterior of the "
        "loss at likelihood power beta with prior precision tau. Nothing else is released, neither a summary nor "
        "diagnostics of the chain.",
        guarantee="The chain that runs is mu-Gaussian differentially private, whether or not it has mixed; its start, "
        "step size and number of steps are public. Together k draws cost sqrt(k) * mu. There is no pure epsilon: the "
        "account must be kept in Gaussian DP, zCDP, RDP or (epsilon, delta).",
        assumptions="Rows have a bounded norm by construction. The number of records is public, or a public limit is "
        "stated. The guarantee holds for the chain as it runs in double precision, tails included: each step is "
        "rounded to a public lattice, and exact noise is widened to cover rounding errors. It is assumed that a "
        "computed slope of the loss has an error of at most 2^-44 times the largest slope, and that a computed "
        "logarithm x of a random number has an error of at most 2^-49 * (1 + x). The operating system's random numbers "
        "are secret.",
        source="Minami, Arai, Sato and Nakagawa 2016; Geumlek, Song and Chaudhuri 2017, sec. 4; Gopi, Lee and Liu "
        "2022; Bok, Su and Altschuler 2024.",
        corrections="The papers' guarantees hold for exact draws, which no sampler gives; here the guarantee is that "
        "of the chain itself. For the same (epsilon, delta) the exact Gaussian curve allows a larger likelihood power "
        "than Minami et al., by a factor of 1.27 at (1, 1e-6). Their Corollary 8 does not follow from their Theorem 7 "
        "if epsilon exceeds 1, and their Proposition 13 lacks a square.",
        prefer_when="You want posterior draws for regression or classification with a convex loss. For linear "
        "regression with few columns, `laplace` and `gaussian` release noisy moments, from which the whole posterior "
        "is inferred.",
    )
    requires: ClassVar[tuple[type, ...]] = (ConvexLossModel,)
    options_type: ClassVar[type[Options]] = GibbsPosteriorOptions

    def statistic(self, model: Model, policy: RecordPolicy) -> Statistic:
        """Return the empty statistic, because the chain reads rows instead of a statistic."""
        return NO_STATISTIC

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        langevin = require_type(options, GibbsPosteriorOptions)
        chains = chain_calibrator(require_type(model, ConvexLossModel), policy, langevin, n_records)
        rule = {"gdp": gdp_rule, "minami": minami_rule, "geumlek": geumlek_rule}[langevin.calibration]
        chain, parameters = rule(chains, langevin)
        return plan_chains(chains, chain, langevin.calibration, parameters)
