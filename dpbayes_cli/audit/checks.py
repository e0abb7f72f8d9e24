"""The parts of a mechanism, each looked at by itself: what black boxes do not show, such as a doubled temperature."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from dpbayes_cli.audit.neighbours import Pair
from dpbayes_cli.capabilities import OneParameterFamily
from dpbayes_cli.contracts import Model, Sampler, Step
from dpbayes_cli.design import DesignMatrix
from dpbayes_cli.langevin import Gradient, Langevin
from dpbayes_cli.privacy.noise import DiscreteGaussian, DiscreteLaplace
from dpbayes_cli.privacy.noisy_descent import descent_mu
from dpbayes_cli.privacy.part_noise import PartNoise
from dpbayes_cli.question import Question

if TYPE_CHECKING:
    from dpbayes_cli.numeric import Floats

_SMALLEST_P = 1e-9
_ROUNDING = 1.0 + 1e-9
_POINTS = 64
_DRAWN = 4000
_WIDER = 1.25
_WIDE = 1e4
_REACH = 60.0


@dataclass(frozen=True)
class Check:
    """One part that was looked at.

    Attributes:
        name: what.
        ok: whether it is as it must be.
        measured, allowed: in words.
    """

    name: str
    ok: bool
    measured: str
    allowed: str


def white_box(question: Question, pairs: Sequence[Pair], n_draws: int) -> Iterator[Check]:
    """Look at the sensitivity, the noise, the temperature, the gradient: whatever the plan has.

    Args:
        question: what is asked.
        pairs: neighbouring data sets.
        n_draws: of the noise.
    """
    answer = question.plan.answer
    if len(question.plan.steps) > 1:  # what a second step reads depends on what the first one drew
        return
    if answer.statistic.sensitivity_l1:
        yield from _sensitivity(answer, pairs)
    law = answer.law
    if isinstance(law, Langevin):
        yield from _gradient(question, answer, law, pairs)
    elif isinstance(law, Sampler):
        yield from _temperature(question.model, answer, law, pairs)
    elif isinstance(law, DiscreteLaplace | DiscreteGaussian | PartNoise):
        yield from _noise(answer, law, n_draws)


def _sensitivity(step: Step, pairs: Sequence[Pair]) -> Iterator[Check]:
    """Compare how far neighbours are apart, as the engine counts them, with what is claimed; the witness attains it."""
    changes = [[abs(a - b) for a, b in zip(pair.one.values, pair.other.values, strict=True)] for pair in pairs]
    most, squared = max(map(sum, changes)), max(sum(c * c for c in change) for change in changes)
    claimed, claimed_l2 = step.statistic.sensitivity_l1, step.statistic.sensitivity_l2_squared
    yield Check("L1 sensitivity", most == claimed, f"{most}", f"{claimed}, attained")
    yield Check("squared L2 sensitivity", squared == claimed_l2, f"{squared}", f"{claimed_l2}, attained")


def _noise(step: Step, law: DiscreteLaplace | DiscreteGaussian | PartNoise, n_draws: int) -> Iterator[Check]:
    """Compare draws of the noise with the law that is published, and that law with the price."""
    statistic = step.statistic
    laws = law.laws if isinstance(law, PartNoise) else (law,)
    if isinstance(law, PartNoise):
        changes = [(part.sensitivity_l1, part.sensitivity_l2_squared) for part in statistic.parts]
    else:
        changes = [(statistic.sensitivity_l1, statistic.sensitivity_l2_squared)]
    for one in dict.fromkeys(laws):
        p = goodness_of_fit(one, n_draws)
        yield Check(
            f"draws of {one.kind} noise of scale {one.scale:.6g}", p > _SMALLEST_P, f"p = {p:.2g}", "a p above 1e-9"
        )
    if law.kind == DiscreteLaplace.kind:
        spent, allowed = sum(c / one.scale for one, (c, _) in zip(laws, changes, strict=True)), step.guarantee.epsilon
    else:
        spent = sum(c / (2.0 * one.scale**2) for one, (_, c) in zip(laws, changes, strict=True))
        allowed = step.guarantee.rho
    yield _at_most("price of the noise: of the sensitivity at this scale", spent, float(allowed) * _ROUNDING)


def goodness_of_fit(law: DiscreteLaplace | DiscreteGaussian, n_draws: int) -> float:
    """Return the p-value of a chi-squared test of draws, as a release makes them, against the published law."""
    import numpy as np
    from scipy.special import gammaincc

    drawn = np.asarray(law.release([0] * n_draws), dtype=np.int64)
    step = max(1, math.floor(law.scale / _WIDE))  # a wide law is as good as constant over one step
    reach = math.ceil(_REACH * law.scale / step) + 2
    support = np.arange(-reach, reach + 1) * step
    masses = np.exp(law.log_pmf(support))
    edges = np.unique(np.quantile(drawn, np.linspace(0.02, 0.98, 49)).astype(np.int64) // step * step)
    cells = np.searchsorted(edges, support, side="right")
    expected = np.bincount(cells, weights=masses, minlength=len(edges) + 1) * n_draws / masses.sum()
    observed = np.bincount(np.searchsorted(edges, drawn // step * step, side="right"), minlength=len(edges) + 1)
    statistic = float(((observed - expected) ** 2 / np.maximum(expected, 1.0)).sum())
    return float(gammaincc(len(edges) / 2.0, statistic / 2.0))


def _temperature(model: Model, step: Step, law: Sampler, pairs: Sequence[Pair]) -> Iterator[Check]:
    """Compare draws with the law that they are said to have, and such laws of neighbours with the price of a draw."""
    yield from _moments(law, pairs[0])
    ranges = [law.log_ratio_range(pair.one.values, pair.other.values) for pair in pairs]
    if known := [each for each in ranges if each is not None]:
        allowed = float(step.guarantee.epsilon) / step.draws
        yield _at_most("range of the log ratio of two laws, a draw", max(known), allowed * _ROUNDING)
        return
    last = step.guarantee.order_max
    order = Decimal(2) if last > 2 else (1 + last) / 2
    found = [_divergence(model, law, pair, float(order)) for pair in pairs]
    allowed = float(step.guarantee.rdp(order)) / step.draws * (1.0 + 1e-6)
    name = f"Renyi divergence of the first parameters' laws at order {float(order):.4g}, a draw"
    measured, slack = max(found)
    yield _at_most(name, measured, allowed + slack)


def _moments(law: Sampler, pair: Pair) -> Iterator[Check]:
    """Compare mean and width of draws with those of the law; false-fail rate below 1e-9 for laws near normal ones."""
    import numpy as np

    mean, sd = law.moments(pair.one.values)
    drawn = np.array([draw[0] for draw in law.draw(pair.one.values, _DRAWN)])
    away = abs(float(drawn.mean()) - mean) / max(sd, 1e-300)
    yield _at_most("mean of draws, from that of their law in its widths", away, 7.0 / math.sqrt(_DRAWN))
    ratio = float(drawn.std()) / max(sd, 1e-300)
    ok = 1.0 / _WIDER <= ratio <= _WIDER
    yield Check("width of draws, by that of their law", ok, f"{ratio:.4g}", f"{1.0 / _WIDER:.3g} to {_WIDER:.3g}")


def _divergence(model: Model, law: Sampler, pair: Pair, order: float) -> tuple[float, float]:
    """Return the Renyi divergence of two conjugate laws, from the moments of what is sampled, and what floats err by.

    Of each row of a network's tables that of the first share, which rows being independent add up: a lower bound.
    """
    rows = zip(*(law.moments_by_row(each.values) for each in (pair.one, pair.other)), strict=True)
    found = [_of_moments(model, one, other, order) for one, other in rows if one != other]
    return sum(value for value, _ in found), sum(slack for _, slack in found)


def _of_moments(
    model: Model, one: tuple[float, float], other: tuple[float, float], order: float
) -> tuple[float, float]:
    low, high = model.parameter_range if isinstance(model, OneParameterFamily) else (0.0, 1.0)
    if not math.isfinite(low):  # normal laws, of one width: the partition functions would cancel
        return order * (one[0] - other[0]) ** 2 / (2.0 * one[1] ** 2), 1e-9
    partition = _log_beta if math.isfinite(high) else _log_gamma
    natural = _of_beta if math.isfinite(high) else _of_gamma
    p, q = natural(*one), natural(*other)
    mixed = (order * p[0] + (1.0 - order) * q[0], order * p[1] + (1.0 - order) * q[1])
    if min(mixed) <= 0.0:
        return math.inf, 0.0
    terms = [partition(mixed) / (order - 1.0), -order * partition(p) / (order - 1.0), partition(q)]
    size = sum(map(abs, (*p, *q))) * max(1.0, math.log(max(*p, *q)))
    return max(0.0, math.fsum(terms)), 1e-13 * size / (order - 1.0)


def _of_beta(mean: float, sd: float) -> tuple[float, float]:
    size = mean * (1.0 - mean) / sd**2 - 1.0
    return mean * size, (1.0 - mean) * size


def _of_gamma(mean: float, sd: float) -> tuple[float, float]:
    return (mean / sd) ** 2, mean / sd**2


def _log_beta(eta: tuple[float, float]) -> float:
    return math.lgamma(eta[0]) + math.lgamma(eta[1]) - math.lgamma(eta[0] + eta[1])


def _log_gamma(eta: tuple[float, float]) -> float:
    return math.lgamma(eta[0]) - eta[0] * math.log(eta[1])


def _gradient(question: Question, step: Step, law: Langevin, pairs: Sequence[Pair]) -> Iterator[Check]:
    """Compare gradients of neighbours, and curvatures, with what the chain is priced at."""
    import numpy as np

    largest = steepest = 0.0
    with ExitStack() as stack:
        for pair in pairs:
            matrices = [m for m in (pair.one.design, pair.other.design) if isinstance(m, DesignMatrix)]
            rows = [_rows(matrix) for matrix in matrices]
            points = _points(np.concatenate(rows), law.width)
            one, other = (Gradient(matrix, law.loss, stack, points.shape[1])(points) for matrix in matrices)
            largest = max(largest, law.rho * float(np.linalg.norm(one - other, axis=0).max()))
            steepest = max(steepest, *(float(np.linalg.eigvalsh(x.T @ x)[-1]) for x in rows if len(x)))
    planned = question.plan.parameters
    yield _at_most("difference of neighbours' gradients", largest, float(planned["sensitivity"]) * (1.0 + 1e-6))
    smoothness = float(planned["smoothness"])
    measured = law.rho * law.loss.curvature_bound * steepest + law.tau
    yield _at_most("largest curvature", measured, smoothness * (1.0 + 1e-6))
    mu = descent_mu(largest, law.step, law.steps, law.tau, smoothness) * math.sqrt(step.draws)
    yield _at_most("mu of the chain at that difference", mu, float(step.guarantee.mu) * (1.0 + 1e-6))


def _rows(matrix: DesignMatrix) -> Floats:
    """Return all rows of a small design, dense."""
    import numpy as np

    dense = [x.toarray() if hasattr(x, "toarray") else x for x, _ in matrix.blocks]
    return np.concatenate([np.asarray(x, dtype=np.float64) for x in dense]) if dense else np.empty((0, 1))


def _points(rows: Floats, width: int) -> Floats:
    """Return points far out along the rows, where losses are as steep as they get, and some at random."""
    import numpy as np

    found = np.random.default_rng(0).normal(size=(width, _POINTS))
    for i, row in enumerate(np.unique(rows, axis=0)[: _POINTS // 8]):
        ends = [length / max(float(row @ row), 1e-12) for length in (30.0, -30.0, 1e4, -1e4)]
        found[:, 4 * i : 4 * i + 4] = np.outer(row, ends)
    return found


def _at_most(name: str, measured: float, allowed: float) -> Check:
    return Check(name, measured <= allowed, f"{measured:.6g}", f"at most {allowed:.6g}")
