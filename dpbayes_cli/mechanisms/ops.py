"""OPS: posterior draws that are private because the posterior is tempered and truncated."""

from __future__ import annotations

from typing import ClassVar

from dpbayes_cli.core.columns import RecordPolicy, require_complete_records
from dpbayes_cli.core.model import MethodInfo, Model
from dpbayes_cli.core.options import EpsilonOptions, NumberOfDraws, Options, PowerAppliesTo, Support
from dpbayes_cli.core.plan import Plan, Step
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.samplers.draw_mechanism import DrawMechanism
from dpbayes_cli.mechanisms.samplers.sampler_for import exact_sampler, takes_support
from dpbayes_cli.mechanisms.samplers.tempering import DrawRequest
from dpbayes_cli.models.families.capabilities import DirichletProbabilities, NormalRegression, OneParameterFamily
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet


class OpsOptions(EpsilonOptions, frozen=True, kw_only=True):
    """The options for every model."""

    draws: NumberOfDraws = 1
    power_applies_to: PowerAppliesTo = "likelihood"


class OpsRangeOptions(OpsOptions, frozen=True, kw_only=True):
    """The options for a model whose parameter has one public range."""

    support: Support = None


class Ops(DrawMechanism):
    """Draw from the posterior of complete records, tempered so that each draw has the requested bounded range.

    Privacy: each of k draws has bounded range epsilon / k; together they are pure epsilon-DP. See ``ScalarSampler``,
        ``SimplexSampler`` and ``LinearRegressionSampler`` for the code that draws.
    Source: Wang, Fienberg and Smola 2015; Foulds et al. 2016 sec. 2.2, 3.1; Zhang et al. 2016 sec. 4.
    """

    name: ClassVar[str] = "ops"
    summary: ClassVar[str] = "posterior samples, tempered and truncated; pure epsilon, bounded range"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="k draws from the posterior, truncated to a public range of the parameter. The likelihood is raised "
        "to the power T = min(1, epsilon / (k R)), where R is the range of the log likelihood ratio of two records. "
        "Nothing else is released, neither a statistic nor a summary. More draws cost more.",
        guarantee="Pure epsilon-DP, and each draw has bounded range epsilon / k. Accounts in (epsilon, delta), RDP or "
        "zCDP are charged the Renyi curve of the draws, so that many draws cost far less there than the sum of their "
        "epsilons. The tables of a network are drawn independently, so their curves add up: with m tables, the rho is "
        "about an m-th of that of one draw of the same epsilon.",
        assumptions="Records are complete and their number is public. The operating system's random numbers are "
        "secret.",
        source="Wang, Fienberg and Smola 2015; Foulds et al. 2016, sec. 2.2 and 3.1; Zhang, Rubinstein and "
        "Dimitrakakis 2016, sec. 4; Cesar and Rogers 2021 (Renyi curve of bounded range).",
        corrections="The papers draw real numbers, which floating point cannot do exactly; here a cell of a public "
        "grid is drawn with exact integer weights. R = sup - inf of the log likelihood ratio replaces the papers' 2 "
        "Delta, and is never larger. Only the likelihood needs tempering (with power_applies_to: joint the prior is "
        "tempered too, as in the papers). Every table of a network has its own share of epsilon and its own likelihood "
        "power, which does not depend on the number of its rows. In linear regression, the drawn regression lines stay "
        "within the target's bounds if the features are within theirs, so R does not grow with the number of features.",
        prefer_when="You want a single synthetic parameter, or many small releases charged to an account in (epsilon, "
        "delta), RDP or zCDP. For anything else `laplace` is more accurate at the same epsilon.",
    )
    requires: ClassVar[tuple[type, ...]] = (
        OneParameterFamily,
        DirichletProbabilities,
        DiscreteBayesNet,
        NormalRegression,
    )
    options_type: ClassVar[type[Options]] = OpsOptions

    @classmethod
    def options_for(cls, model: type[Model]) -> type[Options]:
        """Return the class of options, with a field for the public range if the parameter has one."""
        return OpsRangeOptions if takes_support(model) else OpsOptions

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        ops, n = require_type(options, OpsOptions), require_complete_records(policy, model.columns, n_records)
        request = DrawRequest(ops.stated_epsilon(), n, ops.draws, ops.power_applies_to, ops.value("support"))
        sampler, guarantee, parameters = exact_sampler(model, request)
        return Plan((Step(self.statistic(model, policy), sampler, guarantee, ops.draws),), guarantee, parameters)
