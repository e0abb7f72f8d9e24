"""A random walk on a public grid of one parameter, by Barker's rule: each step is an exponential mechanism.

Metropolis' rule always accepts a better point: a rejection can have probability 0 under one data set but not under its
neighbor. Barker's rule accepts with probability p(proposed) / (p(proposed) + p(current)), which is never 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any

from dpbayes_cli.core.plan import Chain
from dpbayes_cli.core.released import Draws
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.mechanisms.samplers.gibbs_accounting import ChainCost, Stage, Update, powers, price_chain
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler, grid_sampler
from dpbayes_cli.mechanisms.samplers.tempering import UP, DrawRequest
from dpbayes_cli.models.families.capabilities import DECIMALS, OneParameterFamily
from dpbayes_cli.privacy.choices import public_generator
from dpbayes_cli.privacy.grid import EXACT, uniform_fraction
from dpbayes_cli.privacy.lattice import LATTICE_SLACK, WIDE, choose_index

DEFAULT_STEPS = 200
_MAX_CELLS = 1 << 12
"""The grid has at most this many cells, because the plan evaluates each cell in exact decimals."""


@dataclass(frozen=True)
class BarkerKernel(Chain):
    """A walk on a grid, from its middle, with a fixed number of steps and a public path.

    Privacy: a step proposes a cell by public random numbers, symmetrically, and chooses between the proposed and the
        current cell by their tempered posterior weights. Replacing a record changes the difference of the two log
        weights by at most T * width * |a(proposed) - a(current)|, where a(theta) is the natural parameter and ``width``
        the range of one record's statistic. The bounded range of a step is the largest of these products over all pairs
        of cells within ``reach``. The weights are decimals whose rounding adds less than ``LATTICE_SLACK``. A proposal
        off the grid is rejected publicly, without reading data.
    Source: Foulds et al. 2016, sec. 4.1 and supplement; Barker 1965.

    Attributes:
        posterior: the law that the walk leaves invariant; each stage of the walk sets its own likelihood power.
        stages: the likelihood power and the number of steps of each stage.
        reach: the largest distance from the current cell to a proposal, in cells.
    """

    posterior: ScalarSampler
    stages: tuple[Stage, ...]
    reach: int

    def run(self, evidence: ExactEvidence, size: int) -> Draws:
        """Return the last points of a walk; each is uniform in its cell."""
        rng, cell, path = public_generator(), self.posterior.n_cells // 2, []
        for stage in self.stages:
            score = lru_cache(None)(
                replace(self.posterior, likelihood_power=stage.likelihood_power).exact_log(evidence.values)
            )
            for _ in range(stage.sweeps):
                jump = int(rng.integers(1, self.reach + 1)) * (1 if rng.integers(2) else -1)
                if 0 <= cell + jump < self.posterior.n_cells:
                    cell = (cell, cell + jump)[choose_index(barker_weights(score(cell), score(cell + jump)))]
                path.append(cell)
        low, high = self.posterior.support
        width = (high - low) / self.posterior.n_cells
        return Draws(tuple((low + width * (cell + uniform_fraction()),) for cell in path[len(path) - size :]))


def barker_weights(current: Decimal, proposed: Decimal) -> Sequence[Decimal]:
    """Return the weights of staying and of moving, given the exact log weights of the two points."""
    largest = max(current, proposed)
    return [WIDE.exp(EXACT.subtract(score, largest)) for score in (current, proposed)]


def local_spread(posterior: ScalarSampler, reach: int) -> Decimal:
    """Return the bounded range of one step at likelihood power 1, rounded up.

    Privacy: the range is ``width`` times the largest |a(theta_i) - a(theta_j)| with |i - j| <= reach, see
        ``BarkerKernel``. As ``a`` is monotone, only pairs with |i - j| = reach matter.
    Source: see ``BarkerKernel``.
    """
    _, width, steps = posterior.model.grid
    low, high = map(Decimal, posterior.support)
    with localcontext(EXACT):
        cell = (high - low) / posterior.n_cells
        middles = (low + cell * (i + Decimal("0.5")) for i in range(posterior.n_cells))
        values = [posterior.model.natural(middle, DECIMALS)[0] for middle in middles]
        reach = min(reach, len(values) - 1)
        largest_change = max(abs(values[i + reach] - values[i]) for i in range(len(values) - reach))
        exact = largest_change * width.numerator * steps / width.denominator
    return UP.multiply(exact, Decimal(1) + Decimal("1e-25"))


def plan_walk(
    model: OneParameterFamily, request: DrawRequest, steps: int, *, annealed: bool
) -> tuple[BarkerKernel, ChainCost, Decimal]:
    """Return a planned walk, its cost, and the bounded range of a step at likelihood power 1.

    The reach is chosen so that a walk that accepts every proposal moves by half of the support (one standard
    deviation).
    """
    full_grid, _ = grid_sampler(model, replace(request, draws=1), Decimal(1))
    posterior = replace(full_grid, n_cells=min(full_grid.n_cells, _MAX_CELLS))
    reach = max(1, min(posterior.n_cells // 2, math.ceil(posterior.n_cells / 2.0 * math.sqrt(3.0 / steps))))
    spread = local_spread(posterior, reach)
    schedule = powers(steps, request.draws, annealed=annealed)
    cost = price_chain(request.epsilon, [Update("step", spread, LATTICE_SLACK)], schedule)
    return BarkerKernel(replace(posterior, likelihood_power=cost.likelihood_power), cost.stages, reach), cost, spread


def plan_parameters(walk: BarkerKernel, cost: ChainCost, spread: Decimal, kernel: str) -> dict[str, Any]:
    """Return the parameters that a plan states about a walk."""
    return {
        **cost.plan_parameters(kernel),
        "range": float(spread),
        "reach": walk.reach,
        "cells": walk.posterior.n_cells,
        "support": list(walk.posterior.support),
        "power_applies_to": walk.posterior.power_applies_to,
    }
