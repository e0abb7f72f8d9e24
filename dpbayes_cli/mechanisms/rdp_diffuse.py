"""RDP-diffuse: samples of a posterior with a weakened likelihood."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.mechanisms.samplers.langevin_calibration import CalibratedChain, Calibrator
from dpbayes_cli.mechanisms.samplers.langevin_rules import calibrate_diffuse
from dpbayes_cli.mechanisms.samplers.renyi_posterior import RenyiChainOptions, RenyiMechanism, renyi_info
from dpbayes_cli.privacy.conjugate import ConjugateFamily


class RdpDiffuse(RenyiMechanism):
    """Draw from the posterior after raising the likelihood to the largest power r <= 1 that the budget allows.

    Privacy: see ``RenyiMechanism``: the whole Renyi curve of that posterior is charged.
    Source: Geumlek, Song and Chaudhuri 2017, Algorithm 2.
    """

    name: ClassVar[str] = "rdp-diffuse"
    summary: ClassVar[str] = "posterior samples with the likelihood raised to a power r <= 1; a Renyi curve"
    info: ClassVar[MethodInfo] = renyi_info(
        releases="k draws from the posterior with the likelihood raised to the power r. Here r is the largest value in "
        "(0, 1] at which the Renyi divergence at the stated order stays within epsilon.",
        algorithm="Algorithm 2",
        prefer_when="You want posterior samples at a stated Renyi cost, and a wider posterior is acceptable.",
    )

    def choose(self, family: ConjugateFamily, order: float, epsilon: Decimal | None) -> tuple[float, float]:
        return self.largest_within(epsilon, family, order, lambda r: (r, 1.0))

    def chain(self, chains: Calibrator, options: RenyiChainOptions) -> tuple[CalibratedChain, dict[str, Any]]:
        """Return the Langevin chain that Algorithm 5 calibrates."""
        return calibrate_diffuse(chains, options.order)
