"""Models of groups: the records of each group follow one model, and the parameters of the groups have a common law."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from dpbayes_cli.core.columns import AnyColumn, Column, LargerGroups, NumericColumn, RecordPolicy
from dpbayes_cli.core.findings import Fact, Findings
from dpbayes_cli.core.inference_options import GroupInference, InferenceOptions
from dpbayes_cli.core.model import Model, NoisyStatistics
from dpbayes_cli.core.noisy_observation import GroupedCounts, GroupedMoments, GroupedSums, NoisyGroups
from dpbayes_cli.core.section import Section
from dpbayes_cli.core.statistic import FoundGroups, GroupNames, Statistic, SumsByGroup, TableCounts, Witness
from dpbayes_cli.models.families.capabilities import Simulated
from dpbayes_cli.privacy.key_threshold import KeyThreshold
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    from decimal import Decimal

    import numpy as np

    from dpbayes_cli.base.numeric import Floats

KEY, PARENT = "group", "larger group"
_CAPTION = "What the groups have in common; records is how many a group has on average"


class Groupable(NoisyStatistics):
    """The capability of models whose records may be divided into groups, with a parameter for each group."""

    has_groups: ClassVar[bool] = True
    has_linear_mean: ClassVar[bool] = True
    """Whether a record's mean is linear in the parameters. Otherwise the mean parameter of all groups does not give the
    mean of their records."""
    law_note: ClassVar[str] = ""
    """What intervals assume about how much the records vary; empty if the variance is estimated or is no assumption."""

    def grouped(
        self,
        key_column: str,
        value_column: str | None,
        keys: tuple[str, ...],
        key_delta: Decimal | None = None,
        parents: LargerGroups | None = None,
    ) -> Model:
        return GroupedModel(self, key_column, value_column, keys, key_delta, parents)

    @abstractmethod
    def group_outcome(self) -> GroupedCounts | GroupedSums | GroupedMoments:
        """Return what is observed of each record of a group, with the stated prior."""

    def parameters_by_group(self) -> tuple[str, ...]:
        """Return the names of the parameters that each group has; groups have all others in common."""
        return self.parameters

    def group_warning(self, estimates: Sequence[float]) -> str:
        """Return why the means of groups may be wrong, given the estimates of what the groups have in common."""
        return ""

    def group_facts(self, column: str, estimates: Sequence[float]) -> tuple[Fact, ...]:
        """Return the result for an average group, given the estimates of what the groups have in common."""
        return self.findings(column, estimates[: len(self.parameters)]).facts


@dataclass(frozen=True)
class GroupedModel(NoisyStatistics):
    """A model with one parameter, or one vector of probabilities, for each group of records.

    Attributes:
        base: the model of the records of one group.
        key_column: the name of the column that holds the keys.
        value_column: the name of the column that the model of a group reads; None if it is the only other column.
        keys: the public keys of the groups; or the published keys if the keys are found in the data, none before.
        key_delta: the delta of the keys that are found in the data; None if the keys are listed.
        parents: the larger groups that contain the groups; None if there are none.
    """

    inference_options: ClassVar[type[InferenceOptions]] = GroupInference  # type: ignore[assignment]
    not_simulated: ClassVar[str] = "A report does not simulate data sets with groups; `dpbayes plan` does."

    base: Groupable
    key_column: str
    value_column: str | None
    keys: tuple[str, ...]
    key_delta: Decimal | None = None
    parents: LargerGroups | None = None

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        raise TypeError("a model of groups is made from the model of a group")

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the model of a group."""
        return self.base.name

    @property
    def summary(self) -> str:  # type: ignore[override]
        """The summary of the model of a group."""
        return f"{self.base.summary}; for each {'key' if self.key_delta else f'of {len(self.keys):,} groups'}"

    @property
    def info(self):  # type: ignore[no-untyped-def, override]
        """The description of the model of a group."""
        return self.base.info

    @property
    def columns(self) -> tuple[AnyColumn, ...]:
        """The column of keys, that of larger groups if there are any, and the column that the model of a group reads.

        A record is in a group if it has the keys of the group and of the larger group.
        """
        if self.parents is None:
            return (Column(KEY, self.keys if self.key_delta is None else (), is_key=True), *self.base.columns)
        keys = Column(KEY, self.keys, is_key=True, within=self.parents.keys)
        return (keys, Column(PARENT, self.parents.names, is_key=True), *self.base.columns)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns; the last one is empty if it is the only other column."""
        between = () if self.parents is None else (self.parents.column,)
        return (self.key_column, *between, self.value_column or "")

    @property
    def sums_squares(self) -> bool:  # type: ignore[override]
        """Whether the statistic of a group holds the sum of squares."""
        return self.base.sums_squares

    @property
    def group_keys(self) -> tuple[str, ...]:
        return self.keys

    @property
    def group_parameters(self) -> tuple[str, ...]:
        return self.base.parameters_by_group()

    @property
    def parameters(self) -> tuple[str, ...]:
        """The mean and the standard deviations of each parameter over the groups, and the mean number of records.

        With larger groups, the standard deviations are those of groups in one larger group, and of the means of larger
        groups.
        """
        if self.base.sums_squares:
            return ("mean", "sd", "sd within", "records")
        between = ("sd of larger groups",) if self.parents is not None and self.parents.pooled else ()
        if len(self.group_parameters) == 1:
            return ("mean", "sd", *between, "records")
        return (*(f"{what} {name}" for what in ("mean", "sd", *between) for name in self.group_parameters), "records")

    @property
    def component_names(self) -> tuple[str, ...]:
        """The names of the components of one group's statistic."""
        values = self.base.columns[0]
        if not isinstance(values, NumericColumn):
            return tuple(values.levels)
        return ("sum", "square", "valid") if self.base.sums_squares else ("sum", "valid")

    def draw_outcomes(self, parameter: float, common: Sequence[float], size: int, rng: np.random.Generator) -> Floats:
        return self.base.draw_outcomes(parameter, common, size, rng)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the predictive law of a record of a new group; empty if the mean parameters do not give it."""
        if not self.base.has_linear_mean:
            return {}
        return self.base.predictive(mean[: len(self.group_parameters)])

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        """Return the result for an average group."""
        facts = self.base.group_facts(column or self.value_column or "", estimates)
        if not self.base.has_linear_mean:  # the mean of a convex function is not that function of the mean
            names = self.group_parameters
            facts = tuple(each if each.is_share else Fact(f"the {names[0]} is about", each.parameter) for each in facts)
        topic = f"on average over {len(self.keys):,} group{'s' * (len(self.keys) != 1)}"
        warning = self.base.group_warning(estimates)
        return Findings(tuple(facts), topic, warning or self.base.law_note, bool(warning), caption=_CAPTION)

    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the statistic of each group: counts of categories, or the sum and the number of records.

        Privacy: a record whose key is not listed, or whose value is invalid, contributes nothing; each other record
            contributes to one group. A count of categories: the contribution is a unit vector or zero, so that the L1
            change is at most 1 under add-remove and 2 under replace-one, attained by two categories or two groups. A
            sum: the contribution is (u, steps) with |u| <= steps, in one group, or zero. Its L1 norm is at most
            2 * steps, and its squared L2 norm 2 * steps^2, attained at a bound. Under replace-one, two groups change by
            these amounts. Within one group, the sum changes by at most 2 * steps if the number of records stays the
            same. With one group, the limits are those of ``sum_statistic``. If the keys are found in the data, these
            are the limits for the groups that both neighbors have; see ``KeyThreshold`` for all others. With squares, a
            record adds (2 v, v^2, 1) in one group, in units of steps^2 and with |v| <= 1, hence at most (2, 1, 1) in
            each component. Within one group, two records differ by (2 d, d s, 0) with d = v - w and |s| = |v + w| <= 2
            - |d|. The larger one of these is 2 |d| <= 4, and their sum at most 4 |d| - d^2 <= 4, so that (4, 0, 0)
            costs at least as much.
        Source: derived here.
        """
        add_remove, values = policy.neighbors is Neighbors.ADD_REMOVE, self.base.columns[0]
        keys = self.keys if self.key_delta is None else ("one key", "another key")
        several = len(keys) > 1
        first_key, other_key = (self._cells_of(keys, group) for group in (0, -1))
        names = GroupNames(self.keys, self.component_names)
        by_key = FoundGroups((KEY, values.role))
        if not isinstance(values, NumericColumn):
            table = TableCounts((KEY, values.role), (len(keys), len(values.levels)))
            first, second = values.levels[0], values.levels[1]
            witness = Witness((*first_key, first), None if add_remove else (*other_key, second))
            largest = 1 if add_remove else 2
            if self.key_delta is None:
                return Statistic(names, (table,), largest, witness, largest, largest_change=1)
            return Statistic(names, (by_key,), largest, witness, largest, largest_change=1, shifts=((1,) * largest,))
        steps = values.steps
        upper, lower = values.cell(1.0), values.cell(0.0)
        witness = Witness((*first_key, upper), None if add_remove else (*other_key, lower))
        if self.base.sums_squares:
            one, change = (2 * steps**2, steps**2, steps**2), 4 * steps**2
            shifts = (one,) if add_remove else ((change,), *([one + one] if several else []))
            apart = None if add_remove else Witness((*first_key, upper), (*first_key, lower))
            l1, squared = max(map(sum, shifts)), max(sum(x * x for x in shift) for shift in shifts)
            squares = SumsByGroup((KEY, values.role), len(keys), squares=True)
            largest = max(map(max, shifts))
            return Statistic(names, (squares,), l1, witness, squared, apart, largest_change=largest, shifts=shifts)
        l1 = 4 * steps if several and not add_remove else 2 * steps
        squared = 2 * steps**2 if add_remove else 4 * steps**2
        one_group, two_groups = (steps, steps), (steps,) * 4
        shifts = (one_group,) if add_remove else (one_group, (2 * steps,), *([two_groups] if several else []))
        sums = SumsByGroup((KEY, values.role), len(keys)) if self.key_delta is None else by_key
        largest = steps if add_remove else 2 * steps
        return Statistic(names, (sums,), l1, witness, squared, largest_change=largest, shifts=shifts)

    def _cells_of(self, keys: Sequence[str], group: int) -> tuple[str, ...]:
        return (keys[group],) if self.parents is None else (keys[group], self.parents.keys[group])

    def observation(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisyGroups:
        """Return the noisy statistics of the groups; their numbers of records are never known."""
        import numpy as np

        observed = np.array(released, dtype=np.int64).reshape(len(self.keys), len(self.component_names))
        larger = self.parents if self.parents is not None and self.parents.pooled else None
        parents = None if larger is None else np.array(larger.index, dtype=np.int64)
        return NoisyGroups(self.base.group_outcome(), observed, noise, self.key_threshold(noise, policy), parents)

    def key_threshold(self, noise: NoiseLaw, policy: RecordPolicy) -> KeyThreshold | None:
        """Return the rule for keys that are found in the data; the noisy counts of a group add up to its records."""
        if self.key_delta is None:
            return None
        values = self.base.columns[0]
        n_counts, step = (1, values.steps) if isinstance(values, NumericColumn) else (len(self.component_names), 1)
        return KeyThreshold.calibrate(noise, n_counts, step, policy.contributions, self.key_delta)

    def simulated(self, policy: RecordPolicy, n_records: int, rng: np.random.Generator) -> Simulated:
        raise TypeError(self.not_simulated)
