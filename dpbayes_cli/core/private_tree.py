"""Private trees: the edges of a network, chosen by exponential mechanisms from the counts of all pairs of columns.

One pass over the data counts every pair of columns. Each round draws one edge among those that close no cycle. The
drawn tree is public, and its tables are computed from the same counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import ClassVar, TypeVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.columns import AnyColumn, Column, CutColumn, NumericColumn, RecordPolicy, cell_of
from dpbayes_cli.core.private_choice import Chosen, Parents, PrivateChoice, parents_in
from dpbayes_cli.core.statistic import ExactEvidence, Statistic, TableCounts, Witness
from dpbayes_cli.privacy.dag import MAX_CELLS
from dpbayes_cli.privacy.grid import EXACT, GRID_SLACK, CellWeights, cell_weights
from dpbayes_cli.privacy.kinds import BoundedRange
from dpbayes_cli.privacy.lazy_numpy import np

MAX_PAIR_CELLS = 1 << 20
"""The largest number of cells of all pairs of columns together, which are counted at once."""
MIN_VARIABLES = 3
"""Two variables have only one tree."""
_ROUND_DOWN = Context(prec=30, rounding=ROUND_FLOOR)

Edge = tuple[int, int]  # the indices of two variables, in ascending order
Number = TypeVar("Number", Integers, Floats)


@dataclass(frozen=True)
class PrivateTree(PrivateChoice):
    """The law of a tree that is nearly the maximum spanning tree of the pairs' distances from independence.

    The score of an edge (a, b) is s = sum over cells of |n n_ab - n_a n_b|, where n is the number of records and n_ab,
    n_a, n_b are the exact counts of a pair and of its two columns: n times the L1 distance of the pair's counts from
    those of independent columns. Each of the d - 1 rounds draws an edge that joins two components of the edges drawn
    before, with probability proportional to exp(e s / (2 D)), by exact integer weights. Here e is epsilon divided by
    the number of rounds, and D is the sensitivity of s.

    The scores of pairs with different numbers of cells are compared as they are: all are n times a number of records,
    which is what a wrong edge costs the tables. Nothing is subtracted for the noise that tables with many cells will
    have.

    Privacy: see ``sensitivity``. If every score changes by at most D, the log ratio of the probabilities of an edge
        under two neighbors varies by at most e over the edges (bounded range). Integer weights add less than
        ``GRID_SLACK``, which is subtracted from e beforehand. The edges among which a round draws follow from earlier
        rounds, which are public: epsilons and Renyi curves add up under such adaptive composition. The directions of
        the edges are post-processing.
    Source: McKenna, Miklau and Sheldon 2021, Algorithm 2 (MST; its scores compare exact pairs with noisy margins);
        McSherry and Talwar 2007; Durfee and Rogers 2019 (bounded range). The sensitivity is ours.

    Attributes:
        names: the variables.
        sizes: the number of values of each variable.
        root: the variable without parents; the edges point away from it.
        epsilon: the epsilon of all rounds together; each round gets an equal part.
    """

    key: ClassVar[str] = "structure"
    keeps_parameters: ClassVar[bool] = False
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    root: str
    epsilon: Decimal

    @classmethod
    def of_columns(cls, columns: Sequence[Column | CutColumn], root: str, epsilon: Decimal) -> PrivateTree:
        """Return the law for public columns.

        Raises:
            ValueError: there are too few columns to choose a tree, or too many cells to count all pairs.
        """
        sizes = tuple(len(column.levels) for column in columns)
        if len(sizes) < MIN_VARIABLES:
            raise ValueError(f"{len(sizes)} variables have only one tree; expected at least {MIN_VARIABLES} variables")
        cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
        if cells > MAX_PAIR_CELLS:
            raise ValueError(f"all pairs of variables have {cells:,} cells, expected at most {MAX_PAIR_CELLS:,}")
        law = cls(tuple(column.role for column in columns), sizes, root, epsilon)
        if law.most_parameters > MAX_CELLS:
            raise ValueError(f"a tree may have {law.most_parameters:,} cells, expected at most {MAX_CELLS:,}")
        return law

    @property
    def rounds(self) -> int:
        """The number of drawn edges."""
        return len(self.names) - 1

    @property
    def most_parameters(self) -> int:
        """An upper bound on the number of cells of the tables of any tree.

        What is refused for the size of its tables must not depend on the drawn tree.
        """
        pairs = sorted(self.sizes[a] * self.sizes[b] for a, b in self.edges)
        return sum(pairs[-self.rounds :]) + max(self.sizes)

    @property
    def guarantee(self) -> BoundedRange:
        """The guarantee of the tree."""
        return BoundedRange(self.epsilon, self.rounds)

    def described(self) -> str:
        """Return a noun phrase that says what is chosen."""
        return "a private tree of the variables"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the release assumes about the tree."""
        return (
            "The tree of the variables was chosen privately from the data by the first step of this release. The "
            "variables, their values and the root were chosen without looking at the records.",
            "The posterior treats the tree as fixed in advance: it makes no use of the small amount of information "
            "about the data that the tree contains.",
        )

    @property
    def edges(self) -> list[Edge]:
        """All pairs of variables."""
        return list(itertools.combinations(range(len(self.names)), 2))

    def extremes(self) -> Sequence[Chosen]:
        """Return the star and a path."""
        path = [self.root, *(name for name in self.names if name != self.root)]
        before = dict(zip(path[1:], path, strict=False))
        return [self.star(), tuple((name, () if name == self.root else (before[name],)) for name in self.names)]

    def star(self) -> Parents:
        """Return the tree that plans use before a tree is drawn: every variable has the root as its parent."""
        return tuple((name, () if name == self.root else (self.root,)) for name in self.names)

    def checked(self, chosen: Chosen) -> Parents:
        """Return the chosen parents; raise ``SpecError`` unless the law can choose them."""
        parents = dict(parents_in(chosen))
        reached: set[str] = set()
        for _ in self.names:
            reached |= {name for name, of in parents.items() if set(of) <= reached}
        single = all(len(parents.get(name, ())) == (name != self.root) for name in self.names)
        if tuple(parents) != self.names or len(chosen) != len(parents) or not single or reached != set(self.names):
            raise SpecError(f"expected a tree of all variables with the root {self.root!r}", where=self.key)
        return parents_in(chosen)

    def first_statistic(self, columns: Sequence[AnyColumn], policy: RecordPolicy) -> Statistic:
        """Return the counts of all pairs of variables.

        Privacy: a replaced record moves from one cell to another in every pair: at most 2 in L1 for each pair. Two
            records that differ in every variable attain this. The counts never leave the process.
        Source: derived here.
        """
        tables = tuple(
            TableCounts((self.names[a], self.names[b]), (self.sizes[a], self.sizes[b])) for a, b in self.edges
        )
        discrete = [column for column in columns if not isinstance(column, NumericColumn)]
        record, neighbor = (tuple(cell_of(column, code) for column in discrete) for code in (0, 1))
        components = tuple(map(str, range(sum(table.size for table in tables))))
        change = 2 * len(tables)
        return Statistic(components, tables, change, Witness(record, neighbor), change, largest_change=1)

    def sensitivity(self, n_records: int) -> int:
        """Return the sensitivity D of the scores: 4 (n - 1) if every pair has a variable of two values, or 6 (n - 1).

        Privacy: let S be the signs of n n_ab - n_a n_b after a record (x, y) is replaced by (x', y'). The score after
            the change is the sum of S times these terms, and the score before is at least this sum with the counts
            before. So it grows by at most the difference of the two sums. With the n - 1 other records (x_i, y_i) it is
            the sum over i of S(x',y') - S(x,y) - S(x_i,y') + S(x_i,y) - S(x',y_i) + S(x,y_i), which is at most 6 for
            each i. If x_i is x or x', two of these six terms cancel, and likewise if y_i is y or y': then it is at most
            4. This holds for all i if a variable has two values and x differs from x'. If x = x', only S(x,y') -
            S(x,y) - S(x_i,y') + S(x_i,y) is left, at most 4 too. The same with the data sets exchanged bounds a
            decrease. With two values, n - 1 equal records and one record that joins them attain 4 (n - 1). With
            more, k^2 records, 1, k - 1, k - 1 and (k - 1)^2 of them in the cells (x, y), (x, y*), (x*, y) and (x*, y*),
            attain 6 (n - 1) - 4 (k - 1).
        Source: ours. With margins that are known or noisy, |n n_ab - n_a n_b| moves by 2 n only.
        """
        can_be_six = sum(size > 2 for size in self.sizes) > 1
        return (6 if can_be_six else 4) * max(n_records - 1, 1)

    def power(self, n_records: int) -> Decimal:
        """Return how much one unit of a score raises a log weight, rounded down."""
        epsilon = _ROUND_DOWN.subtract(_ROUND_DOWN.divide(self.epsilon, Decimal(self.rounds)), GRID_SLACK)
        return _ROUND_DOWN.divide(epsilon, Decimal(2 * self.sensitivity(n_records)))

    def weights(self, losses: Sequence[int], power: Decimal) -> CellWeights:
        """Return the integer weights of the edges of one round, given the largest score minus each score."""
        logs = -float(power) * np.array(losses, dtype=np.float64)
        return cell_weights(logs, lambda edge: EXACT.multiply(power, Decimal(-losses[edge])))

    def draw(self, evidence: ExactEvidence) -> Chosen:
        """Draw the tree, with the operating system's randomness.

        Privacy: see the class; only the tree is returned.
        Source: see the class.
        """
        scores = self.scores(self.counts(evidence), evidence.n_records)
        power = self.power(evidence.n_records)
        return self.directed(self.spanning_tree(scores, lambda losses: self.weights(losses, power).draw(1)[0]))

    def simulate(self, scores: Mapping[Edge, int], n_records: int, rng: np.random.Generator) -> Parents:
        """Draw a tree in floats, for simulations only."""
        power = float(self.power(n_records))
        return self.directed(
            self.spanning_tree(
                scores, lambda losses: int(np.argmax(rng.gumbel(size=len(losses)) - power * np.array(losses, float)))
            )
        )

    def scores(self, counts: Mapping[Edge, Integers], n_records: int) -> dict[Edge, int]:
        """Return the score of each edge, given the counts of its pair, of shape (size of a, size of b)."""
        scores = {}
        for edge, table in counts.items():
            exact = table.astype(object)  # integers without limit
            terms = n_records * exact - np.outer(exact.sum(axis=1), exact.sum(axis=0))
            scores[edge] = int(np.abs(terms).sum())
        return scores

    def spanning_tree(self, scores: Mapping[Edge, int], draw: Callable[[Sequence[int]], int]) -> list[Edge]:
        """Return the edges of a tree, drawn one after the other.

        Args:
            draw: returns the index of an edge, given the largest score of the round minus the score of each edge.
        """
        component, chosen = list(range(len(self.names))), []
        for _ in range(self.rounds):
            candidates = [(a, b) for a, b in self.edges if component[a] != component[b]]
            largest = max(scores[edge] for edge in candidates)
            a, b = candidates[draw([largest - scores[edge] for edge in candidates])]
            chosen.append((a, b))
            component = [component[a] if each == component[b] else each for each in component]
        return chosen

    def directed(self, edges: Sequence[Edge]) -> Parents:
        """Return the parents of each variable, with all edges pointing away from the root."""
        parents: dict[int, tuple[int, ...]] = {self.names.index(self.root): ()}
        for _ in edges:
            parents |= {
                child: (parent,)
                for edge in edges
                for parent, child in (edge, edge[::-1])
                if parent in parents and child not in parents
            }
        return tuple((name, tuple(self.names[p] for p in parents[i])) for i, name in enumerate(self.names))

    def final_values(
        self, evidence: ExactEvidence, chosen: Chosen, columns: Sequence[AnyColumn], statistic: Statistic
    ) -> tuple[int, ...]:
        """Return the tables of the chosen tree, computed from the counts of pairs."""
        counts, index = self.counts(evidence), {name: i for i, name in enumerate(self.names)}
        values: list[int] = []
        for table in statistic.tables:
            axes = [index[role] for role in table.roles]
            a, b = sorted(axes) if len(axes) > 1 else next(edge for edge in counts if axes[0] in edge)
            pair = counts[a, b]
            if len(axes) == 1:
                pair = pair.sum(axis=1 if axes == [a] else 0)
            values += (pair if axes[0] == a else pair.T).ravel().tolist()
        return tuple(values)

    def counts(self, evidence: ExactEvidence) -> dict[Edge, Integers]:
        """Return the table of each pair that the first step read."""
        shapes = [(self.sizes[a], self.sizes[b]) for a, b in self.edges]
        ends = list(itertools.accumulate(map(math.prod, shapes)))[:-1]
        parts = np.split(np.array(evidence.values, dtype=np.int64), ends)
        return {edge: part.reshape(shape) for edge, part, shape in zip(self.edges, parts, shapes, strict=True)}
