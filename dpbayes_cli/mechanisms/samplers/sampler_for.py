"""Exact draws of all parameters from a tempered posterior: each draw is one private choice of a planned range."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.model import BoundedStatistics, Model
from dpbayes_cli.core.plan import Sampler
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import Statistic
from dpbayes_cli.mechanisms.samplers.dag_sampler import shares_or_tables
from dpbayes_cli.mechanisms.samplers.linear_regression_sampler import described, line_posterior
from dpbayes_cli.mechanisms.samplers.scalar_sampler import exact_curve, grid_posterior
from dpbayes_cli.mechanisms.samplers.simplex_sampler import SimplexSampler, cover_of
from dpbayes_cli.mechanisms.samplers.tempering import Drawing, Tempering, tempered
from dpbayes_cli.models.families.capabilities import DirichletProbabilities, NormalRegression, OneParameterFamily
from dpbayes_cli.privacy.lattice import LATTICE_SLACK


def takes_support(model: type[Model]) -> bool:
    """Return whether one public range holds the parameter; the tables of a network have one each, of their own."""
    return issubclass(model, OneParameterFamily | DirichletProbabilities | NormalRegression)


@dataclass(frozen=True)
class ExactSampler:
    """Exact draws from a tempered posterior, found for a price.

    Attributes:
        statistic: what is read from the data.
        sampler: the law of a draw.
        charged: the ranges of all draws together.
        curve: Renyi divergences of all draws together that are known to be smaller, by their orders.
        parameters: what is public about the law.
    """

    statistic: Statistic
    sampler: Sampler
    charged: Decimal
    curve: tuple[tuple[Decimal, Decimal], ...]
    parameters: dict[str, Any]


def exact_posterior(model: Model, policy: RecordPolicy, asked: Drawing) -> ExactSampler:
    """Return what draws as often as asked.

    Privacy: ``charged`` bounds the ranges of the drawing code; see ``ScalarSampler``, ``SimplexSampler``,
        ``DagSampler`` and ``LinearRegressionSampler``.
    Source: Wang, Fienberg and Smola 2015.

    Raises:
        SpecError: the support is missing or wrong, or no guarantee can be given.
    """
    parameters: dict[str, Any]
    sampler: Sampler
    points: tuple[tuple[Decimal, Decimal], ...] = ()
    if isinstance(model, OneParameterFamily):
        sampler, found = grid_posterior(model, asked, Decimal(1))
        points = tuple((order, value * asked.draws) for order, value in exact_curve(sampler))
        charged = found.charged
        parameters = {**found.described(asked), "support": list(sampler.support)}
    elif isinstance(model, NormalRegression):
        sampler, found = line_posterior(model, asked)
        charged, parameters = found.charged, described(sampler, found, asked)
    else:
        sampler, charged, parameters = shares_or_tables(model, asked, _row)
    statistic = require_type(model, BoundedStatistics).statistic(policy)
    return ExactSampler(statistic, sampler, charged, points, parameters)


def _row(
    concentration: tuple[float, ...], asked: Drawing, touched: Decimal
) -> tuple[Sampler, Tempering, dict[str, Any]]:
    """Return the sampler of one vector of shares, its price, and its cover."""
    cover = cover_of(len(concentration), asked.support, asked.n_records)
    found = tempered(asked, cover.spread, LATTICE_SLACK * touched, Decimal(1))
    return (
        SimplexSampler(cover, concentration, found.likelihood_power, asked.power_applies_to),
        found,
        cover.described(),
    )
