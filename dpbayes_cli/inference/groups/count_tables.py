"""The joint law of the two latent counts of a group, tabulated for many values of the hyperparameters.

A group has n records, of which s are successes and f = n - s failures. The size n is negative binomial with a mean and
a shape r (``size_law``), the probability theta of success is Beta(a, b), and s is binomial given n and theta. With
kappa = a + b, the joint law is

  p(s, f) = [G(a + s) / (G(a) s!)] [G(b + f) / (G(b) f!)] [G(kappa) / G(kappa + n)] [G(r + n) / G(r)] q^n (1 - q)^r

with G = Gamma and q = mean / (mean + r). The second derivative of its log by s is at least minus that of log s!, so
that as a function of s it is nowhere narrower than a Poisson law with mean s, for any hyperparameters; likewise by f.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainc, gammaln

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


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


def log_parts(law: CountLaw, most_s: int, most_f: int) -> tuple[Floats, Floats, Floats]:
    """Return the factors of the log joint law: by successes, by failures and by records, at all counts from 0."""
    most = most_s + most_f
    factorial = log_rising(np.ones(1), max(most_s, most_f))
    sizes = log_rising(law.shape, most) - log_rising(law.a + law.b, most)
    sizes -= law.shape[:, None] * np.log1p(law.mean / law.shape)[:, None]
    sizes -= np.log1p(law.shape / law.mean)[:, None] * np.arange(most + 1)
    by_s = log_rising(law.a, most_s) - factorial[:, : most_s + 1]
    by_f = log_rising(law.b, most_f) - factorial[:, : most_f + 1]
    return by_s, by_f, sizes


def joint_tables(law: CountLaw, s: Integers, f: Integers) -> tuple[Floats, Floats]:
    """Return p(s, f) divided by its maximum, shape (n_values, n_s, n_f), and the logs of the maxima, (n_values,)."""
    by_s, by_f, sizes = log_parts(law, int(s[-1]), int(f[-1]))
    logs = np.take(sizes, s[:, None] + f, axis=1)
    logs += by_s[:, s, None]
    logs += by_f[:, None, f]
    largest = logs.max(axis=(1, 2))
    logs -= largest[:, None, None]
    return np.exp(logs, out=logs), largest


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
