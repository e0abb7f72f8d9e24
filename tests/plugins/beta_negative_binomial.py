"""Beta-negative-binomial: the probability that an attempt succeeds, from the failures before several successes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta
from scipy.special import betainc, betaln, expit

from dpbayes_cli.base.numeric import LEAST_DIVISOR
from dpbayes_cli.core.columns import Outside
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section
from dpbayes_cli.models.families.beta_numbers import LogitOfBeta
from dpbayes_cli.models.families.beta_probability import BetaProbability, PriorFailures, PriorSuccesses
from dpbayes_cli.models.families.bounded_numbers import WholeNumber, WholeNumberDomain
from dpbayes_cli.models.families.capabilities import Arithmetic
from dpbayes_cli.models.families.number_families import LatticeFamily
from dpbayes_cli.privacy.real_conjugate import BetaFailuresFamily

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


class BetaNegativeBinomialDomain(WholeNumberDomain, frozen=True, kw_only=True):
    """The public bound of the failures, and the known number of successes."""

    successes: Annotated[
        int, Meta(ge=1, le=1000, description="the number of successes at which a record stops counting failures")
    ]


class BetaNegativeBinomialPrior(Section, frozen=True, kw_only=True):
    """Beta(alpha, beta) on the probability of success."""

    alpha: PriorSuccesses = 1.0
    beta: PriorFailures = 1.0


@dataclass(frozen=True)
class NegativeBinomialNumbers(LogitOfBeta, LatticeFamily):
    """Failures before the last of a known number of successes, with a Beta prior on the probability of success."""

    successes: int

    def coordinate_at(self, mean: float) -> float:
        """Return logit(p) for the mean successes * (1 - p) / p."""
        return math.log(self.successes / mean)

    def complete_data_sd(self, coordinate: Floats, n_records: Floats) -> Floats:
        """Return the sd of Beta(alpha + successes n, beta + n times the mean number of failures)."""
        waited = self.successes * n_records
        first, second = self.alpha + waited, self.beta + waited * np.exp(np.minimum(-coordinate, 300.0))
        total = first + second
        return np.asarray(np.sqrt(first / total * (second / total) / (total + 1.0)))

    def draw_conjugate(self, total: float, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw from Beta(alpha + successes n, beta + total)."""
        return rng.beta(self.alpha + self.successes * n_records, self.beta + total, size)

    def log_pmf(self, coordinate: Floats, numbers: Floats) -> Floats:
        ways = -betaln(self.successes, numbers + 1.0) - np.log(self.successes + numbers)
        succeeding, failing = -np.logaddexp(0.0, -coordinate), -np.logaddexp(0.0, coordinate)
        return np.asarray(ways + self.successes * succeeding + numbers * failing)

    def survival(self, coordinate: Floats, number: float) -> Floats:
        return np.asarray(betainc(np.floor(number) + 1.0, self.successes, expit(-coordinate)))

    def reach(self, coordinate: Floats) -> tuple[Floats, Floats]:
        """Return ends, outside below 1e-15, by Chernoff: P(X >= k) <= 2^successes (1 - theta)^(k / 2)."""
        far = 2.0 * (36.0 + self.successes * np.log(2.0)) / np.maximum(np.logaddexp(0.0, coordinate), 1e-300)
        return np.zeros_like(coordinate), far


@dataclass(frozen=True)
class BetaNegativeBinomial(WholeNumber, BetaProbability):
    """theta ~ Beta(alpha, beta); each record is the number of failures before the last success, clamped.

    The conjugate update adds the number of successes of all records to alpha and the sum of the failures to beta.
    """

    name: ClassVar[str] = "beta-negative-binomial"
    summary: ClassVar[str] = "probability of success from the failures before several successes, Beta prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy sum of the failures, clamped to a public bound, or draws of the probability of success.",
        guarantee="The guarantee of the mechanism. One record moves the sum by at most the public bound.",
        assumptions="Each record holds one whole number, the failures before a known, public number of successes.",
        source="Bernstein and Sheldon 2018, sec. 3.3; Geumlek, Song and Chaudhuri 2017, sec. 3.",
        corrections="As for beta-geometric, which is this model with one success.",
        prefer_when="You count how many tries it takes until a quota is full.",
    )
    domain_type: ClassVar[type[Section]] = BetaNegativeBinomialDomain
    prior_type: ClassVar[type[Section]] = BetaNegativeBinomialPrior
    examples: ClassVar[tuple[Example, ...]] = (
        Example({"upper": 4, "successes": 3}, {"alpha": 2.0, "beta": 3.0}),
        Example({"upper": 2, "successes": 2, "out_of_bounds": "drop"}, drawn=False),
    )
    first_spec: ClassVar[Mapping[str, str]] = {"upper": "100", "successes": "3"}

    upper: int
    successes: int
    alpha: float
    beta: float
    out_of_bounds: Outside = "clamp"

    @property
    def number_family(self) -> NegativeBinomialNumbers:
        return NegativeBinomialNumbers(self.alpha, self.beta, self.successes)

    def draw_numbers(self, parameter: float, size: int, rng: np.random.Generator) -> Floats:
        return rng.negative_binomial(self.successes, max(parameter, 1e-15), size).astype(float)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the mean number of failures at the posterior mean of the probability."""
        return {"mean": self.successes * (1.0 - mean[0]) / max(mean[0], LEAST_DIVISOR)}

    def natural(self, theta: Any, arithmetic: Arithmetic) -> tuple[Any, Any]:
        """Return log(1 - theta) and successes log theta: the log likelihood is their sum with sum x and n."""
        return arithmetic.log(1 - theta), self.successes * arithmetic.log(theta)

    def family(self, n_records: int) -> BetaFailuresFamily:
        """Return the family of Beta posteriors; the data change the second shape."""
        return BetaFailuresFamily(self.alpha, self.beta, float(self.successes), float(self.upper), n_records)
