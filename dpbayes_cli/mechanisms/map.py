"""MAP: a private estimate of the posterior's mode, chosen on a finite public cover of the parameter space."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy, complete_records
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import MethodInfo, Model
from dpbayes_cli.core.options import EpsilonOptions, NumberOfEstimates, Options, Selection, SelectionKind, Support
from dpbayes_cli.core.plan import Plan, Sampler, Step
from dpbayes_cli.core.released import Draws
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import Statistics
from dpbayes_cli.mechanisms.samplers.dag_sampler import discrete_sampler
from dpbayes_cli.mechanisms.samplers.sampler_for import takes_support
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler, exact_curve, grid_sampler
from dpbayes_cli.mechanisms.samplers.simplex_sampler import SharesCover, SimplexSampler, log_share, simplex_cover
from dpbayes_cli.mechanisms.samplers.tempering import DrawRequest, Tempering, calibrate_power
from dpbayes_cli.models.families.capabilities import OneParameterFamily, SharesPosterior
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.privacy.grid import EXACT, GRID_SLACK
from dpbayes_cli.privacy.kinds import BoundedRange, PureDP
from dpbayes_cli.privacy.lattice import LATTICE_SLACK
from dpbayes_cli.privacy.permute_and_flip import FlipWeights, flip_law, flip_weights, permute_and_flip

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_LARGEST_ERROR = 0.1
_MOST_POINTS = 1 << 16
"""Points of a lattice that are enumerated: for permute-and-flip, every one of them may have to be visited."""


class MapOptions(EpsilonOptions, frozen=True, kw_only=True):
    """What is read of every model."""

    draws: NumberOfEstimates = 1
    selection: Selection = "exponential"


class MapRangeOptions(MapOptions, frozen=True, kw_only=True):
    """What is read of a model whose parameter has one public range."""

    support: Support = None


class ModeEstimate(Sampler):
    """Points of a public cover, drawn with scores T log posterior; a subclass knows the cover.

    Attributes:
        selection: how they are drawn.
    """

    selection: SelectionKind

    @abstractmethod
    def draw_exponentially(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        """Draw points in proportion to exp(score), exactly."""

    @abstractmethod
    def coin_weights(self, values: Sequence[int]) -> FlipWeights:
        """Return the weights of the points for permute-and-flip."""

    @abstractmethod
    def point(self, index: int) -> tuple[float, ...]:
        """Return a point of the cover."""

    def draw(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        """Draw points of the cover; the points themselves are the estimates."""
        if self.selection == "exponential":
            return self.draw_exponentially(values, size)
        weights = self.coin_weights(values)
        return [self.point(permute_and_flip(weights)) for _ in range(size)]


@dataclass(frozen=True)
class GridEstimate(ModeEstimate):
    """A mode on the middles of the cells of a public support.

    Privacy: that of ``ScalarSampler`` at any likelihood power for the exponential choice, whose integers are drawn
        with; that of ``permute_and_flip`` with e = T R + ``GRID_SLACK`` for the other.
    Source: Zhang et al. 2016 Alg. 3; McKenna and Sheldon 2020.

    Attributes:
        law: the posterior, prior included, to the power T.
        selection: how a cell is chosen.
        error: what the floats of a score err by, for any data.
    """

    law: ScalarSampler
    selection: SelectionKind
    error: float

    def draw_exponentially(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        """Draw cells by their integer weights."""
        return [self.point(cell) for cell in self.law.weights(values).draw(size)]

    def coin_weights(self, values: Sequence[int]) -> FlipWeights:
        """Return the weights of the cells."""
        return flip_weights(self.law.logs(values), self.law.exact_log(values), self.error)

    def point(self, index: int) -> tuple[float, ...]:
        """Return the middle of a cell."""
        low, high = self.law.support
        return (low + (high - low) * ((index + 0.5) / self.law.n_cells),)

    def is_possible(self, draw: Sequence[float]) -> bool:
        """Return whether an estimate is the middle of a cell."""
        if not self.law.is_possible(draw):
            return False
        low, high = self.law.support
        return self.point(round((draw[0] - low) / (high - low) * self.law.n_cells - 0.5)) == tuple(draw)

    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        """Return the moments of the law on the middles of the cells."""
        if self.selection == "exponential":
            return self.law.moments(values)
        return _moments(flip_law(self.law.logs(values)), self.law.cells)


@dataclass(frozen=True)
class SharesEstimate(ModeEstimate):
    """A mode of a vector of shares on a public lattice.

    Privacy: that of ``SimplexSampler`` at any likelihood power for the exponential choice; for the other that of
        ``permute_and_flip``, e = T R + ``GRID_SLACK``: a replaced record moves the scores by
        T (log theta_j - log theta_i).
    Source: Zhang et al. 2016 Alg. 3, Lemma 2; McKenna and Sheldon 2020.

    Attributes:
        law: the posterior, prior included, to the power T.
        selection: how a point is chosen.
        error: what the floats of a score err by, for any data.
    """

    law: SimplexSampler
    selection: SelectionKind
    error: float

    def draw_exponentially(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        """Draw lattice points by their product weights."""
        return self.law.draw(values, size)

    def coin_weights(self, values: Sequence[int]) -> FlipWeights:
        """Return the weights of the enumerated points."""
        points, cover, exponents = _points(self.law.cover), self.law.cover, self.law.exponents(values)
        with localcontext(EXACT):
            shares = [Decimal(k) / cover.resolution for k in range(cover.least, cover.most + 1)]
            tables = [[exponent * log_share(share) for share in shares] for exponent in exponents]

        def exact(index: int) -> Decimal:
            with localcontext(EXACT):
                return sum((tables[j][k] for j, k in enumerate(points[index].tolist())), Decimal(0))

        return flip_weights(self._scores(values), exact, self.error)

    def point(self, index: int) -> tuple[float, ...]:
        """Return the shares of a point."""
        cover = self.law.cover
        return tuple((k + cover.least) / cover.resolution for k in _points(cover)[index].tolist())

    def is_possible(self, draw: Sequence[float]) -> bool:
        """Return whether an estimate is a point of the lattice."""
        return self.law.is_possible(draw)

    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        """Return the moments of the first share."""
        if self.selection == "exponential":
            return self.law.moments(values)
        cover = self.law.cover
        shares = (_points(cover)[:, 0] + cover.least) / cover.resolution
        return _moments(flip_law(self._scores(values)), shares)

    def _scores(self, values: Sequence[int]) -> Floats:
        import numpy as np

        cover = self.law.cover
        logs = np.log((_points(cover) + cover.least) / cover.resolution)
        return np.asarray(logs @ np.array(list(map(float, self.law.exponents(values)))))


class Map(Mechanism):
    """Choose a point of a finite public cover of the parameter space by its posterior density.

    Privacy: scores T u with u = log posterior, T = epsilon / (k R), R the range over the cover of the difference of two
        neighbors' log likelihoods (symmetric sensitivity R / 2, see ``Tempering``). The exponential choice has bounded
        range epsilon / k an estimate; permute-and-flip is pure epsilon / k-DP, and has no such range.
    Source: Zhang, Rubinstein and Dimitrakakis 2016, Algorithm 3; McSherry and Talwar 2007; McKenna and Sheldon 2020.
    """

    name: ClassVar[str] = "map"
    summary: ClassVar[str] = "a private estimate of the posterior's mode; pure epsilon, bounded range"
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {"privacy": {"epsilon": "1"}, "sampling": {"draws": 3}}
    card: ClassVar[MethodInfo] = MethodInfo(
        releases="k estimates of the posterior's mode (MAP), each a point of a public cover of the parameter space: "
        "the middles of a grid's cells, or a lattice of shares. An estimate is no sample of a posterior: its spread "
        "tells nothing about how uncertain the parameter is, and nothing else is released.",
        guarantee="sampling.selection: exponential (the default) is pure epsilon-DP with bounded range epsilon / k an "
        "estimate, a quarter of the rho of pure epsilon; permute-and-flip is pure epsilon-DP and nothing better.",
        assumptions="Complete records, and a number of them that is public. The operating system's random numbers are "
        "secret. The prior was chosen without looking at the data.",
        source="Zhang, Rubinstein and Dimitrakakis 2016, Algorithm 3; McSherry and Talwar 2007; Durfee and Rogers 2019 "
        "(bounded range); McKenna and Sheldon 2020 (permute-and-flip).",
        corrections="The sensitivity is R / 2, R = sup - inf of the log likelihood ratio, and not its largest absolute "
        "value: a constant added to all utilities changes no probability, so the weight is exp(epsilon u / R). Points "
        "are drawn exactly, in integers or in decimals of unlimited exponents. Permute-and-flip is the better estimate "
        "at the same epsilon, never worse; but it is the exponential mechanism without replacement, and on a fine "
        "cover cells hardly come twice: there they are alike, the exponential choice composes better and serves "
        "lattices too large to enumerate, which is why it is the default. Of a network every table has its own share "
        "of epsilon and its own cover, in place of one cover of all parameters together.",
        prefer_when="One number is wanted, such as a setting or a synthetic parameter, and epsilon is large: the "
        "estimate approaches the mode as epsilon grows, where `ops` stays a posterior sample. For intervals, or many "
        "parameters, `laplace` tells more. Permute-and-flip where the cover is coarse and the account is one of pure "
        "epsilon.",
    )
    requires: ClassVar[tuple[type, ...]] = (OneParameterFamily, SharesPosterior, DiscreteBayesNet)
    options_type: ClassVar[type[Options]] = MapOptions
    needs_n: ClassVar[bool] = True
    post_processing: ClassVar[bool] = False
    estimates: ClassVar[bool] = True

    @classmethod
    def options_for(cls, model: type[Model]) -> type[Options]:
        """Return what is read: with the range of the parameter, where there is one."""
        return MapRangeOptions if takes_support(model) else MapOptions

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        """Find the likelihood power, which may exceed one.

        Raises:
            SpecError: records are not complete, the support is missing or wrong, or no guarantee can be given.
        """
        wanted, n = require_type(options, MapOptions), complete_records(policy, model.columns, n_records)
        selection = wanted.selection
        asked = DrawRequest(wanted.stated_epsilon(), n, wanted.draws, "joint", wanted.value("support"))
        if isinstance(model, OneParameterFamily):
            return self._one_parameter(model, policy, asked, selection)
        sampler, charged, described = discrete_sampler(model, asked, partial(self._row, selection=selection))
        flip = selection == "permute-and-flip"
        guarantee = PureDP(charged) if flip else BoundedRange(charged, asked.draws)
        step = Step(self.statistic(model, policy), sampler, guarantee, asked.draws)
        return Plan((step,), guarantee, {**described, "selection": selection})

    @staticmethod
    def _one_parameter(
        model: OneParameterFamily, policy: RecordPolicy, asked: DrawRequest, selection: SelectionKind
    ) -> Plan:
        law, found = grid_sampler(model, asked, None)
        guarantee: BoundedRange | PureDP = PureDP(found.charged)
        if selection == "exponential":  # the curve is that of this law, and of no other
            points = tuple((order, value * asked.draws) for order, value in exact_curve(law))
            guarantee = BoundedRange(found.charged, asked.draws, points)
        sampler = GridEstimate(law, selection, 1e-12 + 2.0**-50 * law.magnitude)
        step = Step(model.statistic(policy), sampler, guarantee, asked.draws)
        described = {**found.plan_parameters(asked), "selection": selection}
        return Plan((step,), guarantee, {**described, "support": list(law.support), "points": law.n_cells})

    @staticmethod
    def _row(
        concentration: tuple[float, ...], asked: DrawRequest, touched: Decimal, *, selection: SelectionKind
    ) -> tuple[Sampler, Tempering, dict[str, Any]]:
        """Return the sampler of one vector of shares, its price, and its cover."""
        cover = simplex_cover(len(concentration), asked.support, asked.n_records)
        flip = selection == "permute-and-flip"
        if flip and cover.n_points > _MOST_POINTS:
            raise SpecError(
                f"permute-and-flip visits every point of the cover, and this lattice has more than {_MOST_POINTS}",
                where="sampling.selection",
                hint="--selection exponential draws from any lattice",
            )
        found = calibrate_power(asked, cover.spread, max(GRID_SLACK, LATTICE_SLACK) * touched, None)
        law = SimplexSampler(cover, concentration, found.likelihood_power, "joint")
        error = _error(law, asked.n_records)
        if flip and error > _LARGEST_ERROR:
            raise SpecError("the scores are too large to be told apart in floats", where="privacy.epsilon")
        return SharesEstimate(law, selection, error), found, cover.plan_parameters()

    def release(self, plan: Plan, evidence: Statistics) -> Draws:
        """Draw the planned estimates.

        Privacy: that of the plan; the estimates alone are returned.
        Source: see the class.
        """
        (step,) = plan.steps
        sampler = require_type(step.law, Sampler)
        return Draws(tuple(sampler.draw(evidence.values, step.draws)))


def _error(law: SimplexSampler, n_records: int) -> float:
    """Return a bound of the error of a score in floats: each of K terms and of K sums errs by 2^-52 of the terms."""
    largest = float(law.likelihood_power) * (n_records + sum(abs(a - 1.0) for a in law.concentration))
    deepest = math.log(law.cover.resolution / law.cover.least)
    return 1e-12 + 2.0**-50 * (len(law.concentration) + 2) * largest * deepest


@lru_cache(maxsize=4)
def _points(cover: SharesCover) -> Integers:
    return cover.points()


def _moments(law: Floats, theta: Floats) -> tuple[float, float]:
    mean = float(law @ theta)
    return mean, math.sqrt(float(law @ (theta - mean) ** 2))
