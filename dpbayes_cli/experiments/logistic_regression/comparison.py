"""Which method is better at which price, in trials that both saw."""

from __future__ import annotations

from dataclasses import dataclass

from dpbayes_cli.experiments.logistic_regression.cell import LogisticCell
from dpbayes_cli.experiments.logistic_regression.study import Method
from dpbayes_cli.experiments.means import mean_difference
from dpbayes_cli.experiments.tables import Results
from dpbayes_cli.mechanisms.samplers.langevin_calibration import UNTEMPERED

CLEAR = 2.0
"""A difference of so many standard errors is called one: of twenty comparisons of equals one errs."""

PAIRS: tuple[tuple[Method, Method], ...] = (
    ("rdp-diffuse", "rdp-concentrated"),
    ("rdp-diffuse", "ops"),
    ("rdp-concentrated", "ops"),
    ("gdp-langevin", "rdp-diffuse"),
    ("gdp-langevin", "minami-langevin"),
)
"""What is compared: the first is expected to be better, or as good."""


@dataclass(frozen=True)
class MethodDifference:
    """How two methods differ at one price.

    Attributes:
        epsilon: the price.
        same_law: whether both draw from one law there.
        error, error_se: the mean of the first's test error less the second's, with its standard error.
        nll, nll_se: the same of the mean negative log-likelihood.
        gain: the first's temperature over the second's.
        whole: whether both have the temperature of the true posterior.
    """

    epsilon: str
    same_law: bool
    error: float
    error_se: float
    nll: float
    nll_se: float
    gain: float
    whole: bool = False

    def sign(self, measure: str) -> int:
        """Return -1 where the first is clearly lower, 1 where it is clearly higher, otherwise 0."""
        value, error = getattr(self, measure), getattr(self, f"{measure}_se")
        if self.same_law or abs(value) <= CLEAR * error:
            return 0
        return -1 if value < 0.0 else 1


def families(own: Results[LogisticCell]) -> list[str]:
    """Return the families of prices of a case, in their order."""
    return list(dict.fromkeys(cell.price.family for cell, _ in own if cell.price is not None))


def differences(own: Results[LogisticCell], family: str, first: Method, second: Method) -> list[MethodDifference]:
    """Return how two methods differ, at each price of a family that both have."""
    found = {
        (cell.price.epsilon, cell.method): (cell, result)
        for cell, result in own
        if cell.price is not None and cell.price.family == family
    }
    prices = list(dict.fromkeys(epsilon for epsilon, _ in found))
    made = []
    for epsilon in prices:
        pair = [found.get((epsilon, method)) for method in (first, second)]
        if pair[0] is None or pair[1] is None:
            continue
        (a, of_a), (b, of_b) = pair[0], pair[1]
        error, nll = (mean_difference(of_a.trials[name], of_b.trials[name]) for name in ("error", "nll"))
        whole = a.law.rho == b.law.rho == UNTEMPERED and a.law.tau == b.law.tau
        made.append(MethodDifference(epsilon, a.law == b.law, *error, *nll, a.law.rho / b.law.rho, whole))
    return made
