"""Gibbs posterior: draws of coefficients by a Langevin chain, private by the guarantee of the chain that runs."""

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
    """Draw from exp(-beta sum of losses - tau |w|^2 / 2) by noisy gradient descent, and release the last iterate.

    Privacy: mu-Gaussian differential privacy of the chain that runs, for every horizon; see ``descent_mu``.
    Source: Minami et al. 2016; Geumlek et al. 2017, sec. 4; Gopi, Lee and Liu 2022; Bok, Su and Altschuler 2024.
    """

    name: ClassVar[str] = "gibbs-posterior"
    summary: ClassVar[str] = "posterior draws of a convex loss by an accounted Langevin chain; Gaussian DP"
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "privacy": {"epsilon": "1", "delta": "1e-6"},
        "sampling": {"draws": 3},
    }
    first_spec: ClassVar[Mapping[str, str]] = {"privacy.epsilon": "1", "privacy.delta": "1e-6"}
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="k draws of the coefficients, each the last iterate of its own Langevin chain on the posterior of the "
        "loss at likelihood power beta with prior precision tau. Nothing else: no summary, no diagnostics of the "
        "chain.",
        guarantee="mu-Gaussian differential privacy of the chain that runs, from a public start with a public step "
        "size and number of steps, whether or not it has mixed; k draws cost sqrt(k) mu. There is no pure epsilon: the "
        "account must be kept in Gaussian DP, zCDP, RDP or (epsilon, delta).",
        assumptions="Rows have a bounded norm by construction. The number of records is public, or a public limit is "
        "stated. The guarantee holds for the chain as it runs in double precision, tails included: on a lattice, with "
        "exact noise that is widened to cover rounding. Slopes of the loss are assumed correct to 2^-44 of the largest "
        "slope, and logarithms x of random numbers to 2^-49 (1 + x). The operating system's random numbers are secret.",
        source="Minami, Arai, Sato and Nakagawa 2016; Geumlek, Song and Chaudhuri 2017, sec. 4; Gopi, Lee and Liu "
        "2022; Bok, Su and Altschuler 2024.",
        corrections="The papers' guarantees hold for exact draws, which no sampler gives; here the chain itself is "
        "accounted. For the same (epsilon, delta) the exact Gaussian curve allows a larger likelihood power than "
        "Minami et al.: 1.27 times at (1, 1e-6). Their Corollary 8 does not follow from their Theorem 7 beyond epsilon "
        "1; Proposition 13 lost a square.",
        prefer_when="You want posterior draws for regression or classification with a convex loss. For linear "
        "regression with few columns, `laplace` or `gaussian` on its moments give a whole posterior.",
    )
    requires: ClassVar[tuple[type, ...]] = (ConvexLossModel,)
    options_type: ClassVar[type[Options]] = GibbsPosteriorOptions

    def statistic(self, model: Model, policy: RecordPolicy) -> Statistic:
        """Return the empty statistic: the chain reads rows."""
        return NO_STATISTIC

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        """Find the likelihood power, the prior precision, the step size and the number of steps.

        Raises:
            SpecError: the cost is not stated, or no chain fits it.
        """
        langevin = require_type(options, GibbsPosteriorOptions)
        chains = chain_calibrator(require_type(model, ConvexLossModel), policy, langevin, n_records)
        rule = {"gdp": gdp_rule, "minami": minami_rule, "geumlek": geumlek_rule}[langevin.calibration]
        chain, parameters = rule(chains, langevin)
        return plan_chains(chains, chain, langevin.calibration, parameters)
