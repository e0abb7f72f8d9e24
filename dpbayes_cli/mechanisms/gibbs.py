"""Private Gibbs sampling: a Markov chain in which every update is an exponential mechanism with its own cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy, require_complete_records
from dpbayes_cli.core.encoded_records import CodedColumns
from dpbayes_cli.core.model import BoundedStatistics, MethodInfo, Model
from dpbayes_cli.core.options import SAMPLING, Options, PowerAppliesTo, Support, option
from dpbayes_cli.core.plan import Plan, Step
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import NO_STATISTIC, Statistic
from dpbayes_cli.mechanisms.samplers import barker_kernel, private_gibbs
from dpbayes_cli.mechanisms.samplers.calibrated_noise import calibrated_noise
from dpbayes_cli.mechanisms.samplers.draw_mechanism import DrawMechanism
from dpbayes_cli.mechanisms.samplers.gibbs_accounting import ChainOptions, powers
from dpbayes_cli.mechanisms.samplers.sampler_for import exact_sampler, takes_support
from dpbayes_cli.mechanisms.samplers.tempering import DrawRequest
from dpbayes_cli.models.families.capabilities import DirichletProbabilities, OneParameterFamily
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.models.families.latent_variables import LatentVariables
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace

_METROPOLIS = (
    "Metropolis' rule always accepts a better point, so staying can have probability 0 under one data set but not "
    "under its neighbor: the chain is not epsilon-DP for any epsilon"
)


class ExactOptions(ChainOptions, frozen=True, kw_only=True):
    """The options of a model whose sweep is one exact draw of all parameters."""

    power_applies_to: PowerAppliesTo = "likelihood"


class ExactRangeOptions(ExactOptions, frozen=True, kw_only=True):
    """The options of a model whose sweep is one exact draw and whose parameter has one public range."""

    support: Support = None


class WalkOptions(ExactRangeOptions, frozen=True, kw_only=True):
    """The options of a model with one parameter, whose chain may also be a walk on a grid."""

    kernel: Annotated[
        Literal["gibbs", "barker", "annealed", "metropolis"],
        option(
            SAMPLING,
            "the updates: gibbs (exact draws), barker (a walk on a grid) or annealed (a walk at rising powers of the "
            "likelihood); metropolis is refused",
        ),
    ] = "gibbs"


class Gibbs(DrawMechanism):
    """Run a Markov chain, every update of which is charged, and release its last points.

    Privacy: all points of the chain count as public. Given the earlier points, every update that reads data is an
        exponential mechanism whose bounded-range parameter was fixed in the plan. The number of updates is fixed, and
        the whole chain is charged before it starts. The epsilons of the updates add up, and so do their Renyi curves,
        whether or not the chain has mixed. See ``PrivateGibbs``, ``BarkerKernel`` and, for sweeps that are one exact
        draw, ``ScalarSampler``, ``SimplexSampler`` and ``DagSampler``.
    Source: Foulds et al. 2016, sec. 4.1; McSherry and Talwar 2007; Cesar and Rogers 2021.
    """

    name: ClassVar[str] = "gibbs"
    summary: ClassVar[str] = "a private Markov chain, each update an exponential mechanism; pure epsilon, bounded range"
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "privacy": {"epsilon": "1"},
        "sampling": {"draws": 3, "sweeps": 4},
    }
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The last points of a Markov chain: parameters and, for hidden Markov models, the state of every "
        "sequence at every step. The points of all sweeps are paid for, so that releasing more of them "
        "(sampling.draws) costs nothing more.",
        guarantee="Pure epsilon-DP of the chain that runs, whether or not it has mixed. Each update costs at most as "
        "much as one choice of bounded range e, so that k updates cost k e^2 / 8 in zCDP. Accounts in (epsilon, "
        "delta), RDP or zCDP are charged the Renyi curve, pure accounts epsilon. The hidden "
        "states of all sites are drawn for the cost of one update, because a record is at one site only. Likewise all "
        "rows of a table are drawn for the cost of one update, because a record counts in one row only. The number of "
        "sweeps is public, and the chain is charged before it starts.",
        assumptions="Records are complete and their number is public. The operating system's random numbers are "
        "secret. The running time of the chain depends on the counts: it is assumed that nobody measures this time, "
        "and bundle and ledger do not state it. Privacy does not assume that the chain has converged to the tempered "
        "posterior, and it is not known whether it has.",
        source="Foulds, Geumlek, Welling and Chaudhuri 2016, sec. 4.1 and supplement; McSherry and Talwar 2007; Cesar "
        "and Rogers 2021 (Renyi curve of bounded range); Barker 1965; Neal 2001.",
        corrections="(1) The papers propose random-scan updates and treat them as amplified by subsampling. But the "
        "public state shows which record was used, so under pure epsilon there is no amplification. At order l the "
        "Renyi divergence of a random-scan update is at most log(1 - 1/n + (1/n) exp((l - 1) D_l)) / (l - 1), where "
        "D_l is the divergence of the update without subsampling. Moreover, n such updates do not cost as little as "
        "one, because a record may be used in several of them (they do not compose in parallel). Random-scan updates "
        "are not offered. (2) Metropolis-Hastings is not epsilon-DP for any epsilon. Let the log density of the "
        "proposed point exceed that of the current point by 0.1 under X, and be 0.1 below it under a neighbor X'. "
        "Then staying has probability 0 under X and 1 - exp(-0.1) > 0 under X'. Barker's rule (kernel: barker) is the "
        "exponential mechanism on the two points. (3) A record and its replacement may belong to different time steps "
        "of a sequence. Then the draws of two hidden states are affected, and both are charged. (4) The papers' "
        "chains move in real numbers, which a computer cannot draw exactly: here hidden states and probabilities are "
        "drawn with exact integers and decimals. (5) An annealed chain (kernel: annealed) raises the likelihood power "
        "step by step. It costs about half as much as a chain whose sweeps all run at the last power, because the "
        "cost of an update grows with its power. The importance weight of annealed importance sampling depends on the "
        "exact data: its log is released with noise and at a cost of its own (log_weight_epsilon), or not at all.",
        prefer_when="The model has hidden states that cannot be inferred from a noisy statistic, as in mixtures. "
        "Otherwise prefer `laplace`, which pays once; chains on its noisy statistic are free. `plan` shows the noise "
        "scale that `laplace` has at the same epsilon.",
    )
    requires: ClassVar[tuple[type, ...]] = (
        OneParameterFamily,
        DirichletProbabilities,
        DiscreteBayesNet,
        LatentVariables,
    )
    options_type: ClassVar[type[Options]] = ExactOptions

    @classmethod
    def options_for(cls, model: type[Model]) -> type[Options]:
        """Return the class of options for the kinds of chain that the model allows."""
        if issubclass(model, LatentVariables):
            return private_gibbs.PrivateGibbsOptions
        if issubclass(model, OneParameterFamily):
            return WalkOptions
        return ExactRangeOptions if takes_support(model) else ExactOptions

    def statistic(self, model: Model, policy: RecordPolicy) -> Statistic:
        """Return the statistic that the chain reads, or the empty statistic if the chain reads records."""
        if isinstance(model, LatentVariables):
            read = model.chain_input(policy)
            return NO_STATISTIC if isinstance(read, CodedColumns) else read
        return require_type(model, BoundedStatistics).statistic(policy)

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        """Plan the whole chain: its likelihood power and its cost."""
        n = require_complete_records(policy, model.columns, n_records)
        kernel = require_type(options, ChainOptions).value("kernel") or "gibbs"
        if kernel == "metropolis":
            raise SpecError(_METROPOLIS, where="sampling.kernel", hint="kernel: barker")
        if isinstance(model, LatentVariables):
            return self._latent(model, policy, require_type(options, private_gibbs.PrivateGibbsOptions), n)
        exact = require_type(options, ExactOptions)
        request = DrawRequest(exact.stated_epsilon(), n, exact.draws, exact.power_applies_to, exact.value("support"))
        if isinstance(model, OneParameterFamily) and kernel != "gibbs":
            return self._walk(model, policy, request, exact.sweeps, kernel)
        return self._exact(model, policy, request, exact.sweeps)

    def _latent(
        self, model: LatentVariables, policy: RecordPolicy, options: private_gibbs.PrivateGibbsOptions, n_records: int
    ) -> Plan:
        chain, cost = private_gibbs.plan_latent(model.structure, options, n_records)
        parameters = private_gibbs.plan_parameters(chain, cost, options.kernel)
        data_read = model.chain_input(policy)
        if isinstance(data_read, CodedColumns):
            parameters["memory"] = data_read.memory(n_records) + private_gibbs.working_memory(chain)
        statistic, rows = (NO_STATISTIC, data_read) if isinstance(data_read, CodedColumns) else (data_read, None)
        step = Step(statistic, chain, cost.guarantee, options.draws, rows)
        return self._planned(step, options.stated_epsilon(), parameters)

    def _walk(
        self, model: OneParameterFamily, policy: RecordPolicy, request: DrawRequest, sweeps: int | None, kernel: str
    ) -> Plan:
        steps = sweeps or barker_kernel.DEFAULT_STEPS
        walk, cost, spread = barker_kernel.plan_walk(model, request, steps, annealed=kernel == "annealed")
        step = Step(model.statistic(policy), walk, cost.guarantee, request.draws)
        return self._planned(step, request.epsilon, barker_kernel.plan_parameters(walk, cost, spread, kernel))

    def _exact(self, model: Model, policy: RecordPolicy, request: DrawRequest, stated_sweeps: int | None) -> Plan:
        sweeps = stated_sweeps or request.draws
        powers(sweeps, request.draws, annealed=False)  # refuses more draws than sweeps
        sampler, cost, sampler_parameters = exact_sampler(model, replace(request, draws=sweeps))
        spent = cost.epsilon
        parameters = {
            "kernel": "gibbs",
            "sweeps": sweeps,
            "updates": sweeps,
            "epsilon_per_update": float(spent / sweeps),
            "cost_of_chain": float(spent),
            "rho_of_chain": float(cost.rho),
            **sampler_parameters,
        }
        step = Step(self.statistic(model, policy), sampler, cost, request.draws)
        return self._planned(step, request.epsilon, parameters)

    def _planned(self, step: Step, epsilon: Decimal, parameters: dict[str, Any]) -> Plan:
        """Return the plan of a chain, with the scale that Laplace noise would have at the same epsilon."""
        scale = laplace_scale(step.statistic, epsilon)
        parameters = {**parameters, "draws": step.draws}
        if scale is not None:
            parameters["laplace_scale"] = scale
        last = "" if step.draws == 1 else f"{step.draws} "
        how = (
            f"the last {last}of {parameters['sweeps']} sweeps of a private chain with {parameters['updates']} priced "
            f"updates at likelihood power {parameters['likelihood_power']:.3g}; its guarantee holds whether "
            "or not it has mixed"
        )
        return Plan((step,), step.guarantee, parameters, how, _warnings(step, parameters))


def laplace_scale(statistic: Statistic, epsilon: Decimal) -> float | None:
    """Return the scale of Laplace noise on the statistic at the same epsilon; None if there is no statistic."""
    if not statistic.sensitivity_l1:
        return None
    calibrate: Callable[..., DiscreteLaplace] = DiscreteLaplace.calibrate
    return calibrated_noise(statistic, epsilon, calibrate, lambda part: part.sensitivity_l1).scale


_INFORMATIVE_POWER = 0.5


def _warnings(step: Step, parameters: dict[str, Any]) -> tuple[str, ...]:
    if parameters["likelihood_power"] >= _INFORMATIVE_POWER:
        return ()
    noise = ""
    if "laplace_scale" in parameters:
        noise = (
            f"; at the same epsilon laplace adds noise of scale {parameters['laplace_scale']:.3g} to the statistic once"
        )
    return (
        f"the chain pays for {parameters['updates']} updates, which limits its likelihood power to "
        f"{parameters['likelihood_power']:.2g}: each record counts as that fraction of a record{noise}",
    )
