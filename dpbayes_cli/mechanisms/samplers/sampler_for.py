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
from dpbayes_cli.mechanisms.samplers.dag_sampler import discrete_sampler
from dpbayes_cli.mechanisms.samplers.linear_regression_sampler import line_parameters, line_sampler
from dpbayes_cli.mechanisms.samplers.scalar_sampler import exact_curve, grid_sampler
from dpbayes_cli.mechanisms.samplers.simplex_sampler import SimplexSampler, simplex_cover
from dpbayes_cli.mechanisms.samplers.tempering import DrawRequest, Tempering, calibrate_power
from dpbayes_cli.models.families.capabilities import LinearPosterior, OneParameterFamily, SharesPosterior
from dpbayes_cli.privacy.lattice import LATTICE_SLACK


def takes_support(model: type[Model]) -> bool:
    """Return whether one public range holds the parameter; the tables of a network have one each, of their own."""
    return issubclass(model, OneParameterFamily | SharesPosterior | LinearPosterior)


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


def exact_sampler(model: Model, policy: RecordPolicy, asked: DrawRequest) -> ExactSampler:
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
        sampler, found = grid_sampler(model, asked, Decimal(1))
        points = tuple((order, value * asked.draws) for order, value in exact_curve(sampler))
        charged = found.charged
        parameters = {**found.plan_parameters(asked), "support": list(sampler.support)}
    elif isinstance(model, LinearPosterior):
        sampler, found = line_sampler(model, asked)
        charged, parameters = found.charged, line_parameters(sampler, found, asked)
    else:
        sampler, charged, parameters = discrete_sampler(model, asked, _row)
    statistic = require_type(model, BoundedStatistics).statistic(policy)
    return ExactSampler(statistic, sampler, charged, points, parameters)


def _row(
    concentration: tuple[float, ...], asked: DrawRequest, touched: Decimal
) -> tuple[Sampler, Tempering, dict[str, Any]]:
    """Return the sampler of one vector of shares, its price, and its cover."""
    cover = simplex_cover(len(concentration), asked.support, asked.n_records)
    found = calibrate_power(asked, cover.spread, LATTICE_SLACK * touched, Decimal(1))
    return (
        SimplexSampler(cover, concentration, found.likelihood_power, asked.power_applies_to),
        found,
        cover.plan_parameters(),
    )
