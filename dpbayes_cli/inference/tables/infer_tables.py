"""The posterior of a network's tables: independent draws of their latent counts, or Markov chains on all at once.

However large the network, memory and time are bounded by numbers that depend on nothing but its size and what is asked,
so that equal generators give equal results. Draws of chains are thinned as they come, and their convergence is judged
on at most 256 parameters; what they have not reached is said in the warnings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import NoisyTables, Scope
from dpbayes_cli.inference.diagnostics import diagnose, has_converged
from dpbayes_cli.inference.dirichlet_rows import draw_rows, marginals_from_arrays, row_marginals, row_moments
from dpbayes_cli.inference.naive import project_on_simplex
from dpbayes_cli.inference.posterior import QUANTILES, Effort, Method, Posterior
from dpbayes_cli.inference.tables.consistent_tables import ConsistentTables, nearest_consistent
from dpbayes_cli.inference.tables.table_chain import TableChain
from dpbayes_cli.inference.tables.table_draws import NETWORK_WORK, TABLE_WORK, draw_table
from dpbayes_cli.inference.tables.table_layout import TableLayout
from dpbayes_cli.inference.tables.trace import Trace

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.core.noisy_observation import NoisyTable

CHAINS = 4
_WARM_UP = 150
_FIRST_SWEEPS, _MOST_SWEEPS = 400, 800
"""Of networks with 1,000 cells or more; the fewer cells, the cheaper are sweeps, and the more are made at most."""
_MONITORED = 256
_STORED = 1 << 23
"""Counts kept, and so many theta: chains times draws times cells."""
_RETURNED = 1 << 22
_SUMMARY, _KEPT, _FEWEST = 2000, 1 << 23, 250
"""Independent draws of the counts: so many where nothing else is asked, fewer where there are many cells. Each is used
for two samples, which costs a mean nothing that matters: its error is 2 % of what the noise leaves."""
_LOST = 1.05
"""Chains of a larger R-hat have not even found the same place."""


def infer_tables(
    observation: NoisyTables, method: Method, n_draws: int, rng: np.random.Generator, effort: Effort
) -> Posterior:
    """Return the posterior of the rows of all tables; see ``solve.infer``.

    The parameters are the cells, tables in order and each in C order; the cells of a row sum to one. Of networks with
    many cells fewer draws than asked for are returned, 2^22 numbers at most.

    Raises:
        TypeError: noise that is neither Laplace nor Gaussian.
    """
    if method == "naive":
        return _naive(observation, n_draws, rng)
    if method == "chain":
        return _by_chain(observation.tables, n_draws, rng, effort)
    n_cells = sum(table.concentration.size for table in observation.tables)
    wanted = min(max(n_draws // 2, min(effort.summary_draws, _SUMMARY)), max(_KEPT // n_cells, _FEWEST))
    work = min(TABLE_WORK, NETWORK_WORK // len(observation.tables))
    found = [draw_table(table, wanted, rng, work) for table in observation.tables]
    drawn = [None if each is None else each.counts for each in found]
    coarsest = max((each.step for each in found if each is not None), default=1)
    left = [table for table, counts in zip(observation.tables, drawn, strict=True) if counts is None]
    diagnostics: dict[str, float] = {}
    warnings: tuple[str, ...] = ()
    described = f"{wanted} independent draws of the counts of all cells (convolution)"
    if coarsest > 1:
        described += f", on lattices of up to {coarsest} counts where the noise is wide"
    if left:
        chain = TableChain(left, CHAINS, rng)
        kept, diagnostics, warnings = _run(chain, wanted, effort.ess)
        flat = kept.transpose(1, 0, 2).reshape(-1, kept.shape[2])
        again = flat[np.resize(np.arange(len(flat)), wanted)]
        sizes = np.cumsum([table.concentration.size for table in left])[:-1]
        others = iter(np.split(again, sizes, axis=1))
        drawn = [next(others) if counts is None else counts for counts in drawn]
        described += f", of {len(left)} tables by {CHAINS} Markov chains"
    counts = np.concatenate([each for each in drawn if each is not None], axis=1)
    layout = TableLayout(observation.tables)
    theta = draw_rows(counts, layout, rng)
    draws, described = _returned(theta, counts, layout, n_draws, described, rng)
    mean, data, noise = row_moments(counts, layout)
    sd = np.sqrt(data + noise)
    ess = diagnostics.get("ess_bulk", float(wanted))
    error = float(np.max(np.sqrt(noise) / np.maximum(sd, 1e-300)) / math.sqrt(min(ess, wanted)))
    return Posterior(
        row_marginals(mean, data, noise, theta),
        draws,
        described,
        exact=not left and coarsest == 1,
        monte_carlo=error,
        diagnostics=diagnostics,
        warnings=warnings,
    )


def _returned(
    theta: Floats, counts: Floats, layout: TableLayout, n_draws: int, described: str, rng: np.random.Generator
) -> tuple[Floats, str]:
    """Return as many theta as asked for, or as can be returned; draws of the counts may be used again."""
    most = max(_RETURNED // counts.shape[1], 1)
    if n_draws > most:
        described += f"; {most} samples are returned, the most for {counts.shape[1]} cells"
    elif n_draws > len(counts):
        described += ", used repeatedly"
    more = min(n_draws, most) - len(counts)
    if more <= 0:
        return theta[: min(n_draws, most)], described
    again = draw_rows(counts[np.resize(np.arange(len(counts)), more)], layout, rng)
    return np.concatenate([theta, again]), described


def _by_chain(tables: Sequence[NoisyTable], n_draws: int, rng: np.random.Generator, effort: Effort) -> Posterior:
    """Run Markov chains on all tables at once."""
    chain = TableChain(tables, CHAINS, rng)
    kept, diagnostics, warnings = _run(chain, n_draws, effort.ess)
    flat = kept.transpose(1, 0, 2).reshape(-1, kept.shape[2])  # by turns, so that every prefix mixes all chains
    described = f"{CHAINS} Markov chains on the counts of all cells, {len(flat)} draws"
    theta = draw_rows(flat, chain.layout, rng)
    draws, described = _returned(theta, flat, chain.layout, n_draws, described, rng)
    mean, data, noise = row_moments(flat, chain.layout)
    sd = np.sqrt(data + noise)
    error = float(np.max(np.sqrt(noise) / np.maximum(sd, 1e-300)) / math.sqrt(diagnostics["ess_bulk"]))
    return Posterior(
        row_marginals(mean, data, noise, theta),
        draws,
        described,
        exact=False,
        monte_carlo=error,
        diagnostics=diagnostics,
        warnings=warnings,
        chains=theta.reshape(kept.shape[1], CHAINS, -1).transpose(1, 0, 2),
    )


def _run(chain: TableChain, n_draws: int, least_ess: float) -> tuple[Floats, dict[str, float], tuple[str, ...]]:
    """Run until enough effective draws are held, or patience ends; return the kept counts, and how good they are."""
    layout = chain.layout
    n_cells = len(layout.row)
    columns = np.unique(np.linspace(0, n_cells - 1, min(n_cells, _MONITORED)).astype(int))
    length = max(250, -(-n_draws // CHAINS), math.ceil(1.5 * least_ess / CHAINS))
    kept = Trace(min(2 * length, max(_STORED // (CHAINS * n_cells), 16)))
    watched = Trace(4 * max(_FIRST_SWEEPS, math.ceil(least_ess)))
    most = int(_MOST_SWEEPS * min(max(1000 / n_cells, 1.0), 3.0) * min(max(20_000 / n_cells, 0.5), 1.0))
    for _ in range(_WARM_UP):
        chain.sweep()
    sweeps, until = 0, min(_FIRST_SWEEPS, most)
    while True:
        for _ in range(until - sweeps):
            chain.sweep()
            kept.add(chain.counts)
            totals = (layout.row_totals(chain.counts) + layout.row_sums)[:, layout.row[columns]]
            watched.add((chain.counts[:, columns] + layout.concentration[columns]) / totals)
        sweeps = until
        r_hats, bulk, tail = diagnose(watched.values())
        reached = has_converged(float(r_hats.max())) and min(bulk.min(), tail.min()) >= least_ess
        if reached or sweeps >= most:
            break
        if r_hats.max() > _LOST and most - sweeps >= _FIRST_SWEEPS:  # all of that was warming up
            kept.clear()
            watched.clear()
        until = min(most, 2 * sweeps if most > 3 * sweeps else most)
    diagnostics = {"r_hat": float(r_hats.max()), "ess_bulk": float(bulk.min()), "ess_tail": float(tail.min())}
    return kept.values(), diagnostics, _warnings(r_hats, np.minimum(bulk, tail), least_ess)


def _warnings(r_hats: Floats, ess: Floats, least_ess: float) -> tuple[str, ...]:
    """Say how many of the monitored parameters have not reached what was asked for."""
    far, few = ~(r_hats <= 1.01), ~(ess >= least_ess)
    if not (far.any() or few.any()):
        return ()
    found = (
        f"of {len(r_hats)} parameters looked at, {int(far.sum())} have R-hat above 1.01 (the largest "
        f"{r_hats.max():.3f}) and {int(few.sum())} fewer effective draws than {least_ess:.0f} (the fewest "
        f"{ess.min():.0f})"
    )
    if r_hats.max() > _LOST:
        return (f"the chains have not converged: {found}; do not use this posterior; try a less informative prior",)
    return (f"the chains are shorter than asked for: {found}",)


def naive_counts(table: NoisyTable) -> Floats:
    """Return the possible counts nearest to the observed ones, shape (n_rows, n_values)."""
    observed = np.asarray(table.observed, dtype=np.float64)
    counts = np.maximum(observed, 0.0)
    kind, n = table.total.kind, table.total.n
    if kind == "known" or (kind == "at-most" and counts.sum() > n):
        counts = project_on_simplex(observed.ravel(), n).reshape(observed.shape)
    return np.asarray(counts)


def possible_tables(observation: NoisyTables) -> list[Floats]:
    """Return possible counts near the observed ones: table by table, or tables that agree where they can be made to."""
    if observation.scope is None:
        return [naive_counts(table) for table in observation.tables]
    return list(consistent_tables(observation, observation.scope).tables)


def consistent_tables(observation: NoisyTables, scope: Scope) -> ConsistentTables:
    """Return the nearest tables that agree with each other, each in the shape that its scope says."""
    shaped = [
        table.observed.reshape([scope.sizes[v] for v in family])
        for table, family in zip(observation.tables, scope.families, strict=True)
    ]
    return nearest_consistent(scope.sizes, scope.families, shaped, scope.total)


def _naive(observation: NoisyTables, n_draws: int, rng: np.random.Generator) -> Posterior:
    """Return the conjugate posteriors of the projected counts."""
    from scipy.special import betaincinv

    layout = TableLayout(observation.tables)
    counts = np.concatenate([table.ravel() for table in possible_tables(observation)])[None]
    mean, variance = layout.conditional_moments(counts)
    shape = counts[0] + layout.concentration
    rest = (layout.row_totals(counts) + layout.row_sums)[0, layout.row] - shape
    alone = rest <= 0.0  # the only value of its variable
    quantiles = [np.where(alone, 1.0, betaincinv(shape, np.where(alone, 1.0, rest), p)) for p in QUANTILES.values()]
    kept = max(min(n_draws, _RETURNED // counts.shape[1]), 1)
    return Posterior(
        marginals_from_arrays(mean[0], variance[0], np.zeros_like(mean[0]), np.array(quantiles)),
        draw_rows(np.repeat(counts, kept, axis=0), layout, rng),
        f"the conjugate posterior of {'the nearest consistent' if observation.scope else 'the projected'} counts",
        exact=False,
        warnings=("the naive posterior ignores the noise and is too narrow",),
    )
