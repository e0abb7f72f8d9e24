"""The interface of mechanisms: the options that they read, a plan made without data, and a release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.model import BoundedStatistics, MethodInfo, Model, NoisyStatistics
from dpbayes_cli.core.noisy_observation import NoisyObservation
from dpbayes_cli.core.options import Options
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.released import Draws, Payload
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence, Statistic, for_units
from dpbayes_cli.privacy.noise import NoiseLaw


class Mechanism(ABC):
    """A privacy mechanism: it prices a release request without data, then privatizes exact values from the data."""

    name: ClassVar[str]
    summary: ClassVar[str]
    info: ClassVar[MethodInfo]
    requires: ClassVar[tuple[type, ...]]
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {"privacy": {"epsilon": "1"}}
    """The options that tests of the mechanism state in each section of the spec, if the model supports them."""
    first_spec: ClassVar[Mapping[str, str]] = {"privacy.epsilon": "1"}
    """The values that ``spec init`` writes for the mechanism, one for each key of the spec."""
    options_type: ClassVar[type[Options]]
    """The options of the mechanism. A mechanism whose options depend on the model overrides ``options_for``."""
    needs_n: ClassVar[bool] = False
    """Whether the mechanism needs the public number of records."""
    post_processing: ClassVar[bool] = True
    """Whether prior and inference are applied after the noise, so that changing them costs no privacy."""
    estimates: ClassVar[bool] = False
    """Whether the draws are point estimates, whose spread says nothing about the width of a posterior."""

    @classmethod
    def options_for(cls, _model: type[Model]) -> type[Options]:
        """Return the type of the mechanism's options for a model."""
        return cls.options_type

    @classmethod
    def takes_private_trees(cls) -> bool:
        """Return whether the tree of a network may be chosen privately: the cost must not depend on the tree."""
        return cls.post_processing and cls.statistic is Mechanism.statistic  # the cost of the model's tables does not

    def statistic(self, model: Model, policy: RecordPolicy) -> Statistic:
        """Return the statistic that is read from the data."""
        return for_units(require_type(model, BoundedStatistics).statistic(policy), policy)

    def released_names(self, model: Model, policy: RecordPolicy, points: Sequence[Sequence[int]]) -> Sequence[str]:
        """Return the names of the released numbers; see ``observation`` for the points."""
        return self.statistic(model, policy).names

    def observation(
        self,
        model: Model,
        policy: RecordPolicy,
        released: Sequence[int],
        noise: NoiseLaw,
        n_records: int | None,
        points: Sequence[tuple[int, ...]] = (),
    ) -> NoisyObservation:
        """Return the noisy observation from which the posterior is inferred; see ``NoisyStatistics.observation``.

        Args:
            points: the public points of each round; empty if there are no rounds.
        """
        return require_type(model, NoisyStatistics).observation(policy, released, noise, n_records)

    @abstractmethod
    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        """Price a release without any data.

        Args:
            policy: the neighbor relation, and the treatment of invalid records.
            options: the options, of the type that ``options_for`` returns.
            n_records: the public number of records, or None if it is not known.

        Raises:
            SpecError: no guarantee can be given.
        """

    @abstractmethod
    def release(self, plan: Plan, evidence: ExactEvidence) -> Payload | Draws:
        """Privatize the exact values as planned; no other method of a mechanism draws secret randomness."""

    def release_often(self, plan: Plan, evidence: ExactEvidence, n_times: int) -> Sequence[Payload | Draws]:
        """Return several independent results of ``release``, for audits on made-up data."""
        return [self.release(plan, evidence) for _ in range(n_times)]
