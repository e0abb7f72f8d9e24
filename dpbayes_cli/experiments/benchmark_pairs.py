"""The joint shares of all pairs of columns, for the study ``benchmark``: a private tree beside MST and AIM."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.joint_law import JointLaw
from dpbayes_cli.core.private_choice import Parents
from dpbayes_cli.core.private_tree import Edge, PrivateTree
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.experiments.benchmark_tasks import (
    FileTask,
    Release,
    Scored,
    Trial,
    class_scores,
    inference_of,
    quantiles,
    random_state,
)
from dpbayes_cli.experiments.mst_aim import aim, mst
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.workflow.pricing import PlannedRelease, price
from dpbayes_cli.workflow.tree_split import pairs_of_tree

_TREE_SHARE = Decimal("0.2")
"""The part of epsilon that is spent on a private tree."""


class PairsTask(FileTask):
    """The joint shares of all pairs of columns, and predictions of the last column by a regression on synthetic rows.

    Intervals are for the pairs that a released tree joins. A lower end below one record of the file is 0, because a
    model never has an impossible pair of values, and the file has many.
    """

    def planned(self, epsilon: Decimal, gaussian: bool = False) -> PlannedRelease:
        """Return the release of a private tree and its tables, with Laplace noise or Gaussian noise of equal rho."""
        tree, cost = _TREE_SHARE * epsilon, {"epsilon": str((1 - _TREE_SHARE) * epsilon)}
        if gaussian:
            rho, rounds = self.planned(epsilon).plan.guarantee.rho, self.tree.rounds
            tree, cost = (8 * rounds * _TREE_SHARE**2 * rho).sqrt(), {"rho": f"{rho * (1 - _TREE_SHARE**2):.9f}"}
        private = {"kind": "tree", "epsilon": f"{tree:.9f}"}
        mechanism = "gaussian" if gaussian else "laplace"
        request = {"mechanism": mechanism, "privacy": cost, "structure": {"private": private}}
        return price(build_spec(self.document | request))

    @cached_property
    def model(self) -> Any:
        return self.planned(Decimal(1)).model

    @cached_property
    def tree(self) -> PrivateTree:
        """The law of the tree."""
        return require_type(self.planned(Decimal(1)).plan.choice, PrivateTree)

    def counts(self, codes: Integers) -> dict[Edge, Integers]:
        """Return the counts of all pairs of columns."""
        sizes = self.tree.sizes
        cells = ((a, b, codes[:, a] * sizes[b] + codes[:, b]) for a, b in self.tree.edges)
        return {
            (a, b): np.bincount(each, minlength=sizes[a] * sizes[b]).reshape(sizes[a], sizes[b]) for a, b, each in cells
        }

    @cached_property
    def truth(self) -> Floats:
        return self._shares(self.counts(self.population))

    def _shares(self, pairs: Any) -> Floats:
        return np.concatenate([np.ravel(pairs[edge] / pairs[edge].sum()) for edge in self.tree.edges])

    def error(self, scored: Scored, trial: Trial) -> float:
        """Return the mean total variation distance from the pairs of the records."""
        exact = self._shares(self.counts(trial.records))
        return float(0.5 * np.abs(scored.estimate - exact).sum() / len(self.tree.edges))

    def apply(self, method: str, trials: Sequence[Trial], release: Release, rng: np.random.Generator) -> list[Scored]:
        noise, scored = release.noise(), []
        for trial in trials:
            counts, ends = self.counts(trial.records), None
            pairs: Any = counts
            if method == "non-private":
                made = trial.records
            elif method in {"mst", "mst-replace-one", "aim"}:
                exact = {edge: table.astype(np.float64) for edge, table in counts.items()}
                rho = float(self.planned(release.epsilon).plan.guarantee.rho)
                if method == "aim":
                    pairs, made = aim(exact, rho, self.n, random_state(rng), self.steps, self.rounds)
                else:
                    changes = 1 if method == "mst" else 2
                    pairs, made = mst(exact, rho, self.n, random_state(rng), self.steps, changes)
            else:
                pairs, made, ends = self._released(method, counts, release.epsilon, noise, rng)
            scored.append(Scored(self._shares(pairs), ends, *self._predicted(made, trial.test)))
        return scored

    def _released(
        self,
        method: str,
        counts: dict[Edge, Integers],
        epsilon: Decimal,
        noise: np.random.Generator,
        rng: np.random.Generator,
    ) -> tuple[dict[Edge, Floats], Integers, tuple[Floats, Floats]]:
        """Simulate a release; return pairs of the posterior mean, a synthetic table, and intervals of pairs."""
        planned, tree = self.planned(epsilon, method == "tree-gaussian"), self.tree
        law = require_type(planned.plan.choice, PrivateTree)
        parents = law.simulate(law.scores(counts, self.n), self.n, noise)
        model = require_type(planned.at_choice(parents).model, type(self.model))
        step = planned.mechanism.plan(model, planned.policy, planned.spec.options, self.n).final_step
        values = tuple(int(each) for edge in tree.edges for each in counts[edge].ravel())
        exact = law.final_values(ExactEvidence(values, self.n), parents, model.columns, step.statistic)
        released = np.array(exact) + step.noise.simulate(noise, len(exact))
        observation = planned.mechanism.observation(model, planned.policy, released.tolist(), step.noise, self.n)
        (draws,) = draw_many([observation], inference_of(method), self.n_draws, rng)
        joint = require_type(model.joint_law("", draws, None), JointLaw)
        pairs = pairs_of_tree(tree, parents, draws.mean(axis=0))
        low, high = ({edge: np.full(counts[edge].shape, np.nan) for edge in tree.edges} for _ in range(2))
        for edge in _joined(tree, parents):
            low[edge], high[edge] = quantiles(joint.margin(edge))
            low[edge][low[edge] * len(self.population) < 1.0] = 0.0
        whole = [np.concatenate([np.ravel(each[edge]) for edge in tree.edges]) for each in (low, high)]
        return pairs, joint.records(0, self.n, rng), (whole[0], whole[1])

    def _predicted(self, made: Integers, test: Integers) -> tuple[float, float]:
        """Return the loss and the accuracy of a logistic regression of the last column on the others, with a ridge."""
        blocks = [np.eye(size) for size in self.tree.sizes[:-1]]
        x, new = (
            np.hstack([np.ones((len(codes), 1)), *(block[codes[:, i]] for i, block in enumerate(blocks))])
            for codes in (made, test)
        )
        beta = np.zeros(x.shape[1])
        for _ in range(10):  # Newton's method
            p = expit(x @ beta)
            curvature = (x.T * (p * (1.0 - p))) @ x + np.eye(len(beta))
            beta += np.linalg.solve(curvature, x.T @ (made[:, -1] - p) - beta)
        return class_scores(expit(new @ beta), test[:, -1].astype(np.float64))


def _joined(tree: PrivateTree, parents: Parents) -> list[Edge]:
    index = {name: i for i, name in enumerate(tree.names)}
    pairs = [(index[name], index[of]) for name, several in parents for of in several]
    return [(min(pair), max(pair)) for pair in pairs]
