"""Conformance of every registered noise law, plug-ins included."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import numpy as np
import pytest

from dpbayes_cli.core.registry import noise_law_kinds, noise_law_type
from dpbayes_cli.core.stored_noise import parse_noise
from dpbayes_cli.privacy.laws.part_noise import PartNoise
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.statistical import assert_follows

LAWS = [
    pytest.param(law, id=f"{kind}-{law.scale:.3g}")
    for kind in noise_law_kinds()
    for law in noise_law_type(kind).examples()
]
SHIFTS = [[(3, -1, 0)], [(1, 0, 0), (0, 12, 0)], [(5, 5, 5), (-1, 2, 0)]]


def support(law: NoiseLaw, nats: float = 60.0) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    reach = law.radius(nats) + 1
    return np.arange(-reach, reach + 1)


@pytest.mark.parametrize("law", LAWS)
def test_probabilities_add_up_and_are_symmetric(law: NoiseLaw) -> None:
    z = support(law)
    log_mass = law.log_pmf(z)
    mass = np.exp(log_mass)
    assert mass.sum() == pytest.approx(1.0, rel=1e-9)
    assert log_mass == pytest.approx(log_mass[::-1], rel=1e-12)
    assert (np.diff(log_mass[len(z) // 2 :]) <= 1e-12).all()
    assert law.variance == pytest.approx(float((z**2 * mass).sum()), rel=1e-8)
    u = np.array([0.0, 1e-3, 0.3, 2.0, math.pi])
    assert law.characteristic(u) == pytest.approx(np.cos(np.multiply.outer(u, z)) @ mass, abs=1e-9)
    for nats in (0.5, 7.0, 40.0):
        assert law.log_pmf(np.array([0]))[0] - law.log_pmf(np.array([law.radius(nats)]))[0] >= nats - 1e-9


@pytest.mark.parametrize("law", LAWS)
def test_shape_properties_of_a_law_hold(law: NoiseLaw) -> None:
    z = support(law)
    fallen = law.log_pmf(z) - law.log_pmf(np.array([0]))[0]
    assert (fallen <= law.excess - np.abs(z) / law.scale + 1e-9).all()
    if law.decay is not None and law.decay.exact:
        stated = -law.decay.linear * np.abs(z) - law.decay.quadratic * z**2
        assert fallen == pytest.approx(stated, rel=1e-12, abs=1e-6)
    assert law.grain >= 1.0 or law.decay is not None


@pytest.mark.parametrize("shifts", SHIFTS)
@pytest.mark.parametrize("law", LAWS)
def test_the_cost_of_shifts_is_what_the_probabilities_lose(law: NoiseLaw, shifts: list[tuple[int, ...]]) -> None:
    """Costs are never below the divergence, and reach it: pure ones by the largest ratio, others by a wide law.

    A rounded normal number tells less than the normal number, by 1 / (12 scale^2) of the divergence.
    """
    cost, orders = law.privacy(shifts), (1.5, 2.0, 8.0)
    reach = law.radius(60.0) + 120
    z = np.arange(-reach, reach + 1)
    log_mass = law.log_pmf(z)
    largest, curves = [], []
    for shift in shifts:
        ratios = [log_mass - law.log_pmf(z - s) for s in shift]
        largest.append(sum(law.largest_ratio(abs(s)) for s in shift if s))
        curves.append(
            [sum(np.logaddexp.reduce(log_mass + (o - 1.0) * each) / (o - 1.0) for each in ratios) for o in orders]
        )
    for order, lost in zip(orders, np.max(curves, axis=0).tolist(), strict=True):
        assert lost <= float(cost.rdp(Decimal(str(order)))) * (1.0 + 1e-9)
    if cost.epsilon.is_finite():
        brute = max(sum((log_mass - law.log_pmf(z - s)).max() for s in shift) for shift in shifts)
        assert max(largest) == pytest.approx(brute, rel=1e-9)
        assert max(largest) == pytest.approx(float(cost.epsilon), rel=1e-9)
    elif law.scale >= 4.0:
        tolerance = 1e-6 if cost.kind == "zcdp" else 0.1 / law.scale**2
        assert max(curve[1] for curve in curves) == pytest.approx(2.0 * float(cost.rho), rel=tolerance)


@pytest.mark.parametrize("law", LAWS)
def test_draws_follow_the_probabilities(law: NoiseLaw) -> None:
    """Chi-square at the suite's false-fail rate, of exact draws and of simulated ones."""
    z = support(law, 12.0)
    released = np.array(law.release([5] * 4000)) - 5
    for drawn in (released, law.simulate(np.random.default_rng(3), (50, 80)).ravel()):
        assert_follows(drawn, z, np.exp(law.log_pmf(z)))


@pytest.mark.parametrize("law", LAWS)
def test_a_stored_law_is_the_same_law(law: NoiseLaw) -> None:
    stored = json.loads(json.dumps(law.serialize()))
    assert stored["law"] == law.kind
    assert parse_noise(stored, []) == law
    parts = PartNoise(type(law).examples()[:2], (2, 1))
    again = parse_noise(json.loads(json.dumps(parts.serialize())), parts.scales(3))
    assert [again.at(i) for i in range(3)] == [parts.at(i) for i in range(3)]
    with pytest.raises(ValueError, match=r"noise|staircase|law"):
        parse_noise({**stored, "parameters": {"unknown": 1}}, [])


def test_parts_cost_what_their_laws_cost() -> None:
    laplace = noise_law_type("discrete-laplace")
    parts = PartNoise((laplace.parse(2.0, {}), laplace.parse(8.0, {})), (1, 2))
    assert float(parts.privacy([(1, 0, 0), (0, 1, -1)]).epsilon) == pytest.approx(0.5)
    assert float(parts.privacy([(1, 2, 2)]).epsilon) == pytest.approx(1.0)
    gaussian = noise_law_type("rounded-gaussian")
    parts = PartNoise((gaussian.parse(2.0, {}), gaussian.parse(8.0, {})), (1, 2))
    assert float(parts.privacy([(1, 0, 0), (0, 3, -3), (0, 0, 4)]).mu) == pytest.approx(18**0.5 / 8)
    assert float(parts.privacy([(2, 3, -3)]).mu) == pytest.approx((1 + 18 / 64) ** 0.5)
