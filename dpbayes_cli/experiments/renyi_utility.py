"""Utility at equal Renyi cost: how far releases are from the true posterior, and how well they predict.

Given the exact count s of n records, one draw after a release follows a mixture of Beta laws. For a released posterior
draw, the mixture has one component. For a noisy count, it has one component per possible count s', whose weight is the
posterior probability of s', averaged over the noise. So the Kullback-Leibler divergence is an integral in one
dimension, and the mean and variance of a log-likelihood have closed forms; see ``beta_mixtures``. The paper simulates
10,000 trials instead.

Source: Geumlek, Song and Chaudhuri 2017, sec. 5.1 and Fig. 2.
"""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta

from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.experiments.beta_mixtures import UtilityCase, beta_divergence, divergence, log_loss, mixing_of
from dpbayes_cli.experiments.coin import COMPLETE
from dpbayes_cli.experiments.plots import Plot, Style
from dpbayes_cli.experiments.results import OURS, Claim, GridPoint, PointOutcome, Results
from dpbayes_cli.experiments.study import StudyFile, StudyLayout, check_within
from dpbayes_cli.mechanisms.samplers.renyi_posterior import largest_parameter
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.spec.convert_section import Exact

if TYPE_CHECKING:
    from dpbayes_cli.core.plan import Plan

Method = Literal[
    "rdp-direct", "rdp-diffuse", "rdp-concentrated", "gaussian-paper", "gaussian-naive", "gaussian", "laplace"
]

SOURCE = "[G] Figure 2"
_ROUNDING, _SMALL_DIVERGENCE = 1e-9, 0.01
"""Divergences below the first count as exactly zero, divergences below the second as nearly zero."""
_MAX_PURE_EPSILON = Decimal(60)
"""The largest pure epsilon that is tried for Laplace noise, at which the noise is practically always zero."""
_KL_LIMIT = 0.7
"""The upper end of the figure's vertical axis; in the paper it is 0.6."""
_WEIGHTED = ("rdp-diffuse", "rdp-concentrated")
_STYLES = {
    "rdp-diffuse": Style("tab:blue", "o"),
    "rdp-concentrated": Style("tab:orange", "s"),
    "gaussian-paper": Style("tab:green", "v", ":"),
    "gaussian-naive": Style("tab:green", "^", "--"),
    "gaussian": Style("tab:green", "d"),
    "laplace": Style("tab:red", "D"),
}


class RenyiUtility(StudyFile, frozen=True, kw_only=True):
    """A grid of cases x orders x epsilon x methods; expectations are computed, and nothing is random."""

    study: Literal["renyi-utility"]
    orders: Annotated[tuple[Exact, ...], Meta(min_length=1, description="orders of Renyi divergence")]
    epsilon: Annotated[
        tuple[Exact, ...], Meta(min_length=1, description="Renyi divergences that a release may cost, at each order")
    ]
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, UtilityCase], Meta(min_length=1)]

    layout: ClassVar = StudyLayout(
        columns=("case", "order", "epsilon", "method"),
        measures=("parameter", "cost", "kl", "nll", "nll_sd"),
        unit="",
        shown=("case", "order", "epsilon", "method", "parameter", "kl", "nll", "nll_sd"),
        plots={
            name: Plot(title, y, label, _STYLES, panels=("case", "order"), across=("rdp-direct", "true posterior"),
                       y_limits=limits)
            for name, title, y, label, limits in (
                ("kl", "Divergence of releases from the true posterior", "kl", "KL divergence from the true posterior",
                 (-0.02, _KL_LIMIT)),
                ("log-likelihood", "Negative log-likelihood of held-out records under one draw", "nll",
                 "negative log-likelihood", None),
            )
        },
        about="The utility of releases of a binary outcome that have the same cost, a Renyi divergence epsilon of an "
        "order. Expectations are computed, not simulated.\n\n"
        "`rdp-diffuse` (Algorithm 2 of the paper): one draw of a posterior in which the data count for less. "
        "`rdp-concentrated` (Algorithm 3): one draw of a posterior in which the prior counts for more. `rdp-direct`: "
        "one draw of the true posterior. `gaussian-naive`: a count with Gaussian noise; a negative count becomes "
        "zero, and inference takes it for exact. `gaussian-paper`: the same with the noise of the paper, which "
        "charges twice the true cost and adds more noise. `gaussian`, `laplace`: noise-aware inference from a count "
        "with Gaussian or Laplace noise; the latter has the largest pure epsilon whose Renyi divergence is at most "
        "the stated one.",
        legend="`kl`: Kullback-Leibler divergence KL(p || q) of the true posterior p and the law q of one draw, "
        "averaged over the noise. `nll`, `nll_sd`: mean and standard deviation of the negative log-likelihood of n "
        "held-out records under one draw, over data sets, held-out records and draws. `parameter`: the power r of "
        "the likelihood, the divisor m of the prior's parameters, or the scale of the noise. `cost`: for "
        "`rdp-direct` only, the largest Renyi divergence of the order between neighboring data sets; empty if it is "
        "infinite.",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        self.state_exactly("epsilon")
        self.state_exactly("orders", check_within("an order is above 1 and at most 256", "1", "256"))
        self.check_distinct("orders", "epsilon", "methods")

    def grid(self) -> list[GridPoint]:
        places = (
            (name, {"order": order, "epsilon": epsilon, "method": method})
            for name, order in product(self.cases, self.orders)
            for epsilon, method in self.prices_and_methods(self.epsilon, self.methods, "rdp-direct")
        )
        return [
            self.point({"case": name, **place}, msgspec.to_builtins(self.cases[name]), place) for name, place in places
        ]

    def run(self, point: GridPoint) -> PointOutcome:
        case, method = self.cases[point.case], point["method"]
        plan = plan_of(case, method, point["order"], point["epsilon"])
        counts, cost = np.arange(case.n + 1), math.inf
        if plan is not None and not method.startswith("rdp-"):
            noise = plan.steps[0].noise
            mixing, parameter = mixing_of(noise, case, aware=method in {"gaussian", "laplace"}), noise.scale
            first, second = case.alpha + counts, case.beta + case.n - counts
        else:
            r, m = (1.0, 1.0) if plan is None else (float(plan.parameters[name]) for name in ("r", "m"))
            mixing, parameter = np.eye(case.n + 1), m if method == "rdp-concentrated" else r
            first, second = case.alpha / m + r * counts, case.beta / m + r * (case.n - counts)
        if plan is None:
            cost = case.model.family(case.n).divergence(float(point["order"]), 1.0, 1.0)
        shapes = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
        mean, sd = log_loss(case, mixing, *shapes)
        measures = {"parameter": parameter, "kl": divergence(case, mixing[case.successes], *shapes)}
        return PointOutcome({**measures, "nll": mean, "nll_sd": sd, "cost": cost if math.isfinite(cost) else None}, {})

    def claims(self, results: Results) -> list[Claim]:
        made: list[Claim | None] = []
        has = set(self.methods).issuperset
        for name, order in product(self.cases, self.orders):
            own = results.where(case=name, order=order)
            at = _Claims(f"{name}, order {order}", self.cases[name], sorted(self.epsilon, key=float), own)
            if has((*_WEIGHTED, "rdp-direct")):
                made.append(at.reached())
            if has(_WEIGHTED):
                made += [at.prior(), at.mode()]
            if has((*_WEIGHTED, "gaussian-paper")):
                made.append(at.truth())
            if has(("gaussian-paper", "gaussian-naive")):
                made.append(at.below("noise calibrated to the true cost", "gaussian-naive", "gaussian-paper"))
            if has(("gaussian", "gaussian-naive")):
                made.append(at.below("noise-aware inference", "gaussian", "gaussian-naive"))
        return [claim for claim in made if claim is not None]

    def about_case(self, own: Results) -> str:
        case = self.cases[own[0]["case"]]
        return (
            f"The prior is Beta({case.alpha:g}, {case.beta:g}). Divergences are for {case.successes} successes in "
            f"{case.n} records; log-likelihoods are expectations under theta = {case.theta:g}."
        )


def plan_of(case: UtilityCase, method: str, order: str, epsilon: str | None) -> Plan | None:
    """Return the calibrated plan of a release that costs epsilon at an order; None for the true posterior.

    Raises:
        SpecError: no release has this cost.
    """
    if method == "rdp-direct" or epsilon is None:
        return None
    at, price, model = Decimal(order), Decimal(epsilon), case.model
    mechanism = mechanism_type("gaussian" if method.startswith("gaussian") else method)
    if method.startswith("rdp-"):
        options = {"order": at, "epsilon": price}
    elif method == "laplace":
        options = {"epsilon": _pure(at, price)}
    else:  # order rho; the paper charges twice that
        options = {"rho": price / at / (2 if method == "gaussian-paper" else 1)}
    return mechanism().plan(model, COMPLETE, mechanism.options_for(type(model))(**options), case.n)


def _pure(order: Decimal, epsilon: Decimal) -> Decimal:
    """Return the largest pure epsilon whose Renyi divergence at an order is at most ``epsilon``."""

    def pure(share: float) -> Decimal:
        return max(Decimal(share) * _MAX_PURE_EPSILON, Decimal("1e-12"))

    return pure(largest_parameter(lambda share: PureDP(pure(share)).rdp(order), epsilon))


class _Claims:
    """The claims about one case at one Renyi order; ``prices`` are the epsilons, smallest first."""

    def __init__(self, at: str, case: UtilityCase, prices: list[str], own: Results) -> None:
        self._at, self._case, self._prices, self._own = at, case, prices, own
        self._results = {(each["epsilon"], each["method"]): each for each in own}

    def _value(self, epsilon: str, method: str, measure: str = "kl") -> float:
        return self._results[epsilon, method].measure(measure)

    def reached(self) -> Claim | None:
        prices, cost = self._prices, self._own.one(method="rdp-direct").measures["cost"]
        if cost is None:
            least = {method: min(self._value(epsilon, method) for epsilon in prices) for method in _WEIGHTED}
            return Claim(
                SOURCE,
                f"{self._at}, at which direct sampling costs infinitely much: Algorithms 2 and 3 do not reach "
                "divergence zero.",
                min(least.values()) > _SMALL_DIVERGENCE,
                f"smallest divergence at any epsilon up to {prices[-1]}: "
                f"{', '.join(f'`{method}` {value:.4f}' for method, value in least.items())}",
            )
        beyond = [epsilon for epsilon in prices if float(epsilon) >= cost]
        short = [epsilon for epsilon in prices if float(epsilon) < cost]
        if not beyond or not short:
            return None
        most = max(self._value(epsilon, method) for epsilon in beyond for method in _WEIGHTED)
        before = min(self._value(short[-1], method) for method in _WEIGHTED)
        return Claim(
            SOURCE,
            f"{self._at}: Algorithms 2 and 3 reach divergence zero at the epsilon that direct sampling costs.",
            most <= _ROUNDING < before,
            f"direct sampling costs {cost:.6f}; the divergence is at most {most:.1g} from epsilon {beyond[0]} on, and "
            f"at least {before:.2g} at epsilon {short[-1]}",
        )

    def prior(self) -> Claim:
        case = self._case
        posterior = case.alpha + case.successes, case.beta + case.n - case.successes
        to_prior = beta_divergence(*posterior, case.alpha, case.beta)
        diffuse, concentrated = (self._value(self._prices[0], method) for method in _WEIGHTED)
        return Claim(
            SOURCE,
            f"{self._at}: as epsilon falls, Algorithm 2 approaches the prior, with a moderate divergence, and "
            "Algorithm 3 approaches a point mass, with a large divergence.",
            abs(diffuse - to_prior) <= 0.05 * to_prior and concentrated > 2.0 * diffuse,
            f"at epsilon {self._prices[0]} the divergence is {diffuse:.3f} for Algorithm 2 ({to_prior:.3f} for the "
            f"prior) and {concentrated:.3f} for Algorithm 3",
        )

    def mode(self) -> Claim:
        first = self._prices[0]
        diffuse, concentrated = (self._value(first, method, "nll") for method in _WEIGHTED)
        return Claim(
            SOURCE,
            f"{self._at}: at small epsilon held-out records favor Algorithm 3, which then predicts by the mode of the "
            "prior.",
            concentrated < diffuse,
            f"negative log-likelihood at epsilon {first}: {concentrated:.2f} for Algorithm 3, {diffuse:.2f} for "
            "Algorithm 2",
        )

    def truth(self) -> Claim:
        first, last = self._prices[0], self._prices[-1]
        high, low = (self._value(epsilon, "gaussian-paper") for epsilon in (first, last))
        weighted = min(self._value(last, method) for method in _WEIGHTED)
        return Claim(
            SOURCE,
            f"{self._at}: the Gaussian mechanism always adds noise, and approaches the true posterior as epsilon "
            "grows.",
            0.0 < low < _SMALL_DIVERGENCE and low < high,
            f"divergence {high:.3f} at epsilon {first}, and {low:.2g} at epsilon {last}; there the better one of "
            f"Algorithms 2 and 3 has the divergence {weighted:.2g}",
            "The noise here is discrete, and as epsilon grows it is zero with a probability that approaches one. The "
            "paper's continuous noise is never zero.",
        )

    def below(self, what: str, first: str, second: str) -> Claim:
        pairs = {epsilon: (self._value(epsilon, first), self._value(epsilon, second)) for epsilon in self._prices}
        against = [epsilon for epsilon, (less, more) in pairs.items() if less > more + _ROUNDING]
        shown = max(pairs, key=lambda epsilon: pairs[epsilon][1] - pairs[epsilon][0])
        less, more = pairs[shown]
        return Claim(
            OURS,
            f"{self._at}: {what} lowers the divergence (`{first}` against `{second}`).",
            not against,
            f"the largest decrease is {more - less:.3f}, at epsilon {shown} ({less:.3f} against {more:.3f}); the "
            f"divergence is higher at {len(against)} of {len(self._prices)} epsilons"
            + (f" ({', '.join(against)})" if against else ""),
            "The divergence is that of the law of one draw, averaged over the noise. Noise spreads a draw of "
            "`gaussian-naive` once. It spreads a draw of `gaussian` twice, because the posterior is wider, too. The "
            "credible intervals of `gaussian` are right, but a divergence of averages does not measure this."
            if against and first == "gaussian"
            else "",
        )
