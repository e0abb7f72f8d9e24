"""The families of numbers with the priors that tests use, and their laws by SciPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpbayes_cli.core.columns import NumericColumn, RecordPolicy
from dpbayes_cli.core.noisy_observation import NoisySums
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.sums.one_parameter import grid_density
from dpbayes_cli.models.families.beta_numbers import GeometricNumbers
from dpbayes_cli.models.families.bounded_numbers import ConjugateNumber
from dpbayes_cli.models.families.gamma_numbers import ExponentialTimes, PoissonCounts
from dpbayes_cli.models.families.normal_numbers import NormalNumbers
from dpbayes_cli.models.families.number_families import NumberFamily, NumberLaw
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.neighbors import Neighbors

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

FAMILIES: dict[str, NumberFamily] = {
    "gamma-poisson": PoissonCounts(3.0, 1.5), "beta-geometric": GeometricNumbers(2.0, 3.0),
    "gamma-exponential": ExponentialTimes(3.0, 1.5), "normal-mean": NormalNumbers(0.4, 1.0, 0.7),
}  # fmt: skip
LEVELS = np.array([0.01, 0.3, 0.9])


def cdf(family: NumberFamily, parameters: Floats, numbers: Floats) -> Floats:
    """Return P(X <= number), shape (n_parameters, n_numbers), by SciPy's laws."""
    theta = parameters[:, None]
    if isinstance(family, PoissonCounts):
        return np.asarray(stats.poisson.cdf(numbers, theta))
    if isinstance(family, GeometricNumbers):
        return np.asarray(stats.geom.cdf(numbers + 1.0, theta))
    if isinstance(family, ExponentialTimes):
        return np.asarray(stats.expon.cdf(numbers, scale=1.0 / theta))
    assert isinstance(family, NormalNumbers)
    return np.asarray(stats.norm.cdf(numbers, theta, family.variance**0.5))


def code_masses(family: NumberFamily, column: NumericColumn, parameters: Floats) -> Floats:
    """Return the probabilities of the codes 0..steps of a clamped or dropped number, shape (n_parameters, steps + 1).

    Those of a dropped number add up to less than one.
    """
    edges = np.asarray(column.lower + column.step * (np.arange(column.steps) + 0.5), dtype=np.float64)
    masses = np.diff(cdf(family, parameters, edges), axis=1, prepend=0.0, append=1.0)
    if column.outside == "drop":
        ends = cdf(family, parameters, np.array([column.lower, column.upper]))
        if not family.lattice:
            masses[:, 0] -= ends[:, 0]
        masses[:, -1] -= 1.0 - ends[:, 1]
    return masses


def quantiles_without_noise(model: ConjugateNumber, sum_code: int, n_records: int) -> Floats:
    """Return the quantiles of the parameter at LEVELS, given the sum of n codes of complete records."""
    policy = RecordPolicy(Neighbors.REPLACE_ONE, "1")
    observation = require_type(model.observation(policy, (sum_code,), DiscreteLaplace(0.01), n_records), NoisySums)
    law = require_type(observation.law, NumberLaw)
    density = grid_density(observation, law, np.array([[sum_code]], dtype=float))
    return np.asarray(density.quantiles(LEVELS)[0])
