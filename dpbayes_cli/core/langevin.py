"""Unadjusted Langevin chains with full gradients for convex losses; start, step size and number of steps are public."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.core.design import Design, DesignMatrix
from dpbayes_cli.core.joint_codes import JointCodes
from dpbayes_cli.core.losses import Loss
from dpbayes_cli.core.plan import Chain
from dpbayes_cli.core.released import Draws
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.privacy.chain_arithmetic import MAX_CHUNK_RECORDS, SLOPE_ERROR, ChainArithmetic, chain_arithmetic
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.secret_normals import LOG_ERROR, RoundedNormals

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

Normals = Callable[[tuple[int, ...]], "Floats"]

_DENSE_PIECE, _SPARSE_PIECE = 1 << 12, MAX_CHUNK_RECORDS
"""The number of records whose gradients are computed at once, for a dense and for a sparse design matrix. The dense
rows of this many records fit into the processor's caches."""
_MAX_PREDICTORS = 1 << 24
"""The largest number of linear predictors, over all chains, that one thread holds at a time; they take 128 MB."""
_MAX_APPROXIMATED_WIDTH = 300
_THREADS = 2
_MIN_PARALLEL_ENTRIES = 1 << 22
"""A design matrix with more entries than this is processed by several threads."""


@dataclass(frozen=True)
class Langevin(Chain):
    """The chain w <- w - h grad U(w) + sqrt(2 h) N(0, I), which starts at w = 0 and releases its rounded T-th iterate.

    The potential is U(w) = beta * sum_i loss(x_i'w; y_i) + (tau / 2) |w|^2. Each draw comes from an independent chain.

    Privacy: ``descent_mu`` states the cost; start, step size and number of steps are public. The chain runs on a
        lattice. Its noise is drawn exactly and is slightly wider, so that the cost also holds in double precision
        (``chain_arithmetic``).
    Source: Bok, Su and Altschuler 2024; the rest is derived here.

    Attributes:
        width: the number of coefficients.
        likelihood_power: the power of the likelihood, beta.
        tau: the prior precision.
        step_size, n_steps: the step size h and the number of steps T.
        grid: a power of two; released coefficients are rounded to its multiples.
        n_records: the public number of records, or a public upper limit.
    """

    draws_at_once: ClassVar[bool] = True
    can_be_dictated: ClassVar[bool] = False

    loss: Loss
    width: int
    likelihood_power: float
    tau: float
    step_size: float
    n_steps: int
    grid: float
    n_records: int
    row_norm: float

    @cached_property
    def arithmetic(self) -> ChainArithmetic:
        """The lattice and the noise of the chain as it runs in floating point."""
        curvature = self.loss.curvature_bound * self.row_norm**2 * self.n_records
        return chain_arithmetic(
            width=self.width,
            n_records=self.n_records,
            row_norm=self.row_norm,
            slope=self.loss.slope_bound * self.row_norm,
            excess=float(self.loss.value(np.zeros(3), np.array([-1.0, 0.0, 1.0])).max()),
            curvature=self.likelihood_power * curvature,
            power=self.likelihood_power,
            tau=self.tau,
            step_size=self.step_size,
        )

    @property
    def has_normal_approximation(self) -> bool:
        """Whether the design is narrow enough to compute a normal approximation of the last iterate."""
        return self.width <= _MAX_APPROXIMATED_WIDTH

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the guarantee about the machine's arithmetic."""
        return (
            "The guarantee holds for the chain as it runs in double precision: each step is rounded to a public "
            "lattice, and the noise has exactly the law of rounded normal numbers. The noise is wider by a factor of "
            f"1 + {self.arithmetic.widening:.1g}, which covers the rounding errors of a step for all records. "
            "It is assumed that the arithmetic rounds as IEEE 754 specifies; that sums of products are "
            "computed by such multiplications and additions, in any order; that a slope of the loss has an error of at "
            f"most 2^{math.log2(SLOPE_ERROR):.0f} "
            "times the largest slope; and that the logarithm x of a random number has an error of at most "
            f"2^{math.log2(LOG_ERROR):.0f} (1 + x).",
        )

    def is_possible(self, draw: Sequence[float]) -> bool:
        """Return whether a draw is on the grid."""
        return all((value / self.grid).is_integer() for value in draw)

    def run(self, evidence: ExactEvidence, size: int) -> Draws:
        """Run independent chains on the rows of the design and return their last iterates as draws."""
        drawn = self.draw(require_type(evidence.design, DesignMatrix), size)
        return Draws(tuple(tuple(point) for point in drawn.tolist()))

    def draw(self, matrix: DesignMatrix, size: int, normals: Normals | None = None) -> Floats:
        """Run independent chains and return their last iterates, shape (size, width); no other may be released.

        Args:
            size: the number of chains.
            normals: for simulations only: a function that draws standard normal numbers of a given shape, in place of
                the secret generator.
        """
        lattice = self.arithmetic.lattice
        scale = self.arithmetic.noise / lattice
        noise = RoundedNormals(scale) if normals is None else lambda shape: np.rint(scale * normals(shape))
        w = np.zeros((self.width, size))
        with ExitStack() as stack:
            gradient = Gradient(matrix, self.loss, stack, size)
            for _ in range(self.n_steps):
                w = self.noiseless_step(gradient, w) + lattice * noise(w.shape)
        return np.asarray(np.round(w / self.grid) * self.grid + 0.0).T  # + 0.0: no negative zero

    def noiseless_step(self, gradient: Gradient, w: Floats) -> Floats:
        """Return the next point of each chain before noise is added, rounded to the lattice, shape (width, size)."""
        lattice, reach = self.arithmetic.lattice, self.arithmetic.reach
        w = np.clip(w, -reach, reach)
        drift = self.likelihood_power * gradient(w) + self.tau * w
        return np.asarray(lattice * np.rint((w - self.step_size * drift) / lattice))


class Gradient:
    """The gradient of the sum of losses, computed piece by piece and added up in the order of the pieces.

    The rounding error of every addition is kept and added at the end, so that the error of the sum does not grow with
    the number of pieces (Ogita, Rump and Oishi 2005).

    Args:
        stack: the exit stack that shuts down the threads.
        chains: the number of points at which gradients are computed at once.
    """

    def __init__(self, matrix: DesignMatrix, loss: Loss, stack: ExitStack, chains: int = 1) -> None:
        self._loss, design = loss, matrix.rows.design
        entries = sum(len(y) for _, y in matrix.blocks) * design.entries_per_row
        size = min(_DENSE_PIECE if design.dense else _SPARSE_PIECE, max(1, _MAX_PREDICTORS // chains))
        starts = ((x, y, start) for x, y in matrix.blocks for start in range(0, len(y), size))
        cut = [(x[start : start + size], y[start : start + size]) for x, y, start in starts]
        threads = _THREADS if entries > _MIN_PARALLEL_ENTRIES else 1
        self._map: Any = map
        if threads > 1:
            from concurrent.futures import ThreadPoolExecutor

            self._map = stack.enter_context(ThreadPoolExecutor(threads)).map
        if design.dense:
            pieces: list[tuple[Any, Floats]] = cut
        else:
            n_records = sum(len(y) for _, y in cut)
            pieces = [*_joint_pieces(design, cut, min(size, math.ceil(n_records / threads)))]
        ends = np.linspace(0, len(pieces), threads + 1).astype(int)
        self._groups = [pieces[start:end] for start, end in itertools.pairwise(ends)]

    def __call__(self, w: Floats) -> Floats:
        """Return the gradient at each point; points and gradients have the shape (width, size)."""
        single = w.shape[1] == 1
        points = w[:, 0] if single else w

        def group_gradient(pieces: list[tuple[Any, Floats]]) -> Floats:
            total, rounding = np.zeros(points.shape), np.zeros(points.shape)
            for x, targets in pieces:
                y = targets if single else targets[:, None]
                if isinstance(x, JointCodes):
                    term = x.sums(self._loss.slope(x.times(points), y))
                else:
                    wide = x.astype(np.float64, copy=False)
                    term = wide.T @ self._loss.slope(wide @ points, y)
                before, total = total, total + term
                added = total - before
                rounding += (before - (total - added)) + (term - added)
            return total + rounding

        total = np.zeros(points.shape)
        for group_total in self._map(group_gradient, self._groups):
            total += group_total
        return total[:, None] if single else total


def _joint_pieces(
    design: Design, blocks: Sequence[tuple[Any, Floats]], size: int
) -> Iterator[tuple[JointCodes, Floats]]:
    """Yield the records as joint codes, in pieces of consecutive blocks with at most ``size`` records if possible."""
    held: list[tuple[Any, Floats]] = []
    for i, block in enumerate(blocks):
        held.append(block)
        following = len(blocks[i + 1][1]) if i + 1 < len(blocks) else size
        if sum(len(y) for _, y in held) + following > size:
            codes = JointCodes(design, [x for x, _ in held])
            yield codes, np.concatenate([y for _, y in held])[codes.order]
            held = []
