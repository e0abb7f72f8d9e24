"""MAP: a private estimate of the posterior mode, chosen from a finite public grid of parameters."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache, partial
from typing import Any, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.columns import RecordPolicy, require_complete_records
from dpbayes_cli.core.model import MethodInfo, Model
from dpbayes_cli.core.options import EpsilonOptions, NumberOfEstimates, Options, Selection, SelectionKind, Support
from dpbayes_cli.core.plan import Plan, Sampler, Step
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.samplers.dag_sampler import discrete_sampler
from dpbayes_cli.mechanisms.samplers.draw_mechanism import DrawMechanism
from dpbayes_cli.mechanisms.samplers.sampler_for import takes_support
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler, exact_curve, grid_sampler
from dpbayes_cli.mechanisms.samplers.simplex_sampler import SharesCover, SimplexSampler, log_share, simplex_cover
from dpbayes_cli.mechanisms.samplers.tempering import DrawRequest, Tempering, calibrate_power, weighted_moments
from dpbayes_cli.models.families.capabilities import DirichletProbabilities, OneParameterFamily
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.privacy.grid import EXACT, GRID_SLACK
from dpbayes_cli.privacy.kinds import BoundedRange, PureDP
from dpbayes_cli.privacy.lattice import LATTICE_SLACK
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.permute_and_flip import FlipWeights, flip_law, flip_weights, permute_and_flip

_MAX_SCORE_ERROR = 0.1
_MAX_POINTS = 1 << 16
"""The largest number of lattice points for permute-and-flip, which may have to visit all of them."""


class MapOptions(EpsilonOptions, frozen=True, kw_only=True):
    """The options for every model."""

    draws: NumberOfEstimates = 1
    selection: Selection = "exponential"


class MapRangeOptions(MapOptions, frozen=True, kw_only=True):
    """The options for a model whose parameter has one public range."""

    support: Support = None


@dataclass(frozen=True)
class ModeEstimate(Sampler):
    """An estimator that chooses points of a public grid by T * log posterior; a subclass defines the grid.

    Attributes:
        law: the posterior, with likelihood and prior raised to the power T.
        selection: how a point is chosen.
        error: a bound on the rounding error of a score in floats, valid for any data.
    """

    law: ScalarSampler | SimplexSampler
    selection: SelectionKind
    error: float

    @abstractmethod
    def draw_exponentially(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        """Draw points with probability exactly proportional to exp(score)."""

    @abstractmethod
    def coin_weights(self, values: Sequence[int]) -> FlipWeights:
        """Return the weights of the points for permute-and-flip."""

    @abstractmethod
    def point(self, index: int) -> tuple[float, ...]:
        """Return the parameters of a point of the grid."""

    def draw(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        if self.selection == "exponential":
            return self.draw_exponentially(values, size)
        weights = self.coin_weights(values)
        return [self.point(permute_and_flip(weights)) for _ in range(size)]

    def is_possible(self, draw: Sequence[float]) -> bool:
        return self.law.is_possible(draw)


class GridEstimate(ModeEstimate):
    """An estimate of the mode of one parameter: the midpoint of a cell of the public support.

    Privacy: the exponential selection draws with the integer weights of ``ScalarSampler``, whose guarantee holds at any
        likelihood power. Permute-and-flip has the guarantee of ``permute_and_flip`` with e = T R + ``GRID_SLACK``.
    Source: Zhang et al. 2016 Alg. 3; McKenna and Sheldon 2020.
    """

    law: ScalarSampler

    def draw_exponentially(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        return [self.point(cell) for cell in self.law.weights(values).draw(size)]

    def coin_weights(self, values: Sequence[int]) -> FlipWeights:
        return flip_weights(self.law.logs(values), self.law.exact_log(values), self.error)

    def point(self, index: int) -> tuple[float, ...]:
        low, high = self.law.support
        return (low + (high - low) * ((index + 0.5) / self.law.n_cells),)

    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        if self.selection == "exponential":
            return self.law.moments(values)
        return weighted_moments(flip_law(self.law.logs(values)), self.law.cells)

    def is_possible(self, draw: Sequence[float]) -> bool:
        if not self.law.is_possible(draw):
            return False
        low, high = self.law.support
        return self.point(round((draw[0] - low) / (high - low) * self.law.n_cells - 0.5)) == tuple(draw)


class SharesEstimate(ModeEstimate):
    """An estimate of the mode of a probability vector: a point of a public lattice.

    Privacy: the exponential selection has the guarantee of ``SimplexSampler`` at any likelihood power. Permute-and-flip
        has the guarantee of ``permute_and_flip`` with e = T R + ``GRID_SLACK``, because a replaced record changes the
        scores by T (log theta_j - log theta_i).
    Source: Zhang et al. 2016 Alg. 3, Lemma 2; McKenna and Sheldon 2020.
    """

    law: SimplexSampler

    def draw_exponentially(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        return self.law.draw(values, size)

    def _scores(self, values: Sequence[int]) -> Floats:
        cover = self.law.cover
        logs = np.log((_points(cover) + cover.least) / cover.resolution)
        return np.asarray(logs @ np.array(list(map(float, self.law.exponents(values)))))

    def coin_weights(self, values: Sequence[int]) -> FlipWeights:
        points, cover = _points(self.law.cover), self.law.cover
        with localcontext(EXACT):
            shares = [Decimal(k) / cover.resolution for k in range(cover.least, cover.most + 1)]
            tables = [[exponent * log_share(share) for share in shares] for exponent in self.law.exponents(values)]

        def exact(index: int) -> Decimal:
            with localcontext(EXACT):
                return sum((tables[j][k] for j, k in enumerate(points[index].tolist())), Decimal(0))

        return flip_weights(self._scores(values), exact, self.error)

    def point(self, index: int) -> tuple[float, ...]:
        cover = self.law.cover
        return tuple((k + cover.least) / cover.resolution for k in _points(cover)[index].tolist())

    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        if self.selection == "exponential":
            return self.law.moments(values)
        shares = (_points(self.law.cover)[:, 0] + self.law.cover.least) / self.law.cover.resolution
        return weighted_moments(flip_law(self._scores(values)), shares)


class Map(DrawMechanism):
    """Choose points of a finite public grid of parameters by their posterior density.

    Privacy: for k estimates the score of a point is T u, where u is its log posterior and T = epsilon / (k R). R is the
        range over the grid of the difference of two neighbors' log likelihoods (u has symmetric sensitivity R / 2, see
        ``Tempering``). With exponential selection each estimate has bounded range epsilon / k. With permute-and-flip
        each estimate is pure (epsilon / k)-DP, but its bounded range may exceed epsilon / k.
    Source: Zhang, Rubinstein and Dimitrakakis 2016, Algorithm 3; McSherry and Talwar 2007; McKenna and Sheldon 2020.
    """

    name: ClassVar[str] = "map"
    summary: ClassVar[str] = "a private estimate of the posterior's mode; pure epsilon, bounded range"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="k estimates of the posterior mode (MAP), each a point of a public grid of parameters: the midpoint "
        "of a cell, or a point of a lattice of probability vectors. Nothing else is released. An estimate is not a "
        "posterior sample: the spread of estimates does not show how uncertain the parameter is.",
        guarantee="With sampling.selection: exponential (the default), pure epsilon-DP, and each estimate has bounded "
        "range epsilon / k. The rho of an estimate in zCDP is then a quarter of what pure (epsilon / k)-DP alone "
        "implies. With permute-and-flip, only pure epsilon-DP.",
        assumptions="Records are complete and their number is public. The operating system's random numbers are "
        "secret. The prior was chosen without looking at the data.",
        source="Zhang, Rubinstein and Dimitrakakis 2016, Algorithm 3; McSherry and Talwar 2007; Durfee and Rogers 2019 "
        "(bounded range); McKenna and Sheldon 2020 (permute-and-flip).",
        corrections="The paper's sensitivity is the largest absolute log likelihood ratio. Here it is R / 2, where R = "
        "sup - inf of the log likelihood ratio, because a constant added to all utilities changes no probability. So "
        "the weight of a point with utility u is exp(epsilon u / R). Points are drawn exactly, in integers or in "
        "decimals with unlimited exponents. Permute-and-flip is never worse than the exponential mechanism at the same "
        "epsilon. On a fine grid, the two are almost equal. The exponential mechanism composes better and works on "
        "lattices that are too large to enumerate, so it is the default. Every table of a network has its own share of "
        "epsilon and its own grid, instead of one grid of all parameters together.",
        prefer_when="You want one number, such as a setting or a synthetic parameter, and epsilon is large: the "
        "estimate approaches the mode as epsilon grows, while a draw of `ops` remains a posterior sample. For "
        "intervals, or many parameters, `laplace` is more accurate. Permute-and-flip suits a coarse grid and an "
        "account in pure epsilon.",
    )
    requires: ClassVar[tuple[type, ...]] = (OneParameterFamily, DirichletProbabilities, DiscreteBayesNet)
    options_type: ClassVar[type[Options]] = MapOptions
    estimates: ClassVar[bool] = True

    @classmethod
    def options_for(cls, model: type[Model]) -> type[Options]:
        """Return the class of options, with a field for the public range if the parameter has one."""
        return MapRangeOptions if takes_support(model) else MapOptions

    def plan(self, model: Model, policy: RecordPolicy, options: Options, n_records: int | None = None) -> Plan:
        """Find the likelihood power, which may exceed one, and the cost of all estimates."""
        map_options, n = require_type(options, MapOptions), require_complete_records(policy, model.columns, n_records)
        selection = map_options.selection
        request = DrawRequest(map_options.stated_epsilon(), n, map_options.draws, "joint", map_options.value("support"))
        if isinstance(model, OneParameterFamily):
            return self._one_parameter(model, policy, request, selection)
        sampler, cost, parameters = discrete_sampler(model, request, partial(self._row, selection=selection))
        guarantee = PureDP(cost.epsilon) if selection == "permute-and-flip" else cost
        step = Step(self.statistic(model, policy), sampler, guarantee, request.draws)
        return Plan((step,), guarantee, {**parameters, "selection": selection})

    @staticmethod
    def _one_parameter(
        model: OneParameterFamily, policy: RecordPolicy, request: DrawRequest, selection: SelectionKind
    ) -> Plan:
        law, tempering = grid_sampler(model, request, None)
        guarantee: BoundedRange | PureDP = PureDP(tempering.charged)
        if selection == "exponential":  # the exact curve holds only for the exponential selection
            points = tuple((order, value * request.draws) for order, value in exact_curve(law))
            guarantee = BoundedRange(tempering.charged, request.draws, points)
        sampler = GridEstimate(law, selection, 1e-12 + 2.0**-50 * law.magnitude)
        step = Step(model.statistic(policy), sampler, guarantee, request.draws)
        parameters = {**tempering.plan_parameters(request), "selection": selection}
        return Plan((step,), guarantee, {**parameters, "support": list(law.support), "points": law.n_cells})

    @staticmethod
    def _row(
        concentration: tuple[float, ...], request: DrawRequest, rows_touched: Decimal, *, selection: SelectionKind
    ) -> tuple[Sampler, Tempering, dict[str, Any]]:
        cover = simplex_cover(len(concentration), request.support, request.n_records)
        flip = selection == "permute-and-flip"
        if flip and cover.n_points > _MAX_POINTS:
            raise SpecError(
                f"permute-and-flip may visit every point of the grid, which has more than {_MAX_POINTS:,} points",
                where="sampling.selection",
                hint="--selection exponential, which can draw from any grid",
            )
        tempering = calibrate_power(request, cover.spread, max(GRID_SLACK, LATTICE_SLACK) * rows_touched, None)
        law = SimplexSampler(cover, concentration, tempering.likelihood_power, "joint")
        error = _error(law, request.n_records)
        if flip and error > _MAX_SCORE_ERROR:
            raise SpecError(
                "epsilon is so large that rounding would change the result",
                where="privacy.epsilon",
                hint="--selection exponential",
            )
        return SharesEstimate(law, selection, error), tempering, cover.plan_parameters()


def _error(law: SimplexSampler, n_records: int) -> float:
    """Return a bound on the error of a score in floats; its K terms and K additions have relative errors of 2^-52."""
    largest = float(law.likelihood_power) * (n_records + sum(abs(a - 1.0) for a in law.concentration))
    largest_log = math.log(law.cover.resolution / law.cover.least)
    return 1e-12 + 2.0**-50 * (len(law.concentration) + 2) * largest * largest_log


@lru_cache(maxsize=4)
def _points(cover: SharesCover) -> Integers:
    return cover.points()
