"""The hyperparameters of groups with several categories."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


@dataclass(frozen=True, eq=False)
class CategoryLaw:
    """The hyperparameters of groups with several categories.

    Attributes:
        a: the parameters of the Dirichlet law of the category probabilities, shape (n_categories,).
        mean: the mean number of records of a group.
        shape: the shape of the number of records.
    """

    a: Floats
    mean: float
    shape: float

    @cached_property
    def kappa(self) -> float:
        """The precision of the Dirichlet law."""
        return float(self.a.sum())

    @cached_property
    def log_q(self) -> float:
        """The log of the factor q of the size law."""
        return float(-np.log1p(self.shape / self.mean))

    @property
    def is_overdispersed(self) -> bool:
        """Whether probabilities differ so much between groups that sums over counts must be convolutions."""
        return self.kappa < self.shape + 1.0
