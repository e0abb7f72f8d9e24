"""RDP-diffuse: samples of a posterior whose data count for less."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.mechanisms.samplers.langevin_calibration import CalibratedChain, Calibrator
from dpbayes_cli.mechanisms.samplers.langevin_rules import calibrate_diffuse
from dpbayes_cli.mechanisms.samplers.renyi_posterior import (
    RenyiChainOptions,
    RenyiMechanism,
    largest_parameter,
    renyi_bound,
    renyi_info,
    require_divergence,
)
from dpbayes_cli.privacy.conjugate import ConjugateFamily


class RdpDiffuse(RenyiMechanism):
    """Draw from the posterior with the likelihood to the power r, the largest r that fits.

    Privacy: that of ``RenyiMechanism``: the whole Renyi curve of the posterior that is drawn from.
    Source: Geumlek, Song and Chaudhuri 2017, Algorithm 2.
    """

    name: ClassVar[str] = "rdp-diffuse"
    summary: ClassVar[str] = "posterior samples with the likelihood weakened to its power r; a Renyi curve"
    info: ClassVar[MethodInfo] = renyi_info(
        releases="k draws from the posterior whose likelihood is raised to the power r, the largest r in (0, 1] "
        "whose divergence at the stated order stays within epsilon.",
        algorithm="Algorithm 2",
        prefer_when="You want posterior samples at a stated Renyi cost; the posterior stays centered between prior and "
        "data, and is wider.",
    )

    def choose(self, family: ConjugateFamily, order: float, epsilon: Decimal | None) -> tuple[float, float]:
        """Return the largest r that fits and m = 1."""
        return largest_parameter(lambda r: renyi_bound(family, order, r, 1.0), require_divergence(epsilon)), 1.0

    def chain(self, chains: Calibrator, options: RenyiChainOptions) -> tuple[CalibratedChain, dict[str, Any]]:
        """Return the chain of Algorithm 5."""
        return calibrate_diffuse(chains, options.order)
