"""Tiny chains on hidden states, and their laws by enumeration, from the integers that the draws use."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.encoded_records import CodedColumns
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.mechanisms.samplers.private_gibbs import Point, PrivateGibbs, updates_of
from dpbayes_cli.mechanisms.samplers.simplex_sampler import SharesCover, SimplexSampler
from dpbayes_cli.models.families.latent_variables import LatentVariables, SiteEvidence
from dpbayes_cli.privacy.choices import choice_weights
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.exact_laws import probability
from tests.plans import model_of

COMPLETE = RecordPolicy(Neighbors.REPLACE_ONE)
Record = tuple[int, ...]


def hmm(*, sequences: int = 2, steps: int = 2, sizes: Sequence[int] = (2,), states: int = 2) -> LatentVariables:
    def axis(name: str, size: int) -> dict[str, Any]:
        return {"column": name, "values": [f"{name}{i}" for i in range(size)], "impute": f"{name}0"}

    features = {f"x{j}": {"values": [f"v{i}" for i in range(size)], "impute": "v0"} for j, size in enumerate(sizes)}
    domain = {"sequence": axis("s", sequences), "time": axis("t", steps), "features": features, "states": states}
    return built("hmm", domain)


def mixture(*, sizes: Sequence[int] = (2,), classes: int = 2) -> LatentVariables:
    variables = {f"x{j}": {"values": [f"v{i}" for i in range(size)], "impute": "v0"} for j, size in enumerate(sizes)}
    return built("naive-bayes-mixture", {"variables": variables, "classes": classes})


def built(name: str, domain: dict[str, Any], prior: dict[str, Any] | None = None) -> LatentVariables:
    model = model_of(name, domain, prior)
    assert isinstance(model, LatentVariables)
    return model


def records_of(model: LatentVariables) -> list[Record]:
    """All records, as codes."""
    return list(itertools.product(*(range(len(column.levels)) for column in model.columns)))  # type: ignore[union-attr]


def evidence_of(model: LatentVariables, records: Sequence[Record]) -> ExactEvidence:
    """The exact statistics of records, computed without a data engine."""
    read, codes = model.chain_input(COMPLETE), np.array(records)
    if isinstance(read, CodedColumns):
        held = read.hold(len(records))
        held.take(codes)
        return ExactEvidence((), len(records), design=held)
    values = []
    for table in read.tables:
        places = [[column.role for column in model.columns].index(role) for role in table.roles]
        flat = np.ravel_multi_index(tuple(codes[:, places].T), table.shape)
        values += np.bincount(flat, minlength=table.size).tolist()
    return ExactEvidence(tuple(values), len(records))


def coarse(chain: Any, resolution: int = 8, least: int = 2) -> PrivateGibbs:
    """The chain on lattices of few points."""
    gibbs_chain = require_type(chain, PrivateGibbs)
    return replace(gibbs_chain, covers=tuple(SharesCover(c.n_shares, resolution, least) for c in gibbs_chain.covers))


def costs(chain: PrivateGibbs, likelihood_power: Decimal) -> tuple[float, float]:
    """The cost of an update of the states, and of all emissions."""
    states, *emissions = (update.cost_of_sweeps(likelihood_power, 1) for update in updates_of(chain.covers, chain.bits))
    return float(states), float(sum(emissions))


def rows_of(cover: SharesCover) -> list[tuple[int, ...]]:
    return [tuple(row) for row in (cover.points() + cover.least).tolist()]


def emissions_of(chain: PrivateGibbs) -> list[tuple[Any, ...]]:
    """All emissions: for each feature an array of shape (n_states, n_values)."""
    k = chain.structure.n_states
    each = [[np.array(rows) for rows in itertools.product(rows_of(cover), repeat=k)] for cover in chain.covers]
    return list(itertools.product(*each))


def state_log_law(
    chain: PrivateGibbs, point: Point, sites: SiteEvidence, likelihood_power: Decimal
) -> np.ndarray[Any, Any]:
    """The log probabilities of the states of all sites after their update, in the order of ``all_states``."""
    groups = chain.structure.update_blocks(chain.n_records)
    totals = []
    for states in all_states(chain):
        now, total = point.states.copy(), 0.0
        for group in groups:
            weights = choice_weights(chain.utilities(point, now, sites, likelihood_power, group), chain.bits).astype(
                float
            )
            chosen = states[group]
            total += float(np.log(weights[np.arange(len(group)), chosen] / weights.sum(axis=1)).sum())
            now[group] = chosen
        totals.append(total)
    return np.array(totals)


def site_log_laws(
    chain: PrivateGibbs, point: Point, sites: SiteEvidence, likelihood_power: Decimal
) -> np.ndarray[Any, Any]:
    """The log probabilities of each site's states given the others', shape (n_sites, n_states)."""
    group = np.arange(chain.structure.n_sites(chain.n_records))
    weights = choice_weights(chain.utilities(point, point.states, sites, likelihood_power, group), chain.bits).astype(
        float
    )
    return np.asarray(np.log(weights / weights.sum(axis=1, keepdims=True)))


def all_states(chain: PrivateGibbs) -> list[Any]:
    n = chain.structure.n_sites(chain.n_records)
    return [np.array(states) for states in itertools.product(range(chain.structure.n_states), repeat=n)]


def emission_log_law(
    chain: PrivateGibbs, states: Any, sites: SiteEvidence, likelihood_power: Decimal
) -> np.ndarray[Any, Any]:
    """The log probabilities of all emissions after their update, in the order of ``emissions_of``."""
    logs = []
    for cover, a, table in zip(
        chain.covers, chain.structure.emissions, sites.counts(states, chain.structure.n_states), strict=True
    ):
        rows = [row_log_law(cover, a, likelihood_power, tuple(row)) for row in table.tolist()]
        logs.append([sum(each) for each in itertools.product(*rows)])
    return np.array([sum(each) for each in itertools.product(*logs)])


@lru_cache(maxsize=4096)
def row_log_law(
    cover: SharesCover, concentration: tuple[float, ...], likelihood_power: Decimal, counts: tuple[int, ...]
) -> tuple[float, ...]:
    lattice = SimplexSampler(cover, concentration, likelihood_power, "likelihood").lattice(counts)
    return tuple(float(np.log(float(probability(lattice, row)))) for row in rows_of(cover))


def neighbors(records: Sequence[Record], n: int) -> Iterator[tuple[tuple[Record, ...], tuple[Record, ...]]]:
    """All pairs of data sets of n records that differ in one, up to the order of the others."""
    for rest in itertools.combinations_with_replacement(records, n - 1):
        for one, other in itertools.permutations(records, 2):
            yield (one, *rest), (other, *rest)
