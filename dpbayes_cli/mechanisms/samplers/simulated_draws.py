"""Draws of the exact samplers, in floats from a seeded generator: for simulations only, never for a release.

An exact draw takes 0.1 to 0.5 s for the integer weights of one data set, which is too slow for hundreds of trials. Up
to rounding, draws here have the same law as exact draws: the same cells or lattice, and the same likelihood power. No
code that can read data imports this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpbayes_cli.base.numeric import Floats, normalize
from dpbayes_cli.core.plan import Sampler
from dpbayes_cli.inference.counts.integer_laws import Law, draw_given_totals, suffix_sums
from dpbayes_cli.mechanisms.samplers.renyi_posterior import ConjugateSampler
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler
from dpbayes_cli.mechanisms.samplers.simplex_sampler import SimplexSampler, centered_tables
from dpbayes_cli.privacy.conjugate import ConjugateFamily, DirichletFamily
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.real_conjugate import GammaRateFamily, GammaShapeFamily, NormalFamily


def simulate_sampler(sampler: Sampler, values: Sequence[int], size: int, rng: np.random.Generator) -> Floats:
    """Return reported parameters drawn from the law of a sampler, shape (size, n_parameters)."""
    if isinstance(sampler, ScalarSampler):
        return _draw_cells(sampler, values, size, rng)
    if isinstance(sampler, SimplexSampler):
        return _draw_points(sampler, values, size, rng)
    if isinstance(sampler, ConjugateSampler):
        model, n = sampler.model, sampler.n_records
        points = simulate_conjugate(model.family(n), model.sums(values, n), size, rng, sampler.r, sampler.m)
        return np.array([model.reported(tuple(point)) for point in points.tolist()])
    raise TypeError(f"no simulation of {type(sampler).__name__}")


def simulate_conjugate(
    family: ConjugateFamily,
    sums: Sequence[Fraction],
    size: int,
    rng: np.random.Generator,
    r: float = 1.0,
    m: float = 1.0,
) -> Floats:
    """Return points drawn from a conjugate posterior, one row each; see ``ConjugateFamily.draw``."""
    if isinstance(family, DirichletFamily):
        shape = [a / m + r * float(count) for a, count in zip(family.concentration, sums, strict=True)]
        return np.asarray(rng.dirichlet(shape, size))
    total = float(sums[0])
    if isinstance(family, GammaShapeFamily):
        drawn = rng.gamma(family.shape / m + r * total, 1.0 / (family.rate / m + r * family.n), size)
    elif isinstance(family, GammaRateFamily):
        drawn = rng.gamma(family.shape / m + r * family.n, 1.0 / (family.rate / m + r * total), size)
    elif isinstance(family, NormalFamily):
        drawn = rng.normal(*family.moments(sums, r, m), size)
    else:
        raise TypeError(f"draws of {type(family).__name__} cannot be simulated")
    return np.asarray(drawn)[:, None]


def _draw_cells(sampler: ScalarSampler, values: Sequence[int], size: int, rng: np.random.Generator) -> Floats:
    low, high = sampler.support
    width = (high - low) / sampler.n_cells
    cells = rng.choice(sampler.n_cells, size, p=normalize(sampler.logs(values)))
    return np.asarray(low + width * (cells + rng.random(size)))[:, None]


def _draw_points(sampler: SimplexSampler, values: Sequence[int], size: int, rng: np.random.Generator) -> Floats:
    cover = sampler.cover
    shares, tables = centered_tables(cover, list(map(float, sampler.exponents(values))))
    laws = [Law(0, table, 0.0) for table in tables]
    counts = draw_given_totals(laws, suffix_sums(laws, floor=0.0), np.full(size, len(shares) - 1), rng)
    return np.asarray((counts + cover.least) / cover.resolution)
