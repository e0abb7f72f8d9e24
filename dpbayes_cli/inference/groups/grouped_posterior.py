"""The result of the inference of groups: a summary of each group, and draws of what the groups have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats

Pooling = Literal["partial", "none"]
"""``partial``: the groups' parameters have a common law, which is learned. ``none``: each has the stated prior."""
WORKERS = 2
"""Independent parts of a computation run in this many threads."""
LEVELS = (0.05, 0.5, 0.95)
"""The levels of the reported quantiles."""
_NAME = "part"
_Part = TypeVar("_Part")
_Value = TypeVar("_Value")
DrawGroups = Callable[[int, "np.random.Generator"], "Floats"]


def map_parts(function: Callable[[_Part], _Value], parts: Sequence[_Part]) -> list[_Value]:
    """Return the values of a function, in order, computed in two threads unless this is one of them already."""
    if len(parts) == 1 or threading.current_thread().name.startswith(_NAME):
        return [function(part) for part in parts]
    with ThreadPoolExecutor(WORKERS, _NAME) as pool:
        return list(pool.map(function, parts))


@dataclass(frozen=True, eq=False)
class LargerSummary:
    """The posterior of the mean of each larger group: the mean of the law from which its groups are drawn.

    Attributes:
        means: the posterior mean of each parameter, shape (n_larger, n_parameters).
        sds: the posterior standard deviations, shape (n_larger, n_parameters).
        quantiles: the quantiles at ``LEVELS``, shape (n_larger, n_parameters, 3).
        above: the probability that a mean is above the mean over all larger groups, shape (n_larger, n_parameters).
    """

    means: Floats
    sds: Floats
    quantiles: Floats
    above: Floats


@dataclass(frozen=True, eq=False)
class GroupedPosterior:
    """The posterior of the parameters of groups.

    Attributes:
        means: the posterior mean of each parameter of each group, shape (n_groups, n_parameters).
        sds: the posterior standard deviations, shape (n_groups, n_parameters).
        quantiles: the quantiles at ``LEVELS``, shape (n_groups, n_parameters, 3).
        sizes: the posterior mean, 5 % and 95 % quantile of each group's number of valid records, shape (n_groups, 3).
        above: the probability that a parameter is above the mean over all groups, shape (n_groups, n_parameters).
        hyperparameters: the names of what the groups have in common, such as ``mean``, ``sd`` and ``records``.
        draws: independent posterior draws of the hyperparameters, shape (samples, len(hyperparameters)).
        new_group: draws of the parameters of a new group, shape (samples, n_parameters).
        method: how the posterior was computed, in one sentence for readers.
        monte_carlo: the largest Monte Carlo error of a group's mean, as a fraction of the group's posterior standard
            deviation; 0 if nothing was sampled.
        sampler: the function that ``draw`` calls.
        warnings: what a reader must know before using the posterior.
        larger: the summaries of larger groups, if the groups are within larger groups and learn from each other.
    """

    means: Floats
    sds: Floats
    quantiles: Floats
    sizes: Floats
    above: Floats
    hyperparameters: tuple[str, ...]
    draws: Floats
    new_group: Floats
    method: str
    monte_carlo: float
    sampler: DrawGroups = field(repr=False)
    warnings: tuple[str, ...] = ()
    larger: LargerSummary | None = None

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw the parameters of all groups, jointly with the hyperparameters.

        Returns:
            Shape (size, n_groups, n_parameters).
        """
        return self.sampler(size, rng)
