"""RDP-direct: samples of the true posterior, which only the prior makes private."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.mechanisms.samplers.langevin_calibration import CalibratedChain, Calibrator
from dpbayes_cli.mechanisms.samplers.langevin_rules import untempered_chain
from dpbayes_cli.mechanisms.samplers.renyi_posterior import RenyiChainOptions, RenyiMechanism, renyi_bound, renyi_info
from dpbayes_cli.privacy.conjugate import ConjugateFamily


class RdpDirect(RenyiMechanism):
    """Draw from the true posterior and charge its Renyi curve.

    Privacy: see ``RenyiMechanism``: the whole Renyi curve of that posterior is charged.
    Source: Geumlek, Song and Chaudhuri 2017, Algorithm 1.
    """

    name: ClassVar[str] = "rdp-direct"
    summary: ClassVar[str] = "samples of the true posterior; a Renyi curve, finite below an order lambda*"
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {"privacy": {"order": "1.1"}, "sampling": {"draws": 3}}
    first_spec: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("prior.alpha", "prior.beta", "prior.concentration", "prior.shape", "prior.rate"), "300"
    )
    """The prior determines the cost of a draw, so the first spec has a strong prior of any family."""
    info: ClassVar[MethodInfo] = renyi_info(
        releases="k draws from the true posterior: nothing is tempered, and the prior determines the cost.",
        algorithm="Algorithm 1",
        prefer_when="You have a good reason for a strong prior, and want draws from the posterior itself, not from a "
        "wider one. `plan` shows the cost.",
    )

    def choose(self, family: ConjugateFamily, order: float, epsilon: Decimal | None) -> tuple[float, float]:
        """Return r = m = 1; refuse a posterior that costs more than epsilon."""
        cost = renyi_bound(family, order, 1.0, 1.0)
        if epsilon is not None and cost > epsilon:
            amount = f"{cost:.6g}" if math.isfinite(cost) else "an unbounded amount"
            raise SpecError(
                f"a draw of the true posterior costs {amount} at order {order:g}, more than epsilon {epsilon:.6g}",
                where="privacy.epsilon",
                hint="leave epsilon out to pay the cost of the posterior, or use rdp-diffuse or rdp-concentrated",
            )
        return 1.0, 1.0

    def chain(self, chains: Calibrator, options: RenyiChainOptions) -> tuple[CalibratedChain, dict[str, Any]]:
        """Return the Langevin chain on the untempered posterior."""
        return untempered_chain(chains, options.order)
