"""Models whose records are one number each, between public bounds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, cast

from msgspec import Meta
from msgspec.structs import asdict

from dpbayes_cli.core.columns import NumericColumn, Outside, RecordPolicy
from dpbayes_cli.core.findings import Fact, Findings, with_numbers_above
from dpbayes_cli.core.inference_options import InferenceOptions, SumInference
from dpbayes_cli.core.model import NoisyStatistics
from dpbayes_cli.core.noisy_observation import GroupedSums, NoisySums, valid_count
from dpbayes_cli.core.record_law import RecordLaw
from dpbayes_cli.core.section import Section
from dpbayes_cli.core.statistic import Statistic, can_be_null, sum_statistic
from dpbayes_cli.core.statistic_values import evaluate
from dpbayes_cli.models.families.capabilities import ConjugatePosterior, OneParameterFamily, Simulated
from dpbayes_cli.models.families.grouped import Groupable
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.number_families import NumberFamily


_PRIOR_DRAWS = 1 << 14


def simulated_quantiles(law: RecordLaw, levels: Floats) -> Floats:
    """Return quantiles of a prior without closed form, from fixed draws, shape (n_parameters, n_levels)."""
    import numpy as np

    draws = law.parameters(law.draw_prior(_PRIOR_DRAWS, np.random.default_rng(0)))
    return np.asarray(np.quantile(draws, levels, axis=0).T)


class BoundedNumber(NoisyStatistics):
    """The capability of models whose records are one number each, between bounds that can be chosen privately.

    The names of the statistic's components do not depend on the bounds. Its sensitivity depends on them only if the
    numbers are whole numbers.
    """

    inference_options: ClassVar[type[InferenceOptions]] = SumInference
    bound_keys: ClassVar[tuple[str, ...]] = ("upper",)

    @property
    @abstractmethod
    def column(self) -> NumericColumn:
        """The column of numbers, with its public bounds and grid."""

    @abstractmethod
    def draw_records(self, n_records: int, rng: np.random.Generator) -> tuple[tuple[float, ...], Floats]:
        """Draw the reported parameters from the prior, and unclamped numbers, shape (n_records,)."""

    @property
    def columns(self) -> tuple[NumericColumn, ...]:
        return (self.column,)

    def simulated(self, policy: RecordPolicy, n_records: int, rng: np.random.Generator) -> Simulated:
        parameters, numbers = self.draw_records(n_records, rng)
        return parameters, evaluate(self.statistic(policy), self.columns, numbers[:, None])

    def simulated_histogram(
        self, column: NumericColumn, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], dict[int, int]]:
        import numpy as np

        parameters, numbers = self.draw_records(n_records, rng)
        codes, valid = column.codes(numbers)
        present, counts = np.unique(codes[valid > 0], return_counts=True)
        return parameters, dict(zip(present.tolist(), counts.tolist(), strict=True))


class ConjugateNumber(BoundedNumber, OneParameterFamily, ConjugatePosterior, Groupable):
    """The capability of models of one number per record whose conjugate update adds the sum of the numbers.

    Posterior draws treat clamped numbers as if they were the original numbers, so that the likelihood is conjugate. If
    many numbers are out of bounds, the draws are biased. The bias does not affect privacy, because every clamped number
    is between the public bounds.
    """

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model, whose fields have the names of the keys of the domain and the prior."""
        return cast(Self, cast(Any, cls)(**asdict(domain), **asdict(cls.complete_prior(domain, prior))))

    @property
    @abstractmethod
    def number_family(self) -> NumberFamily:
        """The law of a number before it is clamped or dropped, with the prior of its parameter."""

    def findings_of(self, fact: Fact, share_above: float) -> Findings:
        """Return a fact, what its interval assumes, and a warning if many numbers were clamped.

        Args:
            share_above: the estimated share of numbers above the upper bound, before they are clamped.
        """
        findings = Findings((fact,), note=self.law_note)
        is_dropped = self.column.outside == "drop"
        return findings if is_dropped else with_numbers_above(findings, share_above, self.column.upper)

    @abstractmethod
    def draw_numbers(self, parameter: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw unclamped numbers, shape (size,), for simulations."""

    def draw_outcomes(self, parameter: float, common: Sequence[float], size: int, rng: np.random.Generator) -> Floats:
        return self.draw_numbers(parameter, size, rng)

    @property
    def grid(self) -> tuple[Fraction, Fraction, int]:
        column = self.column
        lower = Fraction(column.lower)
        return lower, (Fraction(column.upper) - lower) / column.steps, column.steps

    def sums(self, values: Sequence[int], n_records: int) -> tuple[Fraction, ...]:
        """Return the sum of the numbers."""
        return (self.total(values, n_records),)

    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the sum of the codes; also the number of valid records, if that number is private.

        Privacy: see ``sum_statistic``: the L1 sensitivity is the number of grid steps, or twice this number if a record
            may be the null record.
        Source: derived here.
        """
        return sum_statistic(self.column, policy)

    def observation(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisySums:
        from dpbayes_cli.models.families.number_families import NumberLaw

        private = can_be_null(policy, self.column)
        total = valid_count(policy, n_records, self.column)
        inside = total.kind == "unbounded" and self.column.outside == "drop"
        law = NumberLaw(self.number_family, self.column, private, inside)
        return NoisySums(law, tuple(released), noise, total, self.column.steps if private else 0)

    def group_outcome(self) -> GroupedSums:
        from dpbayes_cli.models.families.number_families import NumberLaw

        inside = self.column.outside == "drop"
        law = NumberLaw(self.number_family, self.column, centered=True, inside=inside)
        return GroupedSums(law, self.column.steps)

    def draw_records(self, n_records: int, rng: np.random.Generator) -> tuple[tuple[float, ...], Floats]:
        family = self.number_family
        parameter = float(family.parameter(family.draw_prior(1, rng))[0])
        return (parameter,), self.draw_numbers(parameter, n_records, rng)


class WholeNumberDomain(Section, frozen=True, kw_only=True):
    """The public bound of the numbers."""

    upper: Annotated[int, Meta(ge=1, le=1_000_000, description="the upper bound of the numbers")]
    out_of_bounds: Annotated[Outside, Meta(description="clamp larger numbers to the bound, or drop the record")] = (
        "clamp"
    )


class WholeNumber(ConjugateNumber):
    """The capability of models whose records are one whole number each, from 0 to a public bound.

    Attributes:
        upper: the bound.
        out_of_bounds: whether larger numbers are clamped or dropped.
    """

    domain_type: ClassVar[type[Section]] = WholeNumberDomain
    first_spec: ClassVar[Mapping[str, str]] = {"upper": "100"}
    first_spec_drawn: ClassVar[Mapping[str, str]] = {"on_invalid": "impute:1"}
    whole_numbers: ClassVar[bool] = True

    upper: int
    out_of_bounds: Outside

    @property
    def column(self) -> NumericColumn:
        return NumericColumn("value", 0.0, float(self.upper), self.upper, integers=True, outside=self.out_of_bounds)
