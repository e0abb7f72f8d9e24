"""RDP-concentrated: samples of a posterior whose prior counts for more."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.options import LikelihoodPower
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.samplers.langevin_calibration import CalibratedChain, Calibrator
from dpbayes_cli.mechanisms.samplers.langevin_rules import calibrate_concentrated
from dpbayes_cli.mechanisms.samplers.renyi_posterior import (
    RenyiChainOptions,
    RenyiMechanism,
    largest_parameter,
    renyi_bound,
    renyi_info,
    require_divergence,
)
from dpbayes_cli.privacy.conjugate import ConjugateFamily


class ConcentratedOptions(RenyiChainOptions, frozen=True, kw_only=True):
    """The options of a convex loss: this rule keeps a stated likelihood power."""

    likelihood_power: LikelihoodPower = None


class RdpConcentrated(RenyiMechanism):
    """Draw from the posterior with the prior's parameters divided by m, the largest m that fits.

    Privacy: that of ``RenyiMechanism``: the whole Renyi curve of the posterior that is drawn from.
    Source: Geumlek, Song and Chaudhuri 2017, Algorithm 3.
    """

    name: ClassVar[str] = "rdp-concentrated"
    summary: ClassVar[str] = "posterior samples with the prior made 1/m times stronger; a Renyi curve"
    info: ClassVar[MethodInfo] = renyi_info(
        releases="k draws from the posterior whose prior's parameters are divided by m, the largest m in (0, 1] "
        "whose divergence at the stated order stays within epsilon.",
        algorithm="Algorithm 3",
        prefer_when="You want posterior samples at a stated Renyi cost and trust the prior: the samples shrink towards "
        "it.",
    )

    chain_options: ClassVar[type[RenyiChainOptions]] = ConcentratedOptions

    def choose(self, family: ConjugateFamily, order: float, epsilon: Decimal | None) -> tuple[float, float]:
        """Return r = 1 and the largest m that fits."""
        return 1.0, largest_parameter(lambda m: renyi_bound(family, order, 1.0, m), require_divergence(epsilon))

    def chain(self, chains: Calibrator, options: RenyiChainOptions) -> tuple[CalibratedChain, dict[str, Any]]:
        """Return the chain of Algorithm 4."""
        likelihood_power = require_type(options, ConcentratedOptions).likelihood_power
        return calibrate_concentrated(chains, options.order, likelihood_power)
