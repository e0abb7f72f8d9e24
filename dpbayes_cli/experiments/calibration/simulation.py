"""Simulate one cell: parameters from the prior, records, releases, posteriors, and what is measured on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.core.columns import NumericColumn, RecordPolicy
from dpbayes_cli.core.model import Model, NoisyStatistics
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.calibration.cell import CalibrationCell
from dpbayes_cli.experiments.calibration.measures import measure
from dpbayes_cli.experiments.calibration.study import parameter_of
from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.discrepancy import squared_mmds
from dpbayes_cli.experiments.posteriors import ranks_among, ranks_of
from dpbayes_cli.mechanisms.samplers.simulated_draws import simulate_conjugate, simulate_sampler
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.release_spec import build_spec

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.posterior import Method as Inference
    from dpbayes_cli.models.families.capabilities import ConjugatePosterior


@dataclass(frozen=True)
class Simulated:
    """The trials of a cell before anything is made of them.

    Attributes:
        thetas: the true parameters, shape (n_trials, n_parameters).
        values: the exact statistics, shape (n_trials, n_components).
        released: the same with noise.
        reference: draws from the non-private posteriors, shape (n_trials, n_draws, n_parameters); None where neither
            the method nor the distance needs them.
    """

    thetas: Floats
    values: Integers
    released: Integers
    reference: Floats | None


def simulate_cell(cell: CalibrationCell) -> CellOutcome:
    """Run all trials of a cell; equal cells give equal numbers, in any process.

    Raises:
        SpecError: no release can be planned, or the case's domains do not belong together.
    """
    model = model_of(cell, cell.case.domain)
    trials = simulate(cell, model)
    rng = np.random.default_rng(cell.inference_seed())
    ranks, draws = _METHODS[cell.method](cell, model, trials, rng)
    name = parameter_of(cell.case)
    k = model.parameters.index(name)
    distances = None
    if cell.mmd and trials.reference is not None:
        distances = squared_mmds(draws, trials.reference)
    measures = measure(ranks[:, k], draws[:, :, k].std(axis=1, ddof=1), distances)
    return CellOutcome(asdict(measures), {"theta": trials.thetas[:, k], "rank": ranks[:, k]})


def model_of(cell: CalibrationCell, domain: Any) -> ConjugatePosterior:
    """Return the cell's model on a domain."""
    model: Model = build_spec({"model": cell.case.model, "domain": domain, "prior": cell.case.prior}).build_model()
    return cast("ConjugatePosterior", model)


def complete_policy(model: Model) -> RecordPolicy:
    """Return replace-one neighbors and complete records: any value of the domain stands for an invalid one."""
    column = model.columns[0]
    if not isinstance(column, NumericColumn):
        return RecordPolicy(Neighbors.REPLACE_ONE, column.levels[-1])
    return RecordPolicy(Neighbors.REPLACE_ONE, str(int(column.lower)) if column.integers else repr(column.lower))


def plan_of(cell: CalibrationCell, model: Model, mechanism: str) -> Plan:
    """Return the calibrated plan of a mechanism.

    Raises:
        SpecError: no guarantee can be given.
    """
    kind = mechanism_type(mechanism)
    asked: dict[str, Any] = {"epsilon": parse_decimal(cell.epsilon)}
    if mechanism == "ops":
        asked |= {"draws": cell.ops.draws, "power_applies_to": cell.ops.temper, "support": cell.case.support}
    elif cell.delta is not None:
        asked |= {"delta": parse_decimal(cell.delta)}
    read = kind.options_for(type(model))
    options = read(**{name: value for name, value in asked.items() if name in read.__struct_fields__})
    return kind().plan(model, complete_policy(model), options, cell.n_records)


def check_plans(grid: Sequence[CalibrationCell]) -> None:
    """Plan each case at each epsilon once, at its smallest n, so that what cannot be priced is refused at the start.

    Raises:
        SpecError: no guarantee can be given; the place is that in the study.
    """
    seen = set()
    for cell in sorted(grid, key=lambda each: each.n_records):
        mechanism = "ops" if cell.method == "ops" else cell.mechanism
        if (key := (cell.name, cell.epsilon, mechanism)) in seen:
            continue
        seen.add(key)
        try:
            plan_of(cell, model_of(cell, cell.case.domain), mechanism)
        except SpecError as error:
            of_support = error.where == "sampling.support"
            raise SpecError(
                f"{error.message.removeprefix(f'{error.where}: ')} ({mechanism}, epsilon {cell.epsilon})",
                where=f"cases.{cell.name}.support" if of_support else f"cases.{cell.name}",
                hint="state the public range of the parameter: support: [LOW, HIGH]" if of_support else error.hint,
            ) from None


def simulate(cell: CalibrationCell, model: ConjugatePosterior) -> Simulated:
    """Draw parameters, statistics, noise and non-private posteriors: the same for every method of the grid.

    Raises:
        SpecError: under the domain without clamping other parameters are drawn.
    """
    records, noise, reference = cell.data_seed().spawn(3)
    thetas, values = _prior_predictive(cell, model, records)
    (step,) = plan_of(cell, model, cell.mechanism).steps
    released = values + step.noise.simulate(np.random.default_rng(noise), values.shape)
    if not (cell.mmd or cell.method == "non-private"):
        return Simulated(thetas, values, released, None)
    wide, exact = model, values
    if cell.case.unclamped is not None:
        wide = model_of(cell, cell.case.unclamped)
        same, exact = _prior_predictive(cell, wide, records)
        if not np.array_equal(same, thetas):
            raise SpecError("draws other parameters than the domain", where=f"cases.{cell.name}.unclamped")
    return Simulated(thetas, values, released, _non_private(cell, wide, exact, np.random.default_rng(reference)))


def _prior_predictive(
    cell: CalibrationCell, model: ConjugatePosterior, seed: np.random.SeedSequence
) -> tuple[Floats, Integers]:
    """Return parameters and exact statistics: equal seeds draw equal records, whatever the bounds make of them."""
    rng = np.random.default_rng(seed)
    drawn = [model.simulate(cell.n_records, rng) for _ in range(cell.trials)]
    return np.array([theta for theta, _ in drawn]), np.array([value for _, value in drawn], dtype=np.int64)


def _non_private(
    cell: CalibrationCell, model: ConjugatePosterior, values: Integers, rng: np.random.Generator
) -> Floats:
    """Draw from the conjugate posteriors of the exact statistics."""
    family = model.family(cell.n_records)
    drawn = []
    for row in values.tolist():
        points = simulate_conjugate(family, model.sums(row, cell.n_records), cell.draws, rng)
        drawn.append([model.reported(tuple(point)) for point in points.tolist()])
    return np.array(drawn)


_Answer = tuple["Floats", "Floats"]


def _inferred(cell: CalibrationCell, model: ConjugatePosterior, trials: Simulated, rng: np.random.Generator) -> _Answer:
    """Infer from the noisy statistics."""
    noisy, policy = require_type(model, NoisyStatistics), complete_policy(model)
    (step,) = plan_of(cell, model, cell.mechanism).steps
    observations = [noisy.observation(policy, row, step.noise, cell.n_records) for row in trials.released.tolist()]
    method: Inference = "naive" if cell.method == "naive" else "noise-aware"
    return ranks_of(observations, trials.thetas, method, cell.draws, noisy.components, rng)


def _drawn(cell: CalibrationCell, model: ConjugatePosterior, trials: Simulated, rng: np.random.Generator) -> _Answer:
    """Draw what posterior sampling would release."""
    (step,) = plan_of(cell, model, "ops").steps
    sampler = step.sampler
    drawn = np.stack([simulate_sampler(sampler, row, cell.ops.draws, rng) for row in trials.values.tolist()])
    return ranks_among(trials.thetas, drawn, rng), drawn


def _known(cell: CalibrationCell, _: ConjugatePosterior, trials: Simulated, rng: np.random.Generator) -> _Answer:
    """Take the non-private posteriors, whose distance to themselves is zero."""
    if trials.reference is None:
        raise TypeError("the non-private posteriors were not drawn")
    return ranks_among(trials.thetas, trials.reference, rng), trials.reference


_METHODS: dict[str, Callable[[CalibrationCell, ConjugatePosterior, Simulated, np.random.Generator], _Answer]] = {
    "noise-aware": _inferred,
    "naive": _inferred,
    "ops": _drawn,
    "non-private": _known,
}
