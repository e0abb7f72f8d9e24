"""Draws of a probability vector, or of a network's tables, whose budget is divided between the tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

from dpbayes_cli.base.numeric import exact_sum
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.plan import Sampler
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.samplers.tempering import DOWN, DrawRequest, Tempering
from dpbayes_cli.models.families.capabilities import DirichletProbabilities
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.privacy.kinds import BoundedRange

ROWS_TOUCHED = 2
"""The number of rows of a table that a replaced record changes: the rounding errors of both rows add up."""

_UP_TO_15_DIGITS = Context(prec=15, rounding=ROUND_CEILING)
"""Each table's share of epsilon is rounded down. The charge for all tables is rounded up to 15 digits, but never above
the requested epsilon."""

OneRow = Callable[[tuple[float, ...], DrawRequest, Decimal], tuple[Sampler, Tempering, dict[str, Any]]]
"""A function of the concentrations of a row, the request for its table, and the number of rows that a replaced record
may change. It returns the sampler, the tempering and the plan parameters of the row."""


@dataclass(frozen=True)
class DagSampler(Sampler):
    """The law of a network's tables, whose rows are drawn independently.

    Privacy: rows and tables are drawn independently, so that their log ratios between neighbors add up. A replaced
        record takes one count from a row of a table and adds one to the same or another row. If these are two rows, the
        log ratio of one changes by T log theta_k and the log ratio of the other by T log theta_k'; each change has
        range T R / 2. If it is the same row, both changes together have range T R.
    Source: Zhang, Rubinstein and Dimitrakakis 2016, Lemma 3; the rest is derived here.

    Attributes:
        laws: for each table the sampler that all of its rows share.
        rows: the number of rows of each table.
        widths: the number of values in a row of each table.
    """

    laws: tuple[Sampler, ...]
    rows: tuple[int, ...]
    widths: tuple[int, ...]

    def draw(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        drawn = [law.draw(counts, size) for law, counts in self._rows(values)]
        return [tuple(share for row in drawn for share in row[i]) for i in range(size)]

    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        return self.laws[0].moments(values[: self.widths[0]])

    def moments_by_row(self, values: Sequence[int]) -> list[tuple[float, float]]:
        return [law.moments(counts) for law, counts in self._rows(values)]

    def is_possible(self, draw: Sequence[float]) -> bool | None:
        """Return whether every row of the tables is a possible draw; None if a sampler cannot tell."""
        if len(draw) != sum(rows * width for rows, width in zip(self.rows, self.widths, strict=True)):
            return False
        possible = [law.is_possible(row) for law, row in self._rows(draw)]
        return None if None in possible else all(possible)

    def _rows(self, values: Sequence[Any]) -> Iterator[tuple[Sampler, Sequence[Any]]]:
        first = 0
        for law, rows, width in zip(self.laws, self.rows, self.widths, strict=True):
            for _ in range(rows):
                yield law, values[first : first + width]
                first += width


def discrete_sampler(
    model: Model, request: DrawRequest, one_row: OneRow
) -> tuple[Sampler, BoundedRange, dict[str, Any]]:
    """Return the sampler of a probability vector or of a network, the cost of all draws, and the plan's parameters.

    Each table of a network gets a share of epsilon in proportion to its weight, rounded down.

    Privacy: the tables of a network are drawn independently, so that the costs of their ranges add up.
    Source: Cesar and Rogers 2021; the rest is derived here.
    """
    if not isinstance(model, DiscreteBayesNet):
        concentration = require_type(model, DirichletProbabilities).concentration
        law, tempering, cover_parameters = one_row(concentration, request, Decimal(1))
        cost = BoundedRange(tempering.charged, request.draws)
        return law, cost, {**tempering.plan_parameters(request), **cover_parameters}
    epsilon, network = request.epsilon, model.network
    total_weight = sum(model.weights, Fraction(0))
    laws, costs, tables = [], [], {}
    for name, concentration, weight in zip(network.names, model.concentrations, model.weights, strict=True):
        share = Fraction(epsilon) * weight / total_weight
        table_epsilon = DOWN.divide(Decimal(share.numerator), Decimal(share.denominator))
        law, tempered, cover = one_row(concentration, replace(request, epsilon=table_epsilon), Decimal(ROWS_TOUCHED))
        laws.append(law)
        costs.append(tempered.charged)
        tables[name] = {"likelihood_power": float(tempered.likelihood_power), "range": float(tempered.spread), **cover}
    rows = tuple(math.prod(network.shape(i)[:-1]) for i in range(len(network)))
    parameters = {
        "likelihood_power": min(table["likelihood_power"] for table in tables.values()),
        "draws": request.draws,
        "tables": tables,
        "power_applies_to": request.power_applies_to,
    }
    charged = min(epsilon, _UP_TO_15_DIGITS.create_decimal(exact_sum(costs)))
    shares = tuple(sorted(Counter(costs).items())) if len(costs) > 1 else ()
    return DagSampler(tuple(laws), rows, network.sizes), BoundedRange(charged, request.draws, (), shares), parameters
