"""The Markov chain on the counts of tables, against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpbayes_cli.core.noisy_observation import RecordCount
from dpbayes_cli.inference.tables.table_chain import TableChain
from tests.inference.table_cells import (
    LAPLACE,
    NETWORK,
    Array,
    assert_joint_law,
    draw_network,
    enumerate_table,
    largest_z,
    tiny_tables,
)

SWEEPS, CHAINS = 40, 600
TINY = tiny_tables()
EXACT = [enumerate_table(table) for table in TINY]


def by_table(chain: TableChain) -> list[Array]:
    parts = np.split(chain.counts, chain.layout.table_start[1:], axis=1)
    return [part.reshape(-1, *table.observed.shape) for part, table in zip(parts, TINY, strict=True)]


@pytest.mark.slow
def test_the_counts_have_the_enumerated_law() -> None:
    """The counts of every table at the end of many chains: independent draws.

    About 350 means within 6.5 standard errors; squares of counts have heavy tails: false-fail about 1e-6.
    """
    chain = TableChain(TINY, CHAINS, np.random.default_rng(5))
    for _ in range(SWEEPS):
        chain.sweep()
    counts = by_table(chain)
    assert largest_z(counts, EXACT) < 6.5
    assert_joint_law(counts, EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("move", ["exchange", "scale", "single", "one", "across"])
def test_every_move_alone_keeps_the_law(move: str) -> None:
    """Three moves of one kind after exact draws of the posterior; false-fail about 1e-6, as above."""
    rng = np.random.default_rng(12)
    chain = TableChain(TINY, 1500, rng)
    drawn = [states.reshape(len(states), -1)[rng.choice(len(states), 1500, p=weights)] for states, weights in EXACT]
    chain.counts = np.concatenate(drawn, axis=1)
    for _ in range(3):
        order = np.argsort(chain.layout.row + rng.random(len(chain.layout.row)))
        rows = chain._pair_rows()
        if move == "exchange":
            chain.counts = chain._block_moves.exchange(chain.counts, *rows)
        elif move == "scale":
            chain.counts = chain._block_moves.scale(chain.counts)
        elif move == "single":
            chain._redraw_single_cells()
        elif move == "one":
            chain._redraw_one_across_rows(order, *rows)
        else:
            chain._redraw_across_rows(order, *rows)
    assert np.any(chain.counts != np.concatenate(drawn, axis=1))
    assert largest_z(by_table(chain), EXACT) < 6.5


def test_known_totals_are_kept_from_the_start() -> None:
    _, network = draw_network(NETWORK, RecordCount("known", 500), LAPLACE, np.random.default_rng(1))
    tables = (*network.tables, replace(network.tables[1], total=RecordCount("at-most", 20)))
    chain = TableChain(tables, 3, np.random.default_rng(1))
    for _ in range(20):
        totals = chain.layout.per_table(chain.layout.row_totals(chain.counts))
        assert np.all(totals[:, :3] == 500)
        assert np.all(totals[:, 3] <= 20)
        assert np.all(chain.counts >= 0)
        assert np.all(chain.counts == np.floor(chain.counts))
        chain.sweep()
