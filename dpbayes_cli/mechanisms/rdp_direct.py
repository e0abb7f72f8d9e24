"""RDP-direct: samples of the true posterior, whose prior makes them private."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

from dpbayes_cli.capabilities import ConjugatePosterior
from dpbayes_cli.contracts import Card, Draws, Mechanism, Model, Plan, Request
from dpbayes_cli.errors import SpecError
from dpbayes_cli.privacy.conjugate import ConjugateFamily
from dpbayes_cli.renyi_posterior import draws_of, plan_of, price
from dpbayes_cli.statistic import Statistics


class RdpDirect(Mechanism):
    """Draw from the true posterior and charge its Renyi curve.

    Privacy: the Renyi divergence of every order below lambda*, the supremum over all neighbouring complete data sets,
        with what the public grid and its integers add; the whole curve is charged.
    Source: Geumlek, Song and Chaudhuri 2017, Algorithm 1; corrected, see ``privacy.conjugate``.
    """

    name: ClassVar[str] = "rdp-direct"
    summary: ClassVar[str] = "samples of the true posterior; a Renyi curve, finite below lambda*"
    card: ClassVar[Card] = Card(
        releases="k draws from the true posterior: nothing is tempered, and the prior decides what that costs.",
        guarantee="A Renyi curve, finite below an order lambda* that is stated, and charged whole. It has no pure "
        "epsilon: the account must be one of (epsilon, delta), or of RDP at an order below lambda*.",
        assumptions="Complete records, and a number of them that is public. The operating system's random numbers are "
        "secret. The prior was chosen without looking at the data.",
        source="Geumlek, Song and Chaudhuri 2017, Algorithm 1 and Theorem 15; Mironov 2017.",
        corrections="Neighbours share n - 1 records: the paper lets one posterior leave that hull and pairs vertices "
        "only, 6 to 44 % too large. For Dirichlet priors the supremum takes O(K) steps, not O(K^3). Draws are exact on "
        "a public grid; what that adds to the divergence (below 1e-14) is charged.",
        prefer_when="A strong prior is meant seriously and the posterior must not be changed: `plan` tells its price.",
    )
    requires: ClassVar[tuple[type, ...]] = (ConjugatePosterior,)
    needs_n: ClassVar[bool] = True
    post_processing: ClassVar[bool] = False

    def plan(self, model: Model, request: Request) -> Plan:
        """Price the true posterior.

        Raises:
            SpecError: records are not complete, or the price cannot be met.
        """
        return plan_of(model, request, _choose)

    def release(self, plan: Plan, evidence: Statistics) -> Draws:
        """Draw from the planned posterior.

        Privacy: the plan's Renyi curve; the draws alone are returned.
        Source: see the class.
        """
        return draws_of(plan, evidence)


def _choose(family: ConjugateFamily, order: float, epsilon: Decimal | None) -> tuple[float, float]:
    """Return r = m = 1, refused where it costs more than asked."""
    cost = price(family, order, 1.0, 1.0)
    if epsilon is not None and cost > epsilon:
        raise SpecError(
            f"a draw of the true posterior costs {cost:.6g} at order {order:g}, more than the {epsilon:.6g} asked for",
            where="privacy.epsilon",
            hint="leave epsilon out to pay its price, or use rdp-diffuse or rdp-concentrated",
        )
    return 1.0, 1.0
