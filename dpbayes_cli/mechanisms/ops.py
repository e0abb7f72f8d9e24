"""OPS: one posterior sample, tempered and truncated so that the draw itself is private."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dpbayes_cli.core.columns import RecordPolicy, complete_records
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import MethodInfo, Model
from dpbayes_cli.core.options import EpsilonOptions, NumberOfDraws, Options, PowerAppliesTo, Support
from dpbayes_cli.core.plan import Plan, Sampler, Step
from dpbayes_cli.core.released import Draws
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import Statistics
from dpbayes_cli.mechanisms.samplers.sampler_for import exact_sampler, takes_support
from dpbayes_cli.mechanisms.samplers.tempering import DrawRequest
from dpbayes_cli.models.families.capabilities import LinearPosterior, OneParameterFamily, SharesPosterior
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.privacy.kinds import BoundedRange


class OpsOptions(EpsilonOptions, frozen=True, kw_only=True):
    """What is read of every model."""

    draws: NumberOfDraws = 1
    power_applies_to: PowerAppliesTo = "likelihood"


class OpsRangeOptions(OpsOptions, frozen=True, kw_only=True):
    """What is read of a model whose parameter has one public range."""

    support: Support = None


class Ops(Mechanism):
    """Draw from the posterior of complete records, tempered so that each draw has the range that was asked for.

    Privacy: each of k draws has bounded range epsilon / k, together they are pure epsilon-DP; see ``ScalarSampler``,
        ``SimplexSampler`` and ``LinearRegressionSampler`` for the code that draws.
    Source: Wang, Fienberg and Smola 2015; Foulds et al. 2016 sec. 2.2, 3.1; Zhang et al. 2016 sec. 4.
    """

    name: ClassVar[str] = "ops"
    summary: ClassVar[str] = "posterior samples, tempered and truncated; pure epsilon, bounded range"
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {"privacy": {"epsilon": "1"}, "sampling": {"draws": 3}}
    card: ClassVar[MethodInfo] = MethodInfo(
        releases="k draws from the posterior, truncated to a public range of the parameter and tempered by "
        "T = min(1, epsilon / (k R)). Nothing else: no statistic, no summary; more draws cost more.",
        guarantee="Pure epsilon-DP and bounded range epsilon / k for each draw, with its Renyi curve: accounts of "
        "(epsilon, delta), RDP or zCDP pay the curve, and many draws cost far less than their sum.",
        assumptions="Complete records, and a number of them that is public. The operating system's random numbers are "
        "secret.",
        source="Wang, Fienberg and Smola 2015; Foulds et al. 2016, sec. 2.2 and 3.1; Zhang, Rubinstein and "
        "Dimitrakakis 2016, sec. 4; Cesar and Rogers 2021 (Renyi curve of bounded range).",
        corrections="The papers draw real numbers, which floating point does not; here a cell of a public grid is "
        "drawn by exact integer weights. R = sup - inf of the log likelihood ratio replaces 2 Delta, and is never "
        "larger. Only the likelihood needs tempering (power_applies_to: joint gives the papers' form). Of a network "
        "every table has its own share of epsilon and its own likelihood power, whatever the number of its rows. "
        "Lines of a regression stay within the target's bounds on the whole box of the features: R does not grow with "
        "their number.",
        prefer_when="A single synthetic parameter is wanted, or many small releases on a curve budget. For anything "
        "else `laplace` tells more for the same epsilon.",
    )
    requires: ClassVar[tuple[type, ...]] = (OneParameterFamily, SharesPosterior, DiscreteBayesNet, LinearPosterior)
    options_type: ClassVar[type[Options]] = OpsOptions
    needs_n: ClassVar[bool] = True
    post_processing: ClassVar[bool] = False

    @classmethod
    def options_for(cls, model: type[Model]) -> type[Options]:
        """Return what is read: with the range of the parameter, where there is one."""
        return OpsRangeOptions if takes_support(model) else OpsOptions

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        """Find the likelihood power, and the price of all draws: each has bounded range epsilon / k.

        Raises:
            SpecError: records are not complete, the support is missing or wrong, or no guarantee can be given.
        """
        asked, n = require_type(options, OpsOptions), complete_records(policy, model.columns, n_records)
        drawing = DrawRequest(asked.stated_epsilon(), n, asked.draws, asked.power_applies_to, asked.value("support"))
        found = exact_sampler(model, policy, drawing)
        price = BoundedRange(found.charged, asked.draws, found.curve)
        step = Step(found.statistic, found.sampler, price, asked.draws)
        return Plan((step,), price, found.parameters)

    def release(self, plan: Plan, evidence: Statistics) -> Draws:
        """Draw from the planned posterior.

        Privacy: bounded range epsilon / k a draw; the draws alone are returned.
        Source: see the class.
        """
        (step,) = plan.steps
        sampler = require_type(step.law, Sampler)
        return Draws(tuple(sampler.draw(evidence.values, step.draws)))
