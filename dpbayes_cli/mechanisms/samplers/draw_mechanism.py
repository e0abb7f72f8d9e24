"""The base of the mechanisms that release draws of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dpbayes_cli.core.design import DesignMatrix
from dpbayes_cli.core.langevin import Langevin
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.released import Draws
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence


class DrawMechanism(Mechanism):
    """A mechanism that releases the planned draws, whose prior is part of the request."""

    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {"privacy": {"epsilon": "1"}, "sampling": {"draws": 3}}
    needs_n: ClassVar[bool] = True
    post_processing: ClassVar[bool] = False

    def release(self, plan: Plan, evidence: ExactEvidence) -> Draws:
        """Draw from the planned law, or run the planned Langevin chains and keep their last iterates.

        Privacy: the guarantee of the plan; only the draws are returned.
        Source: see the class, and ``Langevin``.
        """
        (step,) = plan.steps
        if not isinstance(step.law, Langevin):
            return step.drawn(evidence)
        drawn = step.law.draw(require_type(evidence.design, DesignMatrix), step.draws)
        return Draws(tuple(tuple(point) for point in drawn.tolist()))
