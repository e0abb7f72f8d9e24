"""RDP-concentrated: samples of a posterior with a strengthened prior."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.options import LikelihoodPower
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.samplers.langevin_calibration import CalibratedChain, Calibrator
from dpbayes_cli.mechanisms.samplers.langevin_rules import calibrate_concentrated
from dpbayes_cli.mechanisms.samplers.renyi_posterior import RenyiChainOptions, RenyiMechanism, renyi_info
from dpbayes_cli.privacy.conjugate import ConjugateFamily


class ConcentratedOptions(RenyiChainOptions, frozen=True, kw_only=True):
    """The options for a convex loss: a user may state the likelihood power."""

    likelihood_power: LikelihoodPower = None


class RdpConcentrated(RenyiMechanism):
    """Draw from the posterior after dividing the prior's parameters by the largest m <= 1 that the budget allows.

    Privacy: see ``RenyiMechanism``: the whole Renyi curve of that posterior is charged.
    Source: Geumlek, Song and Chaudhuri 2017, Algorithm 3.
    """

    name: ClassVar[str] = "rdp-concentrated"
    summary: ClassVar[str] = "posterior samples with the prior's parameters divided by m <= 1; a Renyi curve"
    info: ClassVar[MethodInfo] = renyi_info(
        releases="k draws from the posterior with the prior's parameters divided by m. Here m is the largest value in "
        "(0, 1] at which the Renyi divergence at the stated order stays within epsilon.",
        algorithm="Algorithm 3",
        prefer_when="You want posterior samples at a stated Renyi cost, and you trust the prior: the samples shrink "
        "toward the prior.",
    )

    chain_options: ClassVar[type[RenyiChainOptions]] = ConcentratedOptions

    def choose(self, family: ConjugateFamily, order: float, epsilon: Decimal | None) -> tuple[float, float]:
        return self.largest_within(epsilon, family, order, lambda m: (1.0, m))

    def chain(self, chains: Calibrator, options: RenyiChainOptions) -> tuple[CalibratedChain, dict[str, Any]]:
        """Return the Langevin chain that Algorithm 4 calibrates."""
        likelihood_power = require_type(options, ConcentratedOptions).likelihood_power
        return calibrate_concentrated(chains, options.order, likelihood_power)
