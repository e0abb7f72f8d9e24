"""MST and AIM, which make synthetic records from noisy tables, for the study ``benchmark``.

Both are written from their papers on the classes of mbi, which has their graphical models but not the mechanisms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.experiments.peers import peer

Pairs = Mapping[tuple[int, int], Floats]
"""A table for each pair of columns a < b, shape (size of a, size of b)."""


class GraphicalModel:
    """A graphical model of mbi, fitted to noisy tables of columns that are named 0, 1, ..."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.mbi = peer("mbi")
        self.domain = self.mbi.Domain(tuple(map(str, range(len(sizes)))), tuple(sizes))
        self.measured: list[Any] = []
        self.totals: list[tuple[float, float]] = []  # the number of records by each table, and its precision
        self.fitted: Any = None

    def measure(self, columns: Sequence[int], noisy: Floats, deviation: float, weights: Floats | None = None) -> None:
        """Add a noisy table; its cells were multiplied by ``weights``."""
        weights = np.ones(noisy.size) if weights is None else weights
        self.totals.append((float((np.ravel(noisy) / weights).sum()), 1.0 / np.square(deviation / weights).sum()))
        query = {} if (weights == 1.0).all() else {"query": self.mbi.WeightedQuery(weights)}
        clique = tuple(map(str, columns))
        self.measured.append(self.mbi.LinearMeasurement(np.ravel(noisy), clique, deviation, **query))

    def fit(self, steps: int) -> None:
        """Take steps of mirror descent, from the last fit."""
        totals, precisions = np.array(self.totals).T
        total = float(totals @ precisions / precisions.sum())
        self.fitted = self.mbi.estimation.MirrorDescent().estimate(
            self.domain, list(self.measured), known_total=max(total, 1.0), iters=steps, warm_start=self.fitted
        )

    def project(self, columns: Sequence[int]) -> Floats:
        """Return the fitted table of some columns.

        mbi would compile a program for each pair of columns, which takes minutes.
        """
        operands: list[Any] = []
        for clique, table in self.fitted.potentials.tables.items():
            logs = np.asarray(table.values, dtype=np.float64)
            operands += [np.exp(logs - logs.max()), [int(name) for name in clique]]
        joint = np.einsum(*operands, list(columns), optimize="greedy")
        return np.asarray(joint * (float(self.fitted.total) / joint.sum()))

    def size_with(self, columns: Sequence[int]) -> float:
        """Return the size in megabytes that the model would have with a further table."""
        cliques = [each.clique for each in self.measured] + [tuple(map(str, columns))]
        return float(self.mbi.junction_tree.hypothetical_model_size(self.domain, cliques))

    def records(self, n_records: int, seed: int) -> Integers:
        """Return synthetic records, shape (n_records, n_columns)."""
        np.random.seed(seed)
        made = self.fitted.synthetic_data(rows=n_records)
        return np.column_stack([np.asarray(made.data[name]) for name in self.domain.attributes]).astype(np.int64)


def margins_of(exact: Pairs) -> dict[int, Floats]:
    """Return the counts of each column."""
    return {a: exact[a, b].sum(axis=1) for a, b in exact} | {b: exact[a, b].sum(axis=0) for a, b in exact}


def mst(
    exact: Pairs, rho: float, n_records: int, seed: int, steps: int, changes: int = 1
) -> tuple[dict[tuple[int, int], Floats], Integers]:
    """Return the pairs and synthetic records of MST.

    Values that look rare are merged, a third of rho each pays for margins, tree and pairs, and the model is fitted.

    Args:
        changes: the cells of a table that a record changes: 1 under add-remove neighbors, as published, 2 under
            replace-one.

    Source: McKenna, Miklau and Sheldon 2021, Algorithms 1 and 2.
    """
    rng, sigma, margins = np.random.default_rng(seed), math.sqrt(1.5 * changes / rho), margins_of(exact)
    deviation, maps = sigma * math.sqrt(len(margins)), {}
    noisy = {a: m + rng.normal(0.0, deviation, m.size) for a, m in sorted(margins.items())}
    for a, counts in noisy.items():
        kept = counts >= 3.0 * deviation
        place = np.where(kept, np.cumsum(kept) - 1, kept.sum())
        maps[a] = np.eye(place.max() + 1)[place]
    model = GraphicalModel([maps[a].shape[1] for a in noisy])
    for a, counts in noisy.items():
        weights = 1.0 / np.sqrt(maps[a].sum(axis=0))
        model.measure((a,), (counts @ maps[a]) * weights, deviation, weights)
    merged = {(a, b): maps[a].T @ table @ maps[b] for (a, b), table in exact.items()}
    model.fit(steps)
    scores = {edge: np.abs(table - model.project(edge)).sum() for edge, table in merged.items()}
    component, price = list(noisy), math.sqrt(8.0 * rho / 3.0 / (len(noisy) - 1)) / changes
    for _ in range(len(noisy) - 1):
        free = [edge for edge in merged if component[edge[0]] != component[edge[1]]]
        a, b = free[int(np.argmax([0.5 * price * scores[edge] + rng.gumbel() for edge in free]))]
        component = [component[a] if each == component[b] else each for each in component]
        of_pair = sigma * math.sqrt(len(noisy) - 1)
        model.measure((a, b), merged[a, b] + rng.normal(0.0, of_pair, merged[a, b].shape), of_pair)
    model.fit(steps)
    spread = {a: maps[a] / maps[a].sum(axis=0) for a in maps}  # merged values are equally likely again
    pairs = {(a, b): spread[a] @ model.project((a, b)) @ spread[b].T for a, b in exact}
    codes = model.records(n_records, seed)
    for a, each in spread.items():
        ends = np.cumsum(each, axis=0).T
        codes[:, a] = (rng.random(n_records)[:, None] >= ends[codes[:, a]]).sum(axis=1).clip(0, len(each) - 1)
    return pairs, codes


def aim(
    exact: Pairs, rho: float, n_records: int, seed: int, steps: int, rounds: int, megabytes: float = 80.0
) -> tuple[dict[tuple[int, int], Floats], Integers]:
    """Return the pairs and synthetic records of AIM for the workload of all pairs, under add-remove neighbors.

    Args:
        rounds: the planned rounds for each column, 16 in the paper; mbi compiles a program in each.

    Source: McKenna, Mullins, Sheldon and Miklau 2022, Algorithms 1 to 3.
    """
    rng, margins = np.random.default_rng(seed), margins_of(exact)
    d = len(margins)
    tables: dict[tuple[int, ...], Floats] = {(a,): margins[a] for a in range(d)}
    tables.update(exact.items())
    model = GraphicalModel([margins[a].size for a in range(d)])
    sigma, epsilon = math.sqrt(rounds * d / (1.8 * rho)), math.sqrt(0.8 * rho / (rounds * d))
    for a in range(d):
        model.measure((a,), tables[a,] + rng.normal(0.0, sigma, tables[a,].size), sigma)
    model.fit(steps)
    left = rho - d / (2.0 * sigma**2)
    while left > 0.0:
        if left <= 2.0 * (0.5 / sigma**2 + epsilon**2 / 8.0):  # the last round takes what is left
            sigma, epsilon = math.sqrt(1.0 / (1.8 * left)), math.sqrt(0.8 * left)
        left -= 0.5 / sigma**2 + epsilon**2 / 8.0
        left = left if left > 1e-9 * rho else 0.0
        known = {each.clique for each in model.measured}
        limit = megabytes * (rho - left) / rho
        free = [
            each
            for each in tables
            if tuple(map(str, each)) in known or len(each) == 1 or model.size_with(each) <= limit
        ]
        bias = math.sqrt(2.0 / math.pi) * sigma
        scores = [
            len(each) * (np.abs(tables[each] - model.project(each)).sum() - bias * tables[each].size) for each in free
        ]  # a column is in d - 1 pairs of the workload; a pair shares twice as many columns with them
        price = 0.5 * epsilon / max(map(len, free))
        chosen = free[int(np.argmax(price * np.array(scores) + rng.gumbel(size=len(free))))]
        before, table = model.project(chosen), tables[chosen]
        model.measure(chosen, table + rng.normal(0.0, sigma, table.shape), sigma)
        model.fit(steps)
        if np.abs(model.project(chosen) - before).sum() <= bias * table.size:
            sigma, epsilon = sigma / 2.0, 2.0 * epsilon
    return {edge: model.project(edge) for edge in exact}, model.records(n_records, seed)
