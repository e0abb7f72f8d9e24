"""RDP-diffuse: samples of a posterior whose data count for less."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

from dpbayes_cli.capabilities import ConjugatePosterior
from dpbayes_cli.contracts import Card, Draws, Mechanism, Model, Plan, Request
from dpbayes_cli.errors import SpecError
from dpbayes_cli.privacy.conjugate import ConjugateFamily
from dpbayes_cli.renyi_posterior import calibrated, draws_of, plan_of, price
from dpbayes_cli.statistic import Statistics


class RdpDiffuse(Mechanism):
    """Draw from the posterior with the likelihood to the power r, the largest r that fits.

    Privacy: the Renyi divergence of every order below lambda*, the supremum over all neighbouring complete data sets,
        with what the public grid and its integers add; the whole curve is charged.
    Source: Geumlek, Song and Chaudhuri 2017, Algorithm 2; corrected, see ``privacy.conjugate``.
    """

    name: ClassVar[str] = "rdp-diffuse"
    summary: ClassVar[str] = "posterior samples with the likelihood diffused by r; a Renyi curve"
    card: ClassVar[Card] = Card(
        releases="k draws from the posterior whose likelihood is raised to the power r, the largest r in (0, 1] "
        "whose divergence at the stated order stays within epsilon.",
        guarantee="A Renyi curve, finite below an order lambda* that is stated, and charged whole. It has no pure "
        "epsilon: the account must be one of (epsilon, delta), or of RDP at an order below lambda*.",
        assumptions="Complete records, and a number of them that is public. The operating system's random numbers are "
        "secret. The prior was chosen without looking at the data.",
        source="Geumlek, Song and Chaudhuri 2017, Algorithm 2 and Theorem 15; Mironov 2017.",
        corrections="Neighbours share n - 1 records: the paper lets one posterior leave that hull and pairs vertices "
        "only, 6 to 44 % too large. For Dirichlet priors the supremum takes O(K) steps, not O(K^3). Draws are exact on "
        "a public grid; what that adds to the divergence (below 1e-14) is charged.",
        prefer_when="Posterior samples at a stated Renyi price; the posterior stays centred between prior and data, "
        "and is wider.",
    )
    requires: ClassVar[tuple[type, ...]] = (ConjugatePosterior,)
    needs_n: ClassVar[bool] = True
    post_processing: ClassVar[bool] = False

    def plan(self, model: Model, request: Request) -> Plan:
        """Find the largest r.

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
    """Return the largest r, and m = 1."""
    if epsilon is None:
        raise SpecError("missing", where="privacy.epsilon", hint="the divergence to spend at --order: --eps 0.1")
    return calibrated(lambda r: price(family, order, r, 1.0), epsilon), 1.0
