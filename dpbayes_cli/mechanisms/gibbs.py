"""Private Gibbs sampling: a Markov chain every update of which is an exponential mechanism at its own price."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy, complete_records
from dpbayes_cli.core.encoded_records import Codes
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import BoundedStatistics, MethodInfo, Model
from dpbayes_cli.core.options import SAMPLING, Options, PowerAppliesTo, Support, option
from dpbayes_cli.core.plan import Plan, Step
from dpbayes_cli.core.released import Draws
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import NO_STATISTIC, Statistic, Statistics
from dpbayes_cli.mechanisms.samplers import barker_kernel, private_gibbs
from dpbayes_cli.mechanisms.samplers.calibrated_noise import calibrated_noise
from dpbayes_cli.mechanisms.samplers.gibbs_accounting import ChainOptions
from dpbayes_cli.mechanisms.samplers.sampler_for import exact_sampler, takes_support
from dpbayes_cli.mechanisms.samplers.tempering import DrawRequest
from dpbayes_cli.models.families.capabilities import OneParameterFamily, SharesPosterior
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.models.families.latent_variables import LatentVariables
from dpbayes_cli.privacy.kinds import BoundedRange
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace

_METROPOLIS = (
    "under Metropolis' rule a better point is accepted for certain, so that staying can have probability 0 under one "
    "data set and not under its neighbor: no finite pure epsilon holds"
)


class ExactOptions(ChainOptions, frozen=True, kw_only=True):
    """What is read where every sweep is one exact draw of all parameters."""

    power_applies_to: PowerAppliesTo = "likelihood"


class ExactRangeOptions(ExactOptions, frozen=True, kw_only=True):
    """The same of a model whose parameter has one public range."""

    support: Support = None


class WalkOptions(ExactRangeOptions, frozen=True, kw_only=True):
    """What is read of a model with one parameter, on a grid of which a chain may walk."""

    kernel: Annotated[
        Literal["gibbs", "barker", "annealed", "metropolis"],
        option(
            SAMPLING,
            "the updates: gibbs (exact draws), barker (a walk on a grid) or annealed (a walk at rising powers of the "
            "likelihood); metropolis is refused",
        ),
    ] = "gibbs"


class Gibbs(Mechanism):
    """Run a Markov chain whose state is public and whose updates are priced, and release its last points.

    Privacy: every update that touches data is an exponential mechanism of a planned range, given everything drawn
        before; their number is fixed, and the whole chain is charged before it starts: epsilons add, and curves of
        bounded range add, whether or not the chain has mixed. See ``PrivateGibbs``, ``BarkerKernel`` and, for sweeps
        that are one exact draw, ``ScalarSampler``, ``SimplexSampler`` and ``DagSampler``.
    Source: Foulds et al. 2016, sec. 4.1; McSherry and Talwar 2007; Cesar and Rogers 2021.
    """

    name: ClassVar[str] = "gibbs"
    summary: ClassVar[str] = "a private Markov chain, each update an exponential mechanism; pure epsilon, bounded range"
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "privacy": {"epsilon": "1"},
        "sampling": {"draws": 3, "sweeps": 4},
    }
    card: ClassVar[MethodInfo] = MethodInfo(
        releases="The last points of a Markov chain: parameters and, of hidden Markov models, the state of every "
        "sequence at every step. The point of every sweep is public to the analysis and paid for, so that more of the "
        "last sweeps (sampling.draws) cost nothing more.",
        guarantee="Pure epsilon-DP of the chain that runs, mixed or not, and the curve of its bounded ranges: k "
        "updates of range e cost accounts of zCDP k e^2 / 8. A sweep over hidden states costs one update, whatever the "
        "number of sites, for a record is at one of them; so does one over the tables. The number of sweeps is public, "
        "and the chain is charged before it starts.",
        assumptions="Complete records, and a number of them that is public. The operating system's random numbers are "
        "secret, and nobody measures how long the chain runs, which depends on the counts: bundle and ledger say "
        "nothing of it. That the chain has reached the tempered posterior is not assumed for privacy, and not known.",
        source="Foulds, Geumlek, Welling and Chaudhuri 2016, sec. 4.1 and supplement; McSherry and Talwar 2007; Cesar "
        "and Rogers 2021 (Renyi curve of bounded range); Barker 1965; Neal 2001.",
        corrections="(1) A random-scan update is offered as a private one amplified by subsampling; but the public "
        "state shows which record was used, and nothing is amplified under pure epsilon. Its Renyi divergence is at "
        "most log(1 - 1/n + (1/n) exp((l - 1) D_l)) / (l - 1) at order l, D_l that of one update, and n of them do not "
        "compose in parallel; it is not offered. (2) Metropolis-Hastings has no pure epsilon. Two lines show it: let "
        "the proposed point be better by 0.1 under X and worse by 0.1 under a neighbor X'. Staying has probability 0 "
        "under X and 1 - exp(-0.1) > 0 under X'. Barker's rule (kernel: barker) is the exponential mechanism on the "
        "two. (3) A replaced record may leave one site and join another, which changes two hidden states: both are "
        "charged. (4) A chain of real numbers is no mechanism that runs: here states and shares are drawn by exact "
        "integers and decimals. (5) Annealing (kernel: annealed) costs about half as much for the same last "
        "likelihood power, since updates at power b have b times the range. The importance weights of annealed "
        "importance sampling are functions of the exact data: the log weight is released with noise of its own and at "
        "its own price (log_weight_epsilon), or not at all.",
        prefer_when="Hidden states are wanted that no noisy statistic holds, as in mixtures. Elsewhere `laplace` "
        "pays once and runs any chain for free: plan shows its noise at the same epsilon.",
    )
    requires: ClassVar[tuple[type, ...]] = (OneParameterFamily, SharesPosterior, DiscreteBayesNet, LatentVariables)
    options_type: ClassVar[type[Options]] = ExactOptions
    needs_n: ClassVar[bool] = True
    post_processing: ClassVar[bool] = False

    @classmethod
    def options_for(cls, model: type[Model]) -> type[Options]:
        """Return what is read, by the kinds of chain that there are for a model."""
        if issubclass(model, LatentVariables):
            return private_gibbs.PrivateGibbsOptions
        if issubclass(model, OneParameterFamily):
            return WalkOptions
        return ExactRangeOptions if takes_support(model) else ExactOptions

    def statistic(self, model: Model, policy: RecordPolicy) -> Statistic:
        """Return the statistic that is read, the empty one where records are."""
        if isinstance(model, LatentVariables):
            read = model.read(policy)
            return NO_STATISTIC if isinstance(read, Codes) else read
        return require_type(model, BoundedStatistics).statistic(policy)

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        """Plan the whole chain: its likelihood power and its price.

        Raises:
            SpecError: records are not complete, the kernel has no price, or epsilon does not suffice.
        """
        asked, n = require_type(options, ChainOptions), complete_records(policy, model.columns, n_records)
        kernel = asked.value("kernel") or "gibbs"
        if kernel == "metropolis":
            raise SpecError(_METROPOLIS, where="sampling.kernel", hint="kernel: barker")
        if isinstance(model, LatentVariables):
            return self._latent(model, policy, require_type(options, private_gibbs.PrivateGibbsOptions), n)
        exact = require_type(options, ExactOptions)
        drawing = DrawRequest(exact.stated_epsilon(), n, exact.draws, exact.power_applies_to, exact.value("support"))
        if isinstance(model, OneParameterFamily) and kernel != "gibbs":
            return self._walk(model, policy, drawing, exact.sweeps, kernel)
        return self._exact(model, policy, drawing, exact.sweeps)

    def _latent(
        self, model: LatentVariables, policy: RecordPolicy, options: private_gibbs.PrivateGibbsOptions, n_records: int
    ) -> Plan:
        """Plan a chain on hidden states."""
        chain, price = private_gibbs.plan_latent_chain(model.structure, options, n_records)
        parameters = private_gibbs.plan_parameters(chain, price, options.kernel)
        read = model.read(policy)
        if isinstance(read, Codes):
            parameters["memory"] = read.memory(n_records) + private_gibbs.working_memory(chain)
        statistic, rows = (NO_STATISTIC, read) if isinstance(read, Codes) else (read, None)
        step = Step(statistic, chain, price.guarantee, options.draws, rows)
        return self._planned(step, options.stated_epsilon(), parameters)

    def _walk(
        self, model: OneParameterFamily, policy: RecordPolicy, asked: DrawRequest, sweeps: int | None, kernel: str
    ) -> Plan:
        """Plan a walk by Barker's rule."""
        steps = sweeps or barker_kernel.DEFAULT_STEPS
        walk, price, spread = barker_kernel.plan_walk(model, asked, steps, annealed=kernel == "annealed")
        step = Step(model.statistic(policy), walk, price.guarantee, asked.draws)
        return self._planned(step, asked.epsilon, barker_kernel.plan_parameters(walk, price, spread, kernel))

    def _exact(self, model: Model, policy: RecordPolicy, asked: DrawRequest, stated: int | None) -> Plan:
        """Plan sweeps each of which is one exact draw of all parameters."""
        sweeps = stated or asked.draws
        if asked.draws > sweeps:
            raise SpecError(f"{asked.draws} draws are the last of {sweeps} sweeps", where="sampling.draws")
        found = exact_sampler(model, policy, replace(asked, draws=sweeps))
        price = BoundedRange(found.charged, sweeps, found.curve)
        spent = price.epsilon
        parameters = {
            "kernel": "gibbs",
            "sweeps": sweeps,
            "updates": sweeps,
            "epsilon_per_update": float(spent / sweeps),
            "cost_of_chain": float(spent),
            "rho_of_chain": float(price.rho),
            **found.parameters,
        }
        step = Step(found.statistic, found.sampler, price, asked.draws)
        return self._planned(step, asked.epsilon, parameters)

    def _planned(self, step: Step, epsilon: Decimal, parameters: dict[str, Any]) -> Plan:
        """Return the plan of a chain, with what noise would do at the same price."""
        scale = laplace_scale(step.statistic, epsilon)
        parameters = {**parameters, "draws": step.draws}
        if scale is not None:
            parameters["laplace_scale"] = scale
        last = "sweep" if step.draws == 1 else f"{step.draws} sweeps"
        how = (
            f"the last {last} of a private chain of {parameters['sweeps']}, {parameters['updates']} priced updates at "
            f"likelihood power {parameters['likelihood_power']:.3g}; the guarantee is that of this chain, mixed or not"
        )
        return Plan((step,), step.guarantee, parameters, how, _warnings(step, parameters))

    def release(self, plan: Plan, evidence: Statistics) -> Draws:
        """Run the planned chain.

        Privacy: the guarantee of the plan; the chain's last points alone are returned.
        Source: see the class.
        """
        (step,) = plan.steps
        return step.drawn(evidence)


def laplace_scale(statistic: Statistic, epsilon: Decimal) -> float | None:
    """Return the scale of Laplace noise on the statistic at the same epsilon; None where there is no statistic."""
    if not statistic.sensitivity_l1:
        return None
    calibrate: Callable[..., DiscreteLaplace] = DiscreteLaplace.calibrate
    return calibrated_noise(statistic, epsilon, calibrate, lambda part: part.sensitivity_l1).scale


_INFORMATIVE_POWER = 0.5


def _warnings(step: Step, parameters: dict[str, Any]) -> tuple[str, ...]:
    """Return what is public about how little a chain may tell."""
    if parameters["likelihood_power"] >= _INFORMATIVE_POWER:
        return ()
    noise = ""
    if "laplace_scale" in parameters:
        noise = f"; at the same epsilon laplace adds noise of scale {parameters['laplace_scale']:.3g} once, and no more"
    return (
        f"the chain's {parameters['updates']} updates leave {parameters['likelihood_power']:.2g} of the likelihood's "
        f"weight: a record counts as so much of one{noise}",
    )
