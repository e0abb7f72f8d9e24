"""What Geumlek, Song and Chaudhuri 2017 say of their Figure 2, and what is computed of it."""

from __future__ import annotations

from collections.abc import Mapping

from dpbayes_cli.experiments.claims import OURS, Claim
from dpbayes_cli.experiments.renyi_utility.cell import UtilityCell
from dpbayes_cli.experiments.renyi_utility.measures import beta_divergence
from dpbayes_cli.experiments.renyi_utility.study import RenyiUtilityStudy
from dpbayes_cli.experiments.store import FinishedCell
from dpbayes_cli.experiments.tables import Results

SOURCE = "[G] Figure 2"
_ZERO = 1e-9
_NEAR = 0.01
"""A divergence below this is next to nothing, and one above it is not."""
_TWICE = (
    "The law of one draw is averaged over the noise: a naive draw is spread by it once, one that knows the noise once "
    "more by not knowing it, and it shrinks to the prior. What that buys is that intervals are right, which no "
    "divergence of averages sees."
)
_TEMPERED = ("rdp-diffuse", "rdp-concentrated")

_Found = Mapping[tuple[str | None, str], FinishedCell]


def claims(study: RenyiUtilityStudy, results: Results[UtilityCell]) -> list[Claim]:
    """Return the claims of Figure 2, case by case and order by order; see ``Kind.claims``."""
    made: list[Claim | None] = []
    prices, held = sorted(study.epsilon, key=float), set(study.methods)
    for name in study.cases:
        for order in study.orders:
            at = f"{name}, order {order}"
            found = {(c.epsilon, str(c.method)): result for c, result in results if (c.name, c.order) == (name, order)}
            if held.issuperset((*_TEMPERED, "rdp-direct")):
                made.append(_reached(at, prices, found))
            if held.issuperset(_TEMPERED):
                made += [_prior(at, name, study, prices, found), _mode(at, prices, found)]
            if held.issuperset((*_TEMPERED, "gaussian-paper")):
                made.append(_truth(at, prices, found))
            if held.issuperset(("gaussian-paper", "gaussian-naive")):
                made.append(_below(at, "half of the price the paper charges buys", "gaussian-naive", "gaussian-paper",
                                   prices, found))  # fmt: skip
            if held.issuperset(("gaussian", "gaussian-naive")):
                made.append(_below(at, "knowing the noise buys", "gaussian", "gaussian-naive", prices, found, _TWICE))
    return [claim for claim in made if claim is not None]


def _value(found: _Found, epsilon: str | None, method: str, measure: str = "kl") -> float:
    return float(str(found[epsilon, method].measures[measure]))


def _reached(at: str, prices: list[str], found: _Found) -> Claim | None:
    """Below lambda* both algorithms become direct sampling, beyond it neither does."""
    cost = found[None, "rdp-direct"].measures["cost"]
    if cost is None:
        least = {method: min(_value(found, epsilon, method) for epsilon in prices) for method in _TEMPERED}
        return Claim(
            SOURCE,
            f"{at}, beyond lambda*: the divergences of Algorithms 2 and 3 are bounded away from zero.",
            min(least.values()) > _NEAR,
            f"least divergence {', '.join(f'`{method}` {value:.4f}' for method, value in least.items())}, at epsilon "
            f"{prices[-1]}; the true posterior costs infinitely much",
        )
    beyond = [epsilon for epsilon in prices if float(epsilon) >= cost]
    short = [epsilon for epsilon in prices if float(epsilon) < cost]
    if not beyond or not short:
        return None
    most = max(_value(found, epsilon, method) for epsilon in beyond for method in _TEMPERED)
    before = min(_value(found, short[-1], method) for method in _TEMPERED)
    return Claim(
        SOURCE,
        f"{at}, below lambda*: Algorithms 2 and 3 reach divergence zero once direct sampling is possible.",
        most <= _ZERO < before,
        f"direct sampling costs {cost:.6f}; divergence {most:.1g} from epsilon {beyond[0]} on, at least {before:.2g} "
        f"at {short[-1]}",
    )


def _prior(at: str, name: str, study: RenyiUtilityStudy, prices: list[str], found: _Found) -> Claim:
    """At the smallest price the diffuse posterior is the prior, the concentrated one a point."""
    case = study.cases[name]
    posterior = case.alpha + case.successes, case.beta + case.n - case.successes
    to_prior = beta_divergence(*posterior, case.alpha, case.beta)
    diffuse, concentrated = (_value(found, prices[0], method) for method in _TEMPERED)
    return Claim(
        SOURCE,
        f"{at}: as epsilon falls Algorithm 2 degrades to the prior, with a modest divergence, and Algorithm 3 "
        "approaches a point, which is penalized heavily.",
        abs(diffuse - to_prior) <= 0.05 * to_prior and concentrated > 2.0 * diffuse,
        f"divergence at epsilon {prices[0]}: {diffuse:.3f} (the prior {to_prior:.3f}) and {concentrated:.3f}",
    )


def _mode(at: str, prices: list[str], found: _Found) -> Claim:
    """Held-out records under a point at the prior's mode, or under a draw of the prior."""
    diffuse, concentrated = (_value(found, prices[0], method, "nll") for method in _TEMPERED)
    return Claim(
        SOURCE,
        f"{at}: held-out records favour Algorithm 3, which degrades only to the likelihood under the prior's mode.",
        concentrated < diffuse,
        f"negative log-likelihood at epsilon {prices[0]}: {concentrated:.2f} against {diffuse:.2f} of Algorithm 2",
    )


def _truth(at: str, prices: list[str], found: _Found) -> Claim:
    """The Gaussian mechanism always adds noise, and ever less."""
    gaussian = [_value(found, epsilon, "gaussian-paper") for epsilon in prices]
    tempered = min(_value(found, prices[-1], method) for method in _TEMPERED)
    return Claim(
        SOURCE,
        f"{at}: the Gaussian mechanism always adds noise and approaches the truth as epsilon grows.",
        0.0 < gaussian[-1] < _NEAR and gaussian[-1] < gaussian[0],
        f"divergence {gaussian[0]:.3f} at epsilon {prices[0]}, {gaussian[-1]:.2g} at {prices[-1]}, where the better of "
        f"Algorithms 2 and 3 has {tempered:.2g}",
        "Noise on integers is zero with a probability that goes to one, where the paper's is never zero.",
    )


def _below(at: str, what: str, first: str, second: str, prices: list[str], found: _Found, why: str = "") -> Claim:
    """Whether one method's divergence is nowhere larger than another's."""
    pairs = {epsilon: (_value(found, epsilon, first), _value(found, epsilon, second)) for epsilon in prices}
    against = [epsilon for epsilon, (less, more) in pairs.items() if less > more + _ZERO]
    shown = max(pairs, key=lambda epsilon: pairs[epsilon][1] - pairs[epsilon][0])
    less, more = pairs[shown]
    where = f" ({', '.join(against)})" if against else ""
    return Claim(
        OURS,
        f"{at}: {what} a smaller divergence: `{first}` against `{second}`.",
        not against,
        f"largest gain {more - less:.3f} at epsilon {shown} ({less:.3f} against {more:.3f}); larger at {len(against)} "
        f"of {len(prices)} prices{where}",
        why if against else "",
    )
