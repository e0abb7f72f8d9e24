"""Choose how to draw all parameters exactly from a tempered posterior, with the planned privacy cost of each draw."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from dpbayes_cli.core.model import Model
from dpbayes_cli.core.plan import Sampler
from dpbayes_cli.mechanisms.samplers.dag_sampler import discrete_sampler
from dpbayes_cli.mechanisms.samplers.linear_regression_sampler import line_sampler
from dpbayes_cli.mechanisms.samplers.scalar_sampler import exact_curve, grid_sampler
from dpbayes_cli.mechanisms.samplers.simplex_sampler import SimplexSampler, simplex_cover
from dpbayes_cli.mechanisms.samplers.tempering import DrawRequest, Tempering, calibrate_power
from dpbayes_cli.models.families.capabilities import DirichletProbabilities, NormalRegression, OneParameterFamily
from dpbayes_cli.privacy.kinds import BoundedRange
from dpbayes_cli.privacy.lattice import LATTICE_SLACK


def takes_support(model: type[Model]) -> bool:
    """Return whether the user may state one public range of the parameter; networks have a range per table."""
    return issubclass(model, OneParameterFamily | DirichletProbabilities | NormalRegression)


def exact_sampler(model: Model, request: DrawRequest) -> tuple[Sampler, BoundedRange, dict[str, Any]]:
    """Return the sampler of the requested draws, the cost of all draws, and the plan's parameters.

    Privacy: the epsilon of the cost is an upper bound on the sum of the draws' bounded ranges; see ``ScalarSampler``,
        ``SimplexSampler``, ``DagSampler`` and ``LinearRegressionSampler``.
    Source: Wang, Fienberg and Smola 2015.
    """
    if isinstance(model, OneParameterFamily):
        sampler, tempering = grid_sampler(model, request, Decimal(1))
        curve = tuple((order, value * request.draws) for order, value in exact_curve(sampler))
        parameters = {**tempering.plan_parameters(request), "support": list(sampler.support)}
        return sampler, BoundedRange(tempering.charged, request.draws, curve), parameters
    if isinstance(model, NormalRegression):
        lines, charged, parameters = line_sampler(model, request)
        return lines, BoundedRange(charged, request.draws), parameters
    return discrete_sampler(model, request, _row)


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
