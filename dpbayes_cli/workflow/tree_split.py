"""Simulate how a budget is best divided between a private tree and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from time import process_time
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from dpbayes_cli.bundle.report.digits import rounded
from dpbayes_cli.core.model import NoisyStatistics
from dpbayes_cli.core.private_choice import Parents
from dpbayes_cli.core.private_tree import Edge, PrivateTree
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.privacy.kinds import GaussianDP
from dpbayes_cli.workflow.pricing import PlannedRelease

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_SHARES = tuple(Decimal(k) / 20 for k in (1, 2, 3, 4, 6, 8, 10, 14))
_MAX_DATA_SETS, _SECONDS = 20, 1.0
_MAX_COUNTED = 50_000_000
"""The largest number of records times pairs of variables that are counted for one data set."""
_NEARLY = 1.05
"""Shares whose error is at most this many times the smallest one are as good as the best."""


@dataclass(frozen=True)
class TreeSplit:
    """The mean total variation distance between the released and the exact pairs of variables, by share of the tree.

    Attributes:
        total: the cost of tree and tables together, such as ``epsilon of 1``.
        errors: the error at each epsilon of the tree; the tables get the rest of the total.
        stated: the epsilon of the tree that the request states.
        n_data_sets: the number of simulated data sets.
    """

    total: str
    errors: Mapping[Decimal, float]
    stated: Decimal
    n_data_sets: int

    @property
    def sentence(self) -> str:
        """A sentence that states which part of epsilon is best spent on the tree."""
        best = min(self.errors.values())
        good = [float(epsilon) for epsilon, error in self.errors.items() if error <= _NEARLY * best]
        most = f" to {max(good):.2g}" if max(good) > min(good) else ""
        off, asked = (rounded(error, best) for error in (best, self.errors[self.stated]))
        return (
            f"Of the total {self.total}, it is best to spend an epsilon of {min(good):.2g}{most} on the tree. In "
            f"{self.n_data_sets} data sets simulated from random trees, the error of pairs of variables is then {off} "
            f"in total variation on average; with the requested {float(self.stated):.2g}, it is {asked}."
        )


def simulate_tree_split(planned: PlannedRelease, n_records: int, seed: int = 0) -> TreeSplit | None:
    """Simulate releases with several divisions of the epsilon or the rho; None for mu, or with too many records.

    The tables are read off the noisy counts, with negative counts set to 0; inference does better at every share.
    """
    law, tables = require_type(planned.plan.choice, PrivateTree), planned.plan.final_step.guarantee
    if isinstance(tables, GaussianDP) or n_records * len(law.edges) > _MAX_COUNTED:
        return None
    if tables.epsilon.is_finite():
        total = law.epsilon + tables.epsilon
        spent: dict[Decimal, dict[str, Decimal | None]]
        spent = {total * share: {"epsilon": total * (1 - share)} for share in _SHARES}
        spent[law.epsilon] = {"epsilon": tables.epsilon}
    else:  # a tree of epsilon e costs e^2 / (8 (d - 1)) of rho
        total, pair = law.guarantee.rho + tables.rho, {"epsilon": None, "delta": None}
        shares = [share**2 for share in _SHARES]
        spent = {(8 * law.rounds * total * share).sqrt(): {"rho": total * (1 - share), **pair} for share in shares}
        spent[law.epsilon] = {"rho": tables.rho, **pair}
    rng, started = np.random.default_rng(seed), process_time()
    errors: dict[Decimal, list[float]] = {epsilon: [] for epsilon in sorted(spent)}
    options = {epsilon: msgspec.structs.replace(planned.spec.options, **cost) for epsilon, cost in spent.items()}
    n_data_sets = 0
    while n_data_sets < _MAX_DATA_SETS and (process_time() < started + _SECONDS or not n_data_sets):
        n_data_sets += 1
        model = require_type(planned.at_choice(_random_tree(law, rng)).model, NoisyStatistics)
        statistic = planned.plan.steps[0].statistic
        _, values = model.simulated_statistic(statistic, planned.policy, n_records, rng)
        evidence = ExactEvidence(values, n_records)
        counts = law.counts(evidence)
        scores = law.scores(counts, n_records)
        for epsilon, stated_options in options.items():
            parents = replace(law, epsilon=epsilon).simulate(scores, n_records, rng)
            chosen = planned.at_choice(parents).model
            step = planned.mechanism.plan(chosen, planned.policy, stated_options, n_records).final_step
            exact = law.final_values(evidence, parents, chosen.columns, step.statistic)
            released = np.array(exact) + step.noise.simulate(rng, len(exact))
            pairs = pairs_of_tree(law, parents, np.maximum(released, 0.0))
            off = [0.5 * np.abs(pairs[edge] - counts[edge] / n_records).sum() for edge in law.edges]
            errors[epsilon].append(float(np.mean(off)))
    means = {epsilon: float(np.mean(each)) for epsilon, each in errors.items()}
    return TreeSplit(f"{next(iter(spent[law.epsilon]))} of {float(total):.6g}", means, law.epsilon, n_data_sets)


def _random_tree(law: PrivateTree, rng: np.random.Generator) -> Parents:
    """Return a tree in which each variable's parent is one of those before it in a random order."""
    root = law.names.index(law.root)
    order = [root, *(int(i) for i in rng.permutation(len(law.names)) if i != root)]
    edges = [(order[int(rng.integers(k))], order[k]) for k in range(1, len(order))]
    return law.directed([(min(edge), max(edge)) for edge in edges])


def pairs_of_tree(law: PrivateTree, parents: Parents, cells: Sequence[float] | Floats) -> dict[Edge, Floats]:
    """Return the joint law of every pair of variables of a tree.

    Args:
        cells: the counts or the conditional probabilities of all tables, in the order of the statistic; not negative.
    """
    index = {name: i for i, name in enumerate(law.names)}
    sizes = [(*(law.sizes[index[parent]] for parent in of), law.sizes[index[name]]) for name, of in parents]
    ends = np.cumsum([int(np.prod(size)) for size in sizes])[:-1]
    tables = [part.reshape(size) for part, size in zip(np.split(np.asarray(cells, float), ends), sizes, strict=True)]
    rows = [(table + 1e-12) / (table + 1e-12).sum(axis=-1, keepdims=True) for table in tables]
    margins: dict[int, Floats] = {}
    joint: dict[Edge, Floats] = {}
    waiting = list(range(len(parents)))
    while waiting:
        i = next(i for i in waiting if all(index[parent] in margins for parent in parents[i][1]))
        waiting.remove(i)
        if not parents[i][1]:
            margins[i] = rows[i]
            continue
        parent = index[parents[i][1][0]]
        for j, margin in margins.items():
            joint[j, i] = (np.diag(margin) if j == parent else joint[j, parent]) @ rows[i]
            joint[i, j] = joint[j, i].T
        margins[i] = margins[parent] @ rows[i]
    return joint
