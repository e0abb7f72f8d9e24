"""The base class of mechanisms that release draws of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.released import Draws
from dpbayes_cli.core.statistic import ExactEvidence


class DrawMechanism(Mechanism):
    """A mechanism that releases draws of parameters; the prior is part of the request."""

    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {"privacy": {"epsilon": "1"}, "sampling": {"draws": 3}}
    needs_n: ClassVar[bool] = True
    post_processing: ClassVar[bool] = False

    def release(self, plan: Plan, evidence: ExactEvidence) -> Draws:
        """Draw from the planned law, or run the planned chains.

        Privacy: the guarantee of the plan; only the draws are returned.
        Source: see the class, and ``Langevin``.
        """
        (step,) = plan.steps
        return step.drawn(evidence)
