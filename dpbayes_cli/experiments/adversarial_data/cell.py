"""One path of a study of adversarial data: records are added greedily, and the loss on each data set is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from dpbayes_cli import __version__
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.adversarial_data.study import AdversarialStudy, AdversaryCase
from dpbayes_cli.experiments.cell import Cell, CellOutcome
from dpbayes_cli.experiments.coin import COMPLETE
from dpbayes_cli.mechanisms.ops import Ops, OpsRangeOptions
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler
from dpbayes_cli.privacy.conversions import bounded_range_rdp

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.core.plan import Step

_WHOLE = Decimal(1000)
"""So large an epsilon leaves the posterior untempered."""
_ORDER = 2.0


@dataclass(frozen=True)
class AdversaryCell(Cell):
    """One case.

    Attributes:
        name: the case's name, which changes no number.
        case: the case in full.
        trials: how many records are added.
        seed: of no effect.
    """

    name: str
    case: AdversaryCase
    trials: int
    seed: int = 0

    @property
    def label(self) -> str:
        """The cell in one line, for people."""
        return f"{self.name}, {self.trials} records"

    @property
    def data(self) -> dict[str, Any]:
        """The prior and the truncation."""
        return msgspec.to_builtins(self.case)  # type: ignore[no-any-return]

    @property
    def definition(self) -> dict[str, Any]:
        """Everything that the cell's numbers depend on; see ``Cell.definition``."""
        return {**self.data, "version": __version__, "study": "adversarial-data", "n": self.trials}

    def step(self, n_records: int) -> Step:
        """Return the step that draws once from the truncated posterior, with its price.

        Raises:
            SpecError: the support is not within the parameter's range.
        """
        options = OpsRangeOptions(epsilon=_WHOLE, support=self.case.support)
        (step,) = Ops().plan(self.case.model, COMPLETE, options, n_records).steps
        return step


def follow_adversary(cell: AdversaryCell) -> CellOutcome:
    """Follow the adversary of a cell: records are added one by one, each where one draw then loses the most."""
    step = cell.step(cell.trials)
    sampler = require_type(step.law, ScalarSampler)
    successes, path = 0, []
    for n in range(1, cell.trials + 1):
        at = replace(sampler, n_records=n)
        options = {s: local_loss(at, s) for s in (successes, successes + 1)}
        successes = max(options, key=lambda s: (options[s][0], s))
        path.append((successes, *options[successes]))
    chosen, losses, divergences = np.array(path, dtype=np.float64).T
    return CellOutcome(
        {
            "worst_case": float(step.guarantee.epsilon),
            "reached": float(losses[-1]),
            "share": float(losses[-1] / float(step.guarantee.epsilon)),
            "divergence": float(divergences[-1]),
            "largest_divergence": float(step.guarantee.rdp(Decimal(2))),
            "divergence_by_range": bounded_range_rdp(float(step.guarantee.epsilon), _ORDER),
        },
        {"successes": chosen, "local_epsilon": losses, "local_divergence": divergences},
    )


def local_loss(sampler: ScalarSampler, successes: int) -> tuple[float, float]:
    """Return what one draw loses on one data set: the largest log ratio to a neighbor, and the divergence of order 2.

    Args:
        sampler: the law of a draw, which knows the number of records.
        successes: of the data set.
    """
    own = _log_masses(sampler, successes)
    loss = divergence = 0.0
    for other in (successes - 1, successes + 1):
        if 0 <= other <= sampler.n_records:
            ratio = own - _log_masses(sampler, other)
            loss = max(loss, float(np.abs(ratio).max()))
            for direction, law in ((ratio, own), (-ratio, own - ratio)):
                total = np.exp(law + (_ORDER - 1.0) * direction).sum()
                divergence = max(divergence, float(np.log(total)) / (_ORDER - 1.0))
    return loss, divergence


def _log_masses(sampler: ScalarSampler, successes: int) -> Floats:
    logs = sampler.logs((successes,))
    largest = logs.max()
    return np.asarray(logs - largest - np.log(np.exp(logs - largest).sum()))


def cells(study: AdversarialStudy) -> list[AdversaryCell]:
    """Return the cells in the order of the file."""
    return [AdversaryCell(name, case, study.n) for name, case in study.cases.items()]
