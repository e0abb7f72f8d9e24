"""Draws of a vector of shares, or of a network's tables, each by its own sampler at its own share of the budget."""

from __future__ import annotations

import math
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
from dpbayes_cli.models.families.capabilities import SharesPosterior
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet

ROWS_TOUCHED = 2
"""A replaced record leaves one row of a table and joins another: finite precision adds to both."""

_ROUNDED = Context(prec=15, rounding=ROUND_CEILING)
"""Shares are rounded down; what they add up to is charged as the number that was asked for."""

OneRow = Callable[[tuple[float, ...], DrawRequest, Decimal], tuple[Sampler, Tempering, dict[str, Any]]]
"""Returns the sampler of a row, from its concentrations, what is asked of its table, and in how many rows at most a
record counts; what it costs; and what a plan says about it."""


@dataclass(frozen=True)
class DagSampler(Sampler):
    """Rows of tables, drawn independently.

    Privacy: rows are independent, so that log ratios of neighbors add up. A replaced record takes one count from a row
        of a table and gives one to the same or another row: over both rows the log ratio varies by T R at most, with
        log theta_k taken from one and log theta_k' added in the other, each of range R / 2, or both in one row of range
        R. Tables add up.
    Source: Zhang, Rubinstein and Dimitrakakis 2016, Lemma 3; mechanisms, discrete Bayes nets node by node.

    Attributes:
        laws: for each table the sampler of one of its rows.
        rows: the number of rows of each.
        widths: the number of values of each.
    """

    laws: tuple[Sampler, ...]
    rows: tuple[int, ...]
    widths: tuple[int, ...]

    def draw(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        """Draw all tables, each row on its own."""
        drawn = [law.draw(counts, size) for law, counts in self._rows(values)]
        return [tuple(share for row in drawn for share in row[i]) for i in range(size)]

    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        """Return those of the first parameter."""
        return self.laws[0].moments(values[: self.widths[0]])

    def moments_by_row(self, values: Sequence[int]) -> list[tuple[float, float]]:
        """Return those of each row's law."""
        return [law.moments(counts) for law, counts in self._rows(values)]

    def is_possible(self, draw: Sequence[float]) -> bool | None:
        """Return whether every row of the tables can be one of its law."""
        if len(draw) != sum(rows * width for rows, width in zip(self.rows, self.widths, strict=True)):
            return False
        found, first = [], 0
        for law, rows, width in zip(self.laws, self.rows, self.widths, strict=True):
            for _ in range(rows):
                found.append(law.is_possible(draw[first : first + width]))
                first += width
        return None if None in found else all(found)

    def _rows(self, values: Sequence[int]) -> Iterator[tuple[Sampler, Sequence[int]]]:
        """Yield the law and the counts of each row."""
        first = 0
        for law, rows, width in zip(self.laws, self.rows, self.widths, strict=True):
            for _ in range(rows):
                yield law, values[first : first + width]
                first += width


def discrete_sampler(model: Model, asked: DrawRequest, one_row: OneRow) -> tuple[Sampler, Decimal, dict[str, Any]]:
    """Return the sampler of one vector of shares, or of a network, what all draws cost, and what a plan says about it.

    Args:
        model: a network, or one vector of shares.
        asked: how many draws, at what price.
        one_row: returns the sampler of a row.

    Raises:
        SpecError: no guarantee can be given.
    """
    if isinstance(model, DiscreteBayesNet):
        sampler, charged, described = network_sampler(model, asked, one_row)
        return sampler, charged, {**described, "power_applies_to": asked.power_applies_to}
    law, found, cover = one_row(require_type(model, SharesPosterior).concentration, asked, Decimal(1))
    return law, found.charged, {**found.plan_parameters(asked), **cover}


def network_sampler(
    model: DiscreteBayesNet, asked: DrawRequest, one_row: OneRow
) -> tuple[DagSampler, Decimal, dict[str, Any]]:
    """Return the sampler of a network, what all draws cost together, and what a plan says about it.

    Args:
        model: the network.
        asked: how many draws, at what price; its epsilon is divided among the tables by their weights, rounded down.
        one_row: returns the sampler of a row.

    Raises:
        SpecError: no guarantee can be given.
    """
    epsilon, network = asked.epsilon, model.network
    whole = sum(model.weights, Fraction(0))
    laws, prices, tables = [], [], {}
    for name, concentration, weight in zip(network.names, model.concentrations, model.weights, strict=True):
        share = Fraction(epsilon) * weight / whole
        part = DOWN.divide(Decimal(share.numerator), Decimal(share.denominator))
        law, found, described = one_row(concentration, replace(asked, epsilon=part), Decimal(ROWS_TOUCHED))
        laws.append(law)
        prices.append(found.charged)
        tables[name] = {"likelihood_power": float(found.likelihood_power), "range": float(found.spread), **described}
    rows = tuple(math.prod(network.shape(i)[:-1]) for i in range(len(network)))
    parameters = {
        "likelihood_power": min(table["likelihood_power"] for table in tables.values()),
        "draws": asked.draws,
        "tables": tables,
    }
    charged = min(epsilon, _ROUNDED.create_decimal(exact_sum(prices)))
    return DagSampler(tuple(laws), rows, network.sizes), charged, parameters
