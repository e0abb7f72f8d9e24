"""The joint law of the two latent counts of a group, tabulated for many values of the hyperparameters.

A group has n records, of which s are successes and f = n - s failures. The size n is negative binomial with a mean and
a shape r (``size_law``), the probability theta of success is Beta(a, b), and s is binomial given n and theta. With
kappa = a + b, the joint law is

  p(s, f) = [G(a + s) / (G(a) s!)] [G(b + f) / (G(b) f!)] [G(kappa) / G(kappa + n)] [G(r + n) / G(r)] q^n (1 - q)^r

with G = Gamma and q = mean / (mean + r). The second derivative of its log by s is at least minus that of log s!. So as
a function of s it is nowhere narrower than a Poisson law with mean s, for any hyperparameters; the same holds for f.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainc, gammaln

from dpbayes_cli.inference.groups.count_axis import STEP, interpolation, spaced_counts

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_SMALL = 4096
_SMOOTH_FROM, _SMOOTH_STEP = 1000, 1.0
"""The factor that depends on n alone varies over distances of about n; for large n, its nodes are further apart."""


@dataclass(frozen=True, eq=False)
class CountLaw:
    """Values of the parameters of the joint law of the counts; all arrays have shape (n_values,).

    Attributes:
        a: the first parameter of the Beta law of the success probability.
        b: the second parameter.
        mean: the mean number of records of a group.
        shape: the shape of the number of records.
    """

    a: Floats
    b: Floats
    mean: Floats
    shape: Floats

    def __len__(self) -> int:
        return len(self.a)

    def part(self, index: slice | Integers) -> CountLaw:
        """Return some of the values."""
        return CountLaw(self.a[index], self.b[index], self.mean[index], self.shape[index])


def log_rising(start: Floats, n: int) -> Floats:
    """Return log G(start + i) - log G(start) for i = 0..n, shape (len(start), n + 1)."""
    logs = np.log(start[:, None] + np.arange(n))
    return np.concatenate([np.zeros((len(start), 1)), np.cumsum(logs, axis=1)], axis=1)


class CountGrid:
    """Pairs of counts of successes and failures at which the joint law is tabulated.

    Attributes:
        s: ascending counts of successes, shape (n_s,).
        f: ascending counts of failures, shape (n_f,).
        n: the numbers of records, shape (n_s, n_f).
        least: the smallest number of records.
        is_small: whether all counts are so small that products over all smaller counts are affordable.
        may_be_empty: whether a group may have no records; if not, the law of the counts is restricted to groups that
            have one, but not divided by their probability.
    """

    def __init__(self, s: Integers, f: Integers, *, may_be_empty: bool = True) -> None:
        self.s, self.f, self.may_be_empty = s, f, may_be_empty
        self.n = s[:, None] + f
        self.least, most = int(self.n[0, 0]), int(self.n[-1, -1])
        self.is_small = most <= _SMALL
        self._places = self.n - self.least
        if not self.is_small:
            self._records = spaced_counts(self.least, most, STEP if self.least < _SMOOTH_FROM else _SMOOTH_STEP)
            self._basis = interpolation(self._records)[self.least - int(self._records[0]) :]
            self._basis = self._basis[: most - self.least + 1]

    def log_parts(self, law: CountLaw) -> tuple[Floats, Floats, Floats]:
        """Return the factors of the log joint law.

        Returns:
            By successes at ``s``, shape (n_values, n_s), by failures at ``f``, and by records from ``least`` on.
        """
        rate = np.log1p(law.shape / law.mean)[:, None]
        by_s, by_f = _log_choices(law.a, self.s), _log_choices(law.b, self.f)
        if self.is_small:
            n = np.arange(int(self.n[-1, -1]) + 1)
            rising = log_rising(law.shape, int(n[-1])) - log_rising(law.a + law.b, int(n[-1]))
            by_n = (rising - rate * n)[:, self.least :]
        else:
            n, kappa, shape = self._records, (law.a + law.b)[:, None], law.shape[:, None]
            at_nodes = gammaln(shape + n) - gammaln(shape) - gammaln(kappa + n) + gammaln(kappa) - rate * n
            by_n = (self._basis @ at_nodes.T).T
        by_n = by_n - (law.shape * np.log1p(law.mean / law.shape))[:, None]
        if self.least == 0 and not self.may_be_empty:
            by_n[:, 0] = -np.inf
        return by_s, by_f, by_n

    def tables(self, law: CountLaw) -> tuple[Floats, Floats]:
        """Return p(s, f) divided by its maximum, shape (n_values, n_s, n_f), and the logs of the maxima."""
        by_s, by_f, by_n = self.log_parts(law)
        logs = np.take(by_n, self._places, axis=1)
        logs += by_s[:, :, None]
        logs += by_f[:, None, :]
        largest = logs.max(axis=(1, 2))
        logs -= largest[:, None, None]
        return np.exp(logs, out=logs), largest


def _log_choices(start: Floats, counts: Integers) -> Floats:
    """Return log G(start + i) - log G(start) - log i! for counts i, shape (len(start), len(counts))."""
    start = start[:, None]
    return np.asarray(gammaln(start + counts) - gammaln(start) - gammaln(counts + 1.0))


def beta_cdf_tables(theta: Floats, a: float, b: float, s: Integers, f: Integers) -> Floats:
    """Return P(Beta(a + s, b + f) <= theta) for all pairs of counts, shape (len(theta), n_s, n_f).

    From s to s + 1 the probability falls by theta^(a + s) (1 - theta)^(b + f) / ((a + s) B(a + s, b + f)).
    """
    most_s, most_f = int(s[-1]), int(f[-1])
    steps = np.arange(most_s)
    rising = log_rising(np.array([a + b]), most_s + most_f)[0] + gammaln(a + b)
    by_s = gammaln(a + 1.0) + log_rising(np.array([a + 1.0]), most_s)[0, :-1]
    by_f = (gammaln(b) + log_rising(np.array([b]), most_f)[0])[f]
    base = rising[steps[:, None] + f] - by_s[:, None] - by_f
    result = np.empty((len(theta), len(s), len(f)))
    for i, x in enumerate(theta):
        falls = np.exp(base + (np.log(x) * (a + steps))[:, None] + np.log1p(-x) * (b + f))
        total = np.concatenate([np.zeros((1, len(f))), np.cumsum(falls, axis=0)])
        result[i] = betainc(a, b + f, x) - total[s]
    return result
