"""Beta-Bernoulli: the probability of a binary outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Meta

from dpbayes_cli.base.cell_grammar import check_levels
from dpbayes_cli.core.columns import Column, RecordPolicy
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.findings import Findings, share_of
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyCounts, record_count
from dpbayes_cli.core.section import Level, Section, require_type
from dpbayes_cli.core.statistic import CountAt, Statistic, Witness
from dpbayes_cli.models.families.beta_probability import BetaProbability, PriorFailures, PriorSuccesses
from dpbayes_cli.models.families.capabilities import Arithmetic, Simulated
from dpbayes_cli.models.families.grouped import Groupable
from dpbayes_cli.privacy.conjugate import DirichletFamily
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np

SUCCESS, FAILURE = 0, 1
_USUAL = (("1", "yes", "true", "y"), ("0", "no", "false", "n"))
"""The texts of a success and of a failure if the domain states none; see ``_CASES``."""
_CASES = (str, str.capitalize, str.upper)
"""The ways to write a usual text."""


class BetaBernoulliDomain(Section, frozen=True, kw_only=True):
    """The two texts that a valid cell may hold."""

    success: Annotated[Level | None, Meta(description="the text that counts as a success [1, yes, true, y]")] = None
    failure: Annotated[Level | None, Meta(description="the text that counts as a failure [0, no, false, n]")] = None

    def __post_init__(self) -> None:
        if (self.success is None) != (self.failure is None):
            raise ValueError(
                "state both success and failure, such as --success 2 --failure 1, or neither; by default they are 1 "
                "and 0, or yes and no; if the column has more than two texts, dirichlet-categorical gives the share of "
                "each"
            )
        check_levels(self.levels)

    @property
    def levels(self) -> tuple[str, str]:
        """The texts of a success and of a failure."""
        return (self.success or "1", self.failure or "0")


class BetaBernoulliPrior(Section, frozen=True, kw_only=True):
    """Beta(alpha, beta) on the probability of success."""

    alpha: PriorSuccesses = 1.0
    beta: PriorFailures = 1.0


@dataclass(frozen=True)
class BetaBernoulli(BetaProbability, Groupable):
    """theta ~ Beta(alpha, beta); each valid record is a success with probability theta.

    The conjugate update is Beta(alpha + successes, beta + failures); the posterior predictive probability of a
    success is the posterior mean of theta.

    Source: Foulds et al. 2016 sec. 3.2; Bernstein and Sheldon 2018 sec. 3.1.
    """

    name: ClassVar[str] = "beta-bernoulli"
    summary: ClassVar[str] = "probability of a binary outcome, Beta prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy number of successes; also the noisy number of failures, if the number of valid records is "
        "private. From the released numbers, inference computes the posterior of theta, the probability of success.",
        guarantee="The mechanism gives the guarantee. The L1 sensitivity is 1 for complete records under replace-one "
        "(one count), 2 for dropped records under replace-one (two counts), and 1 under add-remove (two counts).",
        assumptions="Each record holds one binary outcome. Records are independent given theta. The two valid texts "
        "are public. With impute:VALUE, an invalid cell counts as if it held VALUE; the custodian states that VALUE "
        "is a fair stand-in.",
        source="Foulds et al. 2016, sec. 3.2; Zhang, Rubinstein and Dimitrakakis 2016, Alg. 1; Bernstein and Sheldon "
        "2018, sec. 3 and Fig. 1 (binomial).",
        corrections="If n is public and records are complete, the statistic is one number with sensitivity 1, where "
        "the papers release a pair of counts with sensitivity 2. The smaller sensitivity halves the noise for the "
        "same epsilon. If invalid records are dropped, the number of valid records is private: both counts are "
        "released, and the posterior averages over that number.",
        prefer_when="You ask one yes/no question about each person.",
    )
    domain_type: ClassVar[type[Section]] = BetaBernoulliDomain
    prior_type: ClassVar[type[Section]] = BetaBernoulliPrior
    has_larger_groups: ClassVar[bool] = True
    suggested_for: ClassVar[str] = "two texts"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(prior={"alpha": 2.0, "beta": 3.0}),
        Example({"success": "yes", "failure": "no"}),
    )
    first_spec_drawn: ClassVar[Mapping[str, str]] = {"on_invalid": "impute:0"}
    components: ClassVar[tuple[int, ...]] = (SUCCESS,)
    grid: ClassVar[tuple[Fraction, Fraction, int]] = (Fraction(0), Fraction(1), 1)

    success: str
    failure: str
    alpha: float
    beta: float
    has_usual_texts: bool = False

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        texts, beta = require_type(domain, BetaBernoulliDomain), require_type(prior, BetaBernoulliPrior)
        return cls(*texts.levels, beta.alpha, beta.beta, texts.success is None)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The outcome column: level 0 is success, level 1 is failure."""
        words = [[form(word) for word in usual[1:] for form in _CASES] for usual in _USUAL]
        spellings = tuple(tuple(dict.fromkeys(each)) for each in words) if self.has_usual_texts else ()
        return (Column("outcome", (self.success, self.failure), spellings=spellings),)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the probabilities that a new valid record is a success or a failure."""
        return {self.success: mean[0], self.failure: 1.0 - mean[0]}

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        success = "1, yes or true" if self.has_usual_texts else self.success
        return Findings((share_of(column, success, 0),))

    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the number of successes; also the number of failures, unless it follows from the public record count.

        Privacy: let t(x) be the contribution of a record. Under replace-one with complete records, t(x) is 0 or 1, so
            that the statistic changes by at most 1. Under replace-one with dropped records, t(x) is (1, 0), (0, 1) or
            (0, 0), so that the L1 change is at most 2. A success replaced by a failure attains both bounds. Under
            add-remove, ||t(x)||_1 <= 1, attained by a success.
        Source: Foulds et al. 2016 and Zhang et al. 2016, corrected (one number, not a pair, if n is public).
        """
        successes, failures = CountAt("outcome", SUCCESS), CountAt("outcome", FAILURE)
        add_remove = policy.neighbors is Neighbors.ADD_REMOVE
        witness = Witness((self.success,), None if add_remove else (self.failure,))
        if policy.complete and not add_remove:
            return Statistic(("successes",), (successes,), 1, witness, 1, largest_change=1)
        l1, names = 1 if add_remove else 2, ("successes", "failures")
        return Statistic(names, (successes, failures), l1, witness, l1, largest_change=1)

    def natural(self, theta: Any, arithmetic: Arithmetic) -> tuple[Any, Any]:
        """Return the coefficients of the successes and of n in the log likelihood: logit(theta) and log(1 - theta)."""
        failing = arithmetic.log(1 - theta)
        return arithmetic.log(theta) - failing, failing

    def simulated(self, policy: RecordPolicy, n_records: int, rng: "np.random.Generator") -> Simulated:
        theta = float(rng.beta(self.alpha, self.beta))
        successes = int(rng.binomial(n_records, theta))
        return (theta,), (successes, n_records - successes)[: len(self.statistic(policy).names)]

    def family(self, n_records: int) -> DirichletFamily:
        return DirichletFamily((self.alpha, self.beta), n_records)

    def sums(self, values: Sequence[int], n_records: int) -> tuple[Fraction, ...]:
        """Return the numbers of successes and failures."""
        return (Fraction(values[0]), Fraction(n_records - values[0]))

    def reported(self, point: tuple[float, ...]) -> tuple[float, ...]:
        """Return the probability of success."""
        return point[:1]

    def group_outcome(self) -> GroupedCounts:
        return GroupedCounts((self.alpha, self.beta))

    def observation(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisyCounts:
        """Return the noisy counts of successes and failures; their total is known only for complete records."""
        total = record_count(policy, n_records)
        counts = (released[0], None) if total.kind == "known" else tuple(released)
        return NoisyCounts((self.alpha, self.beta), counts, noise, total)
