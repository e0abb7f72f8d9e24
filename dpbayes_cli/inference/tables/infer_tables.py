"""The posterior of a network's tables given noisy counts, by independent draws of the latent counts or Markov chains.

The limits on memory and time depend only on the size of the network and on the options, so that generators in equal
states give equal results. Draws of chains are thinned while the chains run, and the convergence of some of the
parameters is checked; see ``convergence``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.noisy_observation import NoisyTable, NoisyTables, Scope, SharedColumn
from dpbayes_cli.inference.chains import CHAINS, Trace
from dpbayes_cli.inference.convergence import Convergence, judge, monitored_columns, required_draws
from dpbayes_cli.inference.dirichlet_rows import draw_rows, marginals_of, row_marginals, row_moments
from dpbayes_cli.inference.naive import nearest_counts
from dpbayes_cli.inference.posterior import NAIVE_WARNING, QUANTILES, Effort, Method, Posterior
from dpbayes_cli.inference.tables.consistent_tables import ConsistentTables, nearest_consistent
from dpbayes_cli.inference.tables.shared_columns import fit_shared_columns
from dpbayes_cli.inference.tables.table_chain import TableChain
from dpbayes_cli.inference.tables.table_draws import NETWORK_WORK, TABLE_WORK, draw_table
from dpbayes_cli.inference.tables.table_layout import TableLayout

_CHAINS_OF_MANY_CELLS, _MANY_CELLS = 8, 1000
"""With more than 1000 cells there are only 8 chains, because the time of a sweep then grows with the number of
chains."""
_WARM_UP = 150
_FIRST_SWEEPS, _MAX_SWEEPS = 200, 2400
"""The number of sweeps before convergence is first checked, and the largest number of sweeps before it is multiplied by
a factor for the number of cells."""
_MAX_STORED_COUNTS = 1 << 23
"""The largest number of stored counts: chains times draws times cells."""
_MAX_RETURNED_NUMBERS = 1 << 22
_DEFAULT_DRAWS, _MAX_INDEPENDENT_COUNTS, _MIN_DRAWS = 2000, 1 << 23, 250
"""For independent draws of the counts: the default number, the largest product of draws and cells, and the smallest
number. Theta is drawn twice given each draw of the counts. By default the Monte Carlo error of a mean is 2 % of the
standard deviation that the noise adds."""


def infer_tables(
    observation: NoisyTables, method: Method, n_draws: int, rng: np.random.Generator, effort: Effort
) -> Posterior:
    """Return the posterior of the rows of all tables; see ``solve.infer``.

    The parameters are the cells of the tables, each table in C order; the cells of a row sum to one. At most 2^22
    numbers are returned, so networks with many cells may get fewer draws than requested.
    """
    if method == "naive":
        return _plug_in(observation, n_draws, rng)
    if method == "chain":
        return _chain_posterior(observation, n_draws, rng, effort)
    n_cells = sum(table.concentration.size for table in observation.tables)
    n_counts = min(
        max(n_draws // 2, min(effort.summary_draws, _DEFAULT_DRAWS)),
        max(_MAX_INDEPENDENT_COUNTS // n_cells, _MIN_DRAWS),
    )
    work = min(TABLE_WORK, NETWORK_WORK // len(observation.tables))
    table_draws = [draw_table(table, n_counts, rng, work) for table in observation.tables]
    drawn = [None if draws is None else draws.counts for draws in table_draws]
    coarsest = max((draws.step for draws in table_draws if draws is not None), default=1)
    left = [table for table, counts in zip(observation.tables, drawn, strict=True) if counts is None]
    diagnostics: dict[str, float] = {}
    warnings: tuple[str, ...] = ()
    described = f"{n_counts} independent draws of the counts of all cells (convolution)"
    if coarsest > 1:
        described += f", for wide noise on lattices with steps of up to {coarsest} counts"
    if left:
        kept, convergence = _run_chains(_chain_of(left, rng), n_counts, effort)
        diagnostics, warnings = convergence.diagnostics, convergence.warnings
        flat = kept.transpose(1, 0, 2).reshape(-1, kept.shape[2])
        repeated = flat[np.resize(np.arange(len(flat)), n_counts)]
        ends = np.cumsum([table.concentration.size for table in left])[:-1]
        from_chains = iter(np.split(repeated, ends, axis=1))
        drawn = [next(from_chains) if counts is None else counts for counts in drawn]
        described += f"; {len(left)} tables drawn by {len(kept)} Markov chains"
    counts = np.concatenate([values for values in drawn if values is not None], axis=1)
    posterior, _ = _posterior_from_counts(
        counts,
        TableLayout(observation.tables),
        observation.shared,
        n_draws,
        described,
        rng,
        min(diagnostics.get("ess_bulk", n_counts), n_counts),
    )
    exact = not left and coarsest == 1 and not observation.shared
    return replace(posterior, exact=exact, diagnostics=diagnostics, warnings=warnings)


def _posterior_from_counts(
    counts: Floats,
    layout: TableLayout,
    shared: Sequence[SharedColumn],
    n_draws: int,
    described: str,
    rng: np.random.Generator,
    ess: float,
) -> tuple[Posterior, Floats]:
    """Return the posterior given draws of the counts with effective sample size ``ess``, and a theta for each draw."""
    if shared:
        counts = fit_shared_columns(counts, layout, shared, rng)
        described += ", fitted to common totals of the columns that tables share"
    theta = draws = draw_rows(counts, layout, rng)
    most = max(_MAX_RETURNED_NUMBERS // counts.shape[1], 1)
    if n_draws > most:
        described += f"; {most} samples are returned, because {counts.shape[1]} cells allow no more"
    elif n_draws > len(counts):
        described += ", used repeatedly"
    n_missing = min(n_draws, most) - len(counts)
    if n_missing > 0:
        extra = draw_rows(counts[np.resize(np.arange(len(counts)), n_missing)], layout, rng)
        draws = np.concatenate([theta, extra])
    mean, data, noise = row_moments(counts, layout)
    error = float(np.max(np.sqrt(noise) / np.maximum(np.sqrt(data + noise), 1e-300)) / math.sqrt(ess))
    marginals = row_marginals(mean, data, noise, theta)
    return Posterior(marginals, draws[: min(n_draws, most)], described, exact=False, monte_carlo=error), theta


def _chain_posterior(observation: NoisyTables, n_draws: int, rng: np.random.Generator, effort: Effort) -> Posterior:
    chain = _chain_of(observation.tables, rng)
    kept, convergence = _run_chains(chain, n_draws, effort)
    flat = kept.transpose(1, 0, 2).reshape(-1, kept.shape[2])  # every prefix has draws of all chains
    diagnostics = convergence.diagnostics
    described = f"{len(flat)} draws from {len(kept)} Markov chains on the counts of all cells"
    posterior, theta = _posterior_from_counts(
        flat, chain.layout, observation.shared, n_draws, described, rng, diagnostics["ess_bulk"]
    )
    chains = theta.reshape(kept.shape[1], len(kept), -1).transpose(1, 0, 2)
    return replace(posterior, diagnostics=diagnostics, warnings=convergence.warnings, chains=chains)


def _chain_of(tables: Sequence[NoisyTable], rng: np.random.Generator) -> TableChain:
    n_cells = sum(table.observed.size for table in tables)
    return TableChain(tables, CHAINS if n_cells <= _MANY_CELLS else _CHAINS_OF_MANY_CELLS, rng)


def _run_chains(chain: TableChain, n_draws: int, effort: Effort) -> tuple[Floats, Convergence]:
    """Run chains until they converge or reach a limit; return the stored counts and the last convergence check."""
    layout, (chains, n_cells) = chain.layout, chain.counts.shape
    columns = monitored_columns(n_cells)
    needed = max(effort.ess, required_draws(chains, len(columns)))
    length = math.ceil(max(n_draws, 1.25 * needed) / chains)
    kept = Trace(min(2 * length, max(_MAX_STORED_COUNTS // (chains * n_cells), 16)))
    monitored = Trace(2 * max(_FIRST_SWEEPS, length))
    most = int(_MAX_SWEEPS * min(max(1000 / n_cells, 1.0), 2.0) * min(max(5_000 / n_cells, 1 / 6), 1.0))
    most *= effort.extension
    for _ in range(_WARM_UP):
        chain.sweep()
    sweeps, next_check = 0, min(_FIRST_SWEEPS, most)
    while True:
        for _ in range(next_check - sweeps):
            chain.sweep()
            kept.add(chain.counts)
            totals = (layout.row_totals(chain.counts) + layout.row_sums)[:, layout.row[columns]]
            monitored.add((chain.counts[:, columns] + layout.concentration[columns]) / totals)
        sweeps = next_check
        convergence = judge(monitored.values(), effort)
        if convergence.reached or sweeps >= most:
            return kept.values(), convergence
        if convergence.from_start and most >= 2 * sweeps:  # so far the chains were warming up
            kept.clear()
            monitored.clear()
        next_check = min(most, math.ceil(convergence.growth * sweeps))


def possible_tables(observation: NoisyTables) -> list[Floats]:
    """Return the possible counts nearest to the noisy ones; with a ``scope``, tables agree on their common margins."""
    if observation.scope is None:
        return [nearest_counts(np.asarray(table.observed, float), table.total) for table in observation.tables]
    return list(consistent_tables(observation, observation.scope).tables)


def consistent_tables(observation: NoisyTables, scope: Scope) -> ConsistentTables:
    """Return the nearest tables whose shared margins agree; each has one axis for each variable of its family."""
    shaped = [
        table.observed.reshape([scope.sizes[v] for v in family])
        for table, family in zip(observation.tables, scope.families, strict=True)
    ]
    return nearest_consistent(scope.sizes, scope.families, shaped, scope.total)


def _plug_in(observation: NoisyTables, n_draws: int, rng: np.random.Generator) -> Posterior:
    from scipy.special import betaincinv

    layout = TableLayout(observation.tables)
    counts = np.concatenate([table.ravel() for table in possible_tables(observation)])[None]
    mean, variance = layout.conditional_moments(counts)
    shape = counts[0] + layout.concentration
    rest = (layout.row_totals(counts) + layout.row_sums)[0, layout.row] - shape
    one_value = rest <= 0.0  # rows of a variable with a single value
    safe = np.where(one_value, 1.0, rest)
    quantiles = [np.where(one_value, 1.0, betaincinv(shape, safe, p)) for p in QUANTILES.values()]
    kept = max(min(n_draws, _MAX_RETURNED_NUMBERS // counts.shape[1]), 1)
    return Posterior(
        marginals_of(mean[0], variance[0], variance[0], np.zeros_like(mean[0]), np.array(quantiles)),
        draw_rows(np.repeat(counts, kept, axis=0), layout, rng),
        f"conjugate posterior given {'the nearest consistent' if observation.scope else 'the projected'} counts, as if "
        "they were exact",
        exact=False,
        warnings=(NAIVE_WARNING,),
    )
