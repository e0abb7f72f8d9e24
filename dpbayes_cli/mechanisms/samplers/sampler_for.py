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
from dpbayes_cli.models.families.capabilities import DirichletProbabilities, NormalRegression, OneParameterFamily
from dpbayes_cli.privacy.lattice import LATTICE_SLACK


def takes_support(model: type[Model]) -> bool:
    """Return whether one public range holds the parameter; each table of a network has its own range."""
    return issubclass(model, OneParameterFamily | DirichletProbabilities | NormalRegression)


@dataclass(frozen=True)
class ExactSampler:
    """Exact draws from a tempered posterior, calibrated to a cost.

    Attributes:
        statistic: the statistic that is read from the data.
        sampler: the law of a draw.
        charged: the sum of the ranges of all draws.
        curve: known smaller Renyi divergences of all draws together, by order.
        parameters: the public parameters of the law.
    """

    statistic: Statistic
    sampler: Sampler
    charged: Decimal
    curve: tuple[tuple[Decimal, Decimal], ...]
    parameters: dict[str, Any]


def exact_sampler(model: Model, policy: RecordPolicy, request: DrawRequest) -> ExactSampler:
    """Return the sampler of the requested draws.

    Privacy: ``charged`` bounds the sum of the ranges of the draws; see ``ScalarSampler``, ``SimplexSampler``,
        ``DagSampler`` and ``LinearRegressionSampler``.
    Source: Wang, Fienberg and Smola 2015.

    Raises:
        SpecError: the support is missing or wrong, or no guarantee can be given.
    """
    parameters: dict[str, Any]
    sampler: Sampler
    curve: tuple[tuple[Decimal, Decimal], ...] = ()
    if isinstance(model, OneParameterFamily):
        sampler, tempering = grid_sampler(model, request, Decimal(1))
        curve = tuple((order, value * request.draws) for order, value in exact_curve(sampler))
        charged = tempering.charged
        parameters = {**tempering.plan_parameters(request), "support": list(sampler.support)}
    elif isinstance(model, NormalRegression):
        sampler, tempering = line_sampler(model, request)
        charged, parameters = tempering.charged, line_parameters(sampler, tempering, request)
    else:
        sampler, charged, parameters = discrete_sampler(model, request, _row)
    statistic = require_type(model, BoundedStatistics).statistic(policy)
    return ExactSampler(statistic, sampler, charged, curve, parameters)


def _row(
    concentration: tuple[float, ...], request: DrawRequest, rows_touched: Decimal
) -> tuple[Sampler, Tempering, dict[str, Any]]:
    cover = simplex_cover(len(concentration), request.support, request.n_records)
    tempering = calibrate_power(request, cover.spread, LATTICE_SLACK * rows_touched, Decimal(1))
    return (
        SimplexSampler(cover, concentration, tempering.likelihood_power, request.power_applies_to),
        tempering,
        cover.plan_parameters(),
    )
