"""Multivariate normal: the mean vector and the covariance matrix of several numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import msgspec
from msgspec import Meta

from dpbayes_cli.capabilities import total_of
from dpbayes_cli.contracts import Card, NoisyStatistics, Positive, Section, expect
from dpbayes_cli.errors import SpecError, nearest
from dpbayes_cli.privacy.noise import NoiseLaw
from dpbayes_cli.problems import NoisySums, RecordLaw
from dpbayes_cli.statistic import NumericColumn, RecordPolicy, Statistic, evaluate, has_null, second_moments

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.numeric import Floats, Integers

STEPS = 1 << 14
"""Grid steps between the bounds: products of a billion records stay below 2^60."""
LARGEST = 1e12
MOST_COLUMNS = 20
_BEYOND = 1e-3
"""A larger expected share of numbers out of bounds is worth a warning."""


class Bounds(Section, frozen=True, kw_only=True):
    """The public bounds of a number."""

    lower: Annotated[float, Meta(ge=-LARGEST, le=LARGEST, description="numbers below this are clamped to it")]
    upper: Annotated[float, Meta(ge=-LARGEST, le=LARGEST, description="numbers above this are clamped to it")]

    def __post_init__(self) -> None:
        if not self.lower < self.upper or self.upper - self.lower < 1e-12 * max(abs(self.lower), abs(self.upper)):
            raise ValueError("the lower bound must be below the upper one")


class MultivariateNormalDomain(Section, frozen=True, kw_only=True):
    """The columns, by their names in the file, with public bounds."""

    columns: Annotated[
        dict[str, Bounds],
        Meta(min_length=1, max_length=MOST_COLUMNS, description="column: {lower: X, upper: X}, one for each"),
    ]


class MultivariateNormalPrior(Section, frozen=True, kw_only=True):
    """Normal-inverse-Wishart prior: E[covariance] = diag(deviation^2), mean ~ N(mean, covariance / strength)."""

    mean: Annotated[
        dict[str, Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]], Meta(description="column: prior mean [middle]")
    ] = msgspec.field(default_factory=dict)
    deviation: Annotated[
        dict[str, Positive], Meta(description="column: prior standard deviation of a record [a sixth of the range]")
    ] = msgspec.field(default_factory=dict)
    strength: Annotated[Positive, Meta(description="how many records the prior mean is worth")] = 1.0
    freedom: Annotated[
        Annotated[float, Meta(gt=0.0, le=1e6)] | None,
        Meta(description="degrees of freedom of the inverse Wishart law, above columns + 1 [columns + 3]"),
    ] = None


@dataclass(frozen=True)
class WishartRecords(RecordLaw):
    """What a normal vector adds to the sums of its numbers, squares and products, and to the valid records.

    Numbers are scaled to [-1, 1]. The coordinates are those of Bartlett's decomposition: with L L' the inverse of the
    prior scale, the precision is L A A' L', A lower triangular with independent entries, log chi-square laws on the
    diagonal and normal ones below; and the standardized mean. Bounds are taken to be never reached.

    Attributes:
        prior_mean, deviation: of the scaled numbers.
        strength, freedom: of the prior.
        columns: the columns.
        counted: whether the statistic holds the number of valid records.
    """

    prior_mean: tuple[float, ...]
    deviation: tuple[float, ...]
    strength: float
    freedom: float
    columns: tuple[NumericColumn, ...]
    counted: bool

    @property
    def size(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @property
    def dimension(self) -> int:
        """D coordinates of the mean, and D (D + 1) / 2 of the covariance."""
        return self.size * (self.size + 3) // 2

    @cached_property
    def _pairs(self) -> "tuple[Integers, Integers, Floats]":
        """Return for each component its two factors, 0 being the constant 1, and its weight."""
        import numpy as np

        pairs = []
        for i in range(1, self.size + 1):
            pairs.append((0, i, 2.0))
            pairs += [(i, j, 1.0 if i == j else 2.0) for j in range(i, self.size + 1)]
        if self.counted:
            pairs.append((0, 0, 1.0))
        first, second, weight = zip(*pairs, strict=True)
        return np.array(first), np.array(second), np.array(weight)

    @cached_property
    def box(self) -> "tuple[Floats, Floats]":
        """Half the range and the middle of each column."""
        import numpy as np

        ends = np.array([(column.lower, column.upper) for column in self.columns])
        return (ends[:, 1] - ends[:, 0]) / 2.0, ends.mean(axis=1)

    @cached_property
    def _freedoms(self) -> "Floats":
        import numpy as np

        return np.asarray(self.freedom - np.arange(self.size), dtype=np.float64)

    def draw_prior(self, size: int, rng: "np.random.Generator") -> "Floats":
        """Draw points from the prior: the mean, the diagonal, what is below it."""
        import numpy as np

        d = self.size
        diagonal = np.log(rng.chisquare(self._freedoms, (size, d)))
        return np.hstack([rng.standard_normal((size, d)), diagonal, rng.standard_normal((size, d * (d - 1) // 2))])

    def log_prior(self, points: "Floats") -> "Floats":
        """Return the log density of the prior."""
        import numpy as np

        d = self.size
        diagonal, normal = points[..., d : 2 * d], np.concatenate([points[..., :d], points[..., 2 * d :]], axis=-1)
        chi = (0.5 * self._freedoms * diagonal - 0.5 * np.exp(diagonal)).sum(axis=-1)
        return np.asarray(chi - 0.5 * (normal**2).sum(axis=-1))

    def scaled(self, points: "Floats") -> "tuple[Floats, Floats]":
        """Return mean and covariance of the scaled numbers, shapes (..., D) and (..., D, D)."""
        import numpy as np

        d = self.size
        lower = np.zeros((*points.shape[:-1], d, d))
        index = np.arange(d)
        lower[..., index, index] = np.exp(0.5 * points[..., d : 2 * d])
        rows, columns = np.tril_indices(d, -1)
        lower[..., rows, columns] = points[..., 2 * d :]
        # precision = L A A' L' with L = diag(1 / scale): covariance = R R', R = diag(scale) A^-T
        scale = np.asarray(self.deviation) * np.sqrt(max(self.freedom - d - 1.0, 1e-3))
        root = np.swapaxes(np.linalg.inv(lower), -1, -2) * scale[:, None]
        mean = np.asarray(self.prior_mean) + (root @ points[..., :d, None])[..., 0] / np.sqrt(self.strength)
        return mean, root @ np.swapaxes(root, -1, -2)

    def parameters(self, points: "Floats") -> "Floats":
        """Return means, then variances and covariances row by row, in the units of the columns."""
        import numpy as np

        mean, covariance = self.scaled(points)
        half, middle = self.box
        rows, columns = np.triu_indices(self.size)
        spread = covariance[..., rows, columns] * half[rows] * half[columns]
        return np.concatenate([middle + half * mean, spread], axis=-1)

    def moments(self, points: "Floats") -> "tuple[Floats, Floats]":
        """Return mean and covariance of the products of normal numbers (Isserlis), bounds ignored."""
        import numpy as np

        mean, covariance = self.scaled(points)
        shape = points.shape[:-1]
        mu = np.concatenate([np.ones((*shape, 1)), mean], axis=-1)
        sigma = np.zeros((*shape, self.size + 1, self.size + 1))
        sigma[..., 1:, 1:] = covariance
        i, j, weight = self._pairs
        unit = float(STEPS) ** 2
        first = (sigma[..., i, j] + mu[..., i] * mu[..., j]) * weight * unit
        a, b = (i[:, None], i[None, :]), (j[:, None], j[None, :])
        ik, jl, il, jk = (sigma[..., p, q] for p, q in (a, b, (a[0], b[1]), (b[0], a[1])))
        mi, mj = mu[..., i][..., :, None], mu[..., j][..., :, None]
        mk, ml = mu[..., i][..., None, :], mu[..., j][..., None, :]
        second = ik * jl + il * jk + mi * mk * jl + mi * ml * jk + mj * mk * il + mj * ml * ik
        return first, second * (weight[:, None] * weight * unit**2)

    def known_sd(self, points: "Floats", n_records: "Floats") -> "Floats":
        """Return the sds of the normal-inverse-Wishart posterior after n records of typical sums."""
        import numpy as np

        d = self.size
        _, covariance = self.scaled(points)
        half, _ = self.box
        n = n_records[..., None]
        variance = np.diagonal(covariance, axis1=-2, axis2=-1)
        rows, columns = np.triu_indices(d)
        slack = np.maximum(self.freedom + n - d - 1.0, 1e-3)
        of_mean = half * np.sqrt(variance / (self.strength + n) * (self.freedom + n) / slack)
        product = variance[..., rows] * variance[..., columns] + covariance[..., rows, columns] ** 2
        of_spread = half[rows] * half[columns] * np.sqrt(product / slack)
        return np.concatenate([of_mean, of_spread], axis=-1)

    def warning(self, points: "Floats") -> str:
        """Return a warning where the posterior itself expects more than one number in a thousand out of bounds."""
        import numpy as np
        from scipy.special import ndtr

        mean, covariance = self.scaled(points)
        sd = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
        beyond = float((ndtr((-1.0 - mean) / sd) + ndtr((mean - 1.0) / sd)).mean(axis=0).max())
        if beyond <= _BEYOND:
            return ""
        return (
            f"the posterior expects {beyond:.1%} of the numbers of a column beyond their bounds, and takes them for "
            "inside: variances are underestimated; another release with wider bounds, or a prior of smaller "
            "deviations, helps"
        )

    def naive(self, observed: "Floats", n_records: float, size: int, rng: "np.random.Generator") -> "Floats":
        """Draw from the normal-inverse-Wishart posterior of the nearest positive definite second moments."""
        import numpy as np

        d, unit, n = self.size, float(STEPS) ** 2, n_records
        if self.counted:
            n = min(max(observed[-1] / unit, 0.0), n_records)
        i, j, weight = self._pairs
        moments = np.zeros((d + 1, d + 1))
        moments[i, j] = moments[j, i] = observed / unit / weight / max(n, 1e-300)
        centre = np.clip(moments[0, 1:], -1.0, 1.0) if n > 0 else np.zeros(d)
        values, vectors = np.linalg.eigh(moments[1:, 1:] - np.outer(centre, centre))
        scatter = (vectors * np.clip(values, 0.0, float(d))) @ vectors.T * n if n > 0 else np.zeros((d, d))
        prior_mean, freedom = np.asarray(self.prior_mean), self.freedom + n
        strength = self.strength + n
        away = centre - prior_mean
        prior_scale = np.diag(np.asarray(self.deviation) ** 2) * max(self.freedom - d - 1.0, 1e-3)
        scale = prior_scale + scatter + np.outer(away, away) * self.strength * n / strength
        root = np.linalg.cholesky(scale)
        lower = np.zeros((size, d, d))
        index = np.arange(d)
        lower[:, index, index] = np.sqrt(rng.chisquare(freedom - index, (size, d)))
        rows, columns = np.tril_indices(d, -1)
        lower[:, rows, columns] = rng.standard_normal((size, len(rows)))
        factor = root @ np.swapaxes(np.linalg.inv(lower), -1, -2)
        location = (self.strength * prior_mean + n * centre) / strength
        mean = location + (factor @ rng.standard_normal((size, d, 1)))[..., 0] / np.sqrt(strength)
        covariance = factor @ np.swapaxes(factor, -1, -2)
        half, middle = self.box
        p, q = np.triu_indices(d)
        return np.hstack([middle + half * mean, covariance[:, p, q] * half[p] * half[q]])


@dataclass(frozen=True)
class MultivariateNormal(NoisyStatistics):
    """Records are N(mean, covariance) vectors, each number clamped to public bounds.

    covariance ~ inverse Wishart(freedom, diagonal scale); mean | covariance ~ N(prior mean, covariance / strength).

    Source: Bernstein and Sheldon 2018 sec. 3.2 (bounded statistics, Alg. 1); Foulds et al. 2016 sec. 3.
    """

    name: ClassVar[str] = "multivariate-normal"
    summary: ClassVar[str] = "mean vector and covariance matrix, normal-inverse-Wishart prior"
    card: ClassVar[Card] = Card(
        releases="The sums of D columns, of their squares and products, with noise, and the number of valid "
        "records where "
        "it is private; from them the joint posterior of means, variances and covariances, always positive definite.",
        guarantee="That of the mechanism. In units of the ranges one record moves all of them together by at most "
        "(D + 1)^2 in L1, and 4 (D + 1)^2 in squared L2, less 4 where D is even; the number of records costs nothing.",
        assumptions="Each record holds D numbers; each is clamped to its public bounds and rounded to a public "
        "grid of 2^14 "
        "steps; a record with an invalid number is invalid. The posterior takes the bounds for never reached, "
        "and warns "
        "where it expects otherwise. The sums of many records are taken to be normal given the parameters. With "
        "impute:VALUE the custodian promises that VALUE is a fair stand-in, in every column.",
        source="Bernstein and Sheldon 2018, sec. 3.2 and Alg. 1; Park and Casella 2008 (scale mixture); Bartlett 1933.",
        corrections="The noisy matrix of second moments need not be positive definite, and is not repaired: "
        "covariances are "
        "drawn from a law on positive definite matrices, given what was released. The naive posterior is repaired, by "
        "cutting eigenvalues at 0.",
        prefer_when="Several measurements of one person, and how they go together.",
    )
    domain_type: ClassVar[type[Section]] = MultivariateNormalDomain
    prior_type: ClassVar[type[Section]] = MultivariateNormalPrior

    bounds: tuple[tuple[str, float, float], ...]
    prior_mean: tuple[float, ...]
    deviation: tuple[float, ...]
    strength: float
    freedom: float

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model from its parts of a spec.

        Raises:
            SpecError: the prior names a column that the domain does not, or has too few degrees of freedom.
        """
        columns, stated = expect(domain, MultivariateNormalDomain).columns, expect(prior, MultivariateNormalPrior)
        for part in ("mean", "deviation"):
            for name in getattr(stated, part):
                if name not in columns:
                    raise SpecError(f"there is no column {name!r}", where=f"prior.{part}", hint=nearest(name, columns))
        freedom = len(columns) + 3.0 if stated.freedom is None else stated.freedom
        if not freedom > len(columns) + 1:
            raise SpecError(
                f"freedom is {freedom:g}: with {len(columns)} columns the prior covariance has no mean",
                where="prior.freedom",
                hint=f"more than {len(columns) + 1}",
            )
        bounds = tuple((name, box.lower, box.upper) for name, box in columns.items())
        mean = tuple(stated.mean.get(name, (low + high) / 2.0) for name, low, high in bounds)
        deviation = tuple(stated.deviation.get(name, (high - low) / 6.0) for name, low, high in bounds)
        return cls(bounds, mean, deviation, stated.strength, freedom)

    @property
    def columns(self) -> tuple[NumericColumn, ...]:
        """The numbers."""
        return tuple(NumericColumn(name, low, high, STEPS) for name, low, high in self.bounds)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Their names in the file."""
        return tuple(name for name, _, _ in self.bounds)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The means, then the variances and covariances row by row."""
        names = self.column_names
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i:]]
        spread = [f"variance[{a}]" if a == b else f"covariance[{a},{b}]" for a, b in pairs]
        return (*(f"mean[{name}]" for name in names), *spread)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the mean of a new record."""
        return dict(zip(self.column_names, mean, strict=False))

    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the sums, squares and products, and the number of valid records where it is private.

        Privacy: that of ``second_moments``: L1 (D + 1)^2 S^2, S the number of grid steps.
        Source: mechanisms, integer statistics on a public grid.
        """
        return second_moments(self.columns, policy)

    def _law(self, counted: bool) -> WishartRecords:
        box = [((high - low) / 2.0, (high + low) / 2.0) for _, low, high in self.bounds]
        mean = tuple((m - middle) / half for m, (half, middle) in zip(self.prior_mean, box, strict=True))
        deviation = tuple(s / half for s, (half, _) in zip(self.deviation, box, strict=True))
        return WishartRecords(mean, deviation, self.strength, self.freedom, self.columns, counted)

    def problem(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisySums:
        """State the latent-sum problem; see ``NoisyStatistics``."""
        counted = has_null(policy, *self.columns)
        law = self._law(counted)
        return NoisySums(law, tuple(released), noise, total_of(policy, n_records), STEPS**2 if counted else 0)

    def simulated(
        self, policy: RecordPolicy, n_records: int, rng: "np.random.Generator"
    ) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw the parameters from the prior and the exact statistic; see ``NoisyStatistics``."""
        law = self._law(counted=False)
        point = law.draw_prior(1, rng)
        (mean,), (covariance,) = law.scaled(point)
        half, middle = law.box
        numbers = middle + half * rng.multivariate_normal(mean, covariance, n_records, method="cholesky")
        return tuple(law.parameters(point)[0].tolist()), evaluate(self.statistic(policy), self.columns, numbers)
