"""Simulated releases of counts of groups, and what their reported posteriors say about what generated the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.groups import size_law
from dpbayes_cli.inference.groups.infer_groups import infer_groups
from tests.inference.groups.group_cells import simulate_groups

if TYPE_CHECKING:
    import pytest

    from dpbayes_cli.base.numeric import Floats

KEPT = 0.8
"""The share of the records that is kept, if some are dropped."""
LOG_MEAN_SD, LOG_SHAPE = 0.5, (float(np.log(1.5)), 0.7)
"""The prior of the law of the sizes in the studies: see ``Cell.with_its_prior``."""
HYPERPARAMETER_DRAWS, THETA_DRAWS = 99, 19


@dataclass(frozen=True)
class Cell:
    """A kind of release to study.

    Attributes:
        size: the typical mean number of records of a group.
        epsilon: the epsilon of the release.
        sensitivity: 2 with replace-one neighbors, 1 with add-remove ones.
        drops: whether a part of the records is invalid, and is dropped.
    """

    size: float
    epsilon: float
    sensitivity: int
    drops: bool = False

    @property
    def kept(self) -> float:
        return KEPT if self.drops else 1.0

    def with_its_prior(self, monkeypatch: pytest.MonkeyPatch) -> Cell:
        """Make inference use the prior from which the study draws the mean and the shape of the sizes."""
        monkeypatch.setattr(size_law, "_LOG_MEAN", (float(np.log(self.size * self.kept)), LOG_MEAN_SD))
        monkeypatch.setattr(size_law, "_LOG_SHAPE", LOG_SHAPE)
        return self


@dataclass(frozen=True, eq=False)
class Study:
    """What posteriors say about what generated the data; one row for each simulated release.

    Attributes:
        ranks: ranks of the truth among posterior draws, scaled to (0, 1), of the mean and the sd over groups, of the
            mean number of records, and of the first group's probability.
        below: the share of the groups with probabilities up to the reported 5 %, 50 % and 95 % quantiles.
        covered: the share of the groups whose reported 90 % interval contains the probability.
        sizes_covered: the share of the groups whose reported 90 % interval contains the number of records.
    """

    ranks: Floats
    below: Floats
    covered: Floats
    sizes_covered: Floats


def rank(draws: Floats, truth: float, rng: np.random.Generator) -> float:
    """Return the rank of the truth as a number in [0, 1]; ties are broken at random."""
    ties = float((draws == truth).sum()) + 1.0
    return (float((draws < truth).sum()) + float(rng.random()) * ties) / (len(draws) + 1)


def study(cell: Cell, repeats: int, seed: int, n_groups: int = 200, n_categories: int = 2) -> Study:
    """Draw all hyperparameters from their priors, then groups, records and noise, and infer, ``repeats`` times."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[list[float], Floats, float, float]] = []
    for _ in range(repeats):
        mean = cell.size * np.exp(LOG_MEAN_SD * rng.standard_normal())
        shape = np.exp(rng.normal(*LOG_SHAPE))
        scale = cell.sensitivity / cell.epsilon
        truth = simulate_groups(n_groups, mean, scale, rng, n_categories=n_categories, shape=shape, kept=cell.kept)
        posterior = infer_groups(truth.observation, "partial", HYPERPARAMETER_DRAWS, rng)
        phi, theta = float(truth.phi[0]), truth.theta[:, 0]
        spread = float(np.sqrt(phi * (1.0 - phi) / (1.0 + truth.kappa)))
        columns = 0, posterior.means.shape[1], -1
        values = phi, spread, mean * cell.kept
        ranks = [rank(posterior.draws[:, k], value, rng) for k, value in zip(columns, values, strict=True)]
        ranks.append(rank(posterior.draw(THETA_DRAWS, rng)[:, 0, 0], float(theta[0]), rng))
        quantiles, sizes = posterior.quantiles[:, 0], posterior.sizes
        below = (theta[:, None] <= quantiles).mean(axis=0)
        covered = (quantiles[:, 0] <= theta) & (theta <= quantiles[:, 2])
        counted = (sizes[:, 1] <= truth.sizes) & (truth.sizes <= sizes[:, 2])
        rows.append((ranks, below, float(covered.mean()), float(counted.mean())))
    return Study(*(np.array(each) for each in zip(*rows, strict=True)))
