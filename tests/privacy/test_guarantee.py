"""Guarantees of every kind: stored forms, conversions against references, composition, rounding up."""

from __future__ import annotations

import math
import random
from decimal import Decimal, localcontext
from typing import Any

import mpmath
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given
from hypothesis import strategies as st

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.privacy.composition import Composition, compose, parse_guarantee
from dpbayes_cli.privacy.conversions import (
    INFINITE,
    ORDERS,
    bounded_range_rdp,
    epsilon_of_rho,
    pure_rdp,
    rho_of_epsilon,
)
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    PureDP,
    RenyiCurve,
    ZeroConcentrated,
)

epsilons = st.decimals(min_value=Decimal("1e-12"), max_value=1000, places=12, allow_nan=False)
deltas = st.decimals(min_value=Decimal("1e-18"), max_value=Decimal("0.99"), places=18, allow_nan=False)
values = st.decimals(min_value=Decimal("1e-9"), max_value=100, places=9, allow_nan=False)
curves = st.lists(values, min_size=1, max_size=len(ORDERS)).map(
    lambda values: tuple(zip(ORDERS, sorted(values), strict=False))
)
simple: st.SearchStrategy[Guarantee] = st.one_of(
    st.builds(PureDP, epsilons),
    st.builds(ApproximateDP, epsilons, deltas),
    st.builds(BoundedRange, epsilons, st.integers(1, 1000), st.one_of(st.just(()), curves)),
    st.builds(ZeroConcentrated, values),
    st.builds(GaussianDP, values.filter(lambda mu: mu < 40)),
    st.builds(RenyiCurve, curves, st.sampled_from([INFINITE, Decimal(2000)])),
)
guarantees = st.one_of(simple, st.lists(simple, min_size=1, max_size=4).map(compose))


@given(guarantees)
def test_a_guarantee_survives_being_stored(guarantee: Guarantee) -> None:
    assert parse_guarantee(guarantee.serialize()) == guarantee


def test_the_stored_forms_are_fixed_for_good() -> None:
    points = ((Decimal(2), Decimal("0.1")), (Decimal(8), Decimal("0.5")))
    for guarantee, stored in (
        (PureDP(Decimal("0.10")), {"kind": "pure", "epsilon": "0.1"}),
        (ApproximateDP(Decimal(1), Decimal("1e-6")), {"kind": "approximate", "epsilon": "1", "delta": "0.000001"}),
        (BoundedRange(Decimal(1)), {"kind": "bounded-range", "epsilon": "1", "parts": "1"}),
        (
            BoundedRange(Decimal(1), 2, points),
            {"kind": "bounded-range", "epsilon": "1", "parts": "2", "curve": {"2": "0.1", "8": "0.5"}},
        ),
        (
            BoundedRange(Decimal(1), 2, (), ((Decimal("0.2"), 2), (Decimal("0.6"), 1))),
            {"kind": "bounded-range", "epsilon": "1", "parts": "2", "shares": [["0.2", "2"], ["0.6", "1"]]},
        ),
        (ZeroConcentrated(Decimal("0.5")), {"kind": "zcdp", "rho": "0.5"}),
        (GaussianDP(Decimal("0.5")), {"kind": "gdp", "mu": "0.5"}),
        (
            RenyiCurve(points, Decimal(9)),
            {"kind": "rdp", "curve": {"2": "0.1", "8": "0.5"}, "order_max": "9"},
        ),
    ):
        assert guarantee.serialize() == stored
        assert parse_guarantee(stored) == guarantee


@pytest.mark.parametrize(
    "stored",
    [{}, {"kind": "pure"}, {"kind": "magic", "epsilon": "1"}, {"kind": "pure", "epsilon": "nan"},
     {"kind": "pure", "epsilon": "1", "delta": "0.1"}, {"kind": "approximate", "epsilon": "1"},
     {"kind": "rdp", "curve": {}}, {"kind": "rdp", "curve": {"2": "0.1", "8": "0.2"}, "order_max": "8"},
     {"kind": "rdp", "curve": {"2": "Infinity"}}, {"kind": "rdp", "curve": {"1": "1"}}, {"kind": "gdp", "mu": "-1"},
     {"kind": "pure", "epsilon": "0"}, {"kind": "pure", "epsilon": "1e-13"}, {"kind": "pure", "epsilon": "1000.1"},
     *({"kind": "approximate", "epsilon": "1", "delta": delta} for delta in ("0", "1", "2")),
     {"kind": "bounded-range", "epsilon": "1", "parts": "0"},
     {"kind": "bounded-range", "epsilon": "1", "parts": "1", "shares": [["0", "1"]]},
     {"kind": "composition", "parts": [{"kind": "no"}]}],
)  # fmt: skip
def test_a_malformed_guarantee_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises((ValueError, SpecError)):
        parse_guarantee(stored)


def exact_pure_rdp(epsilon: Decimal, order: Decimal) -> Any:
    """The divergence of randomized response in 60 digits, summed by the formula in the literature."""
    with mpmath.workdps(60):
        e, a = mpmath.mpf(str(epsilon)), mpmath.mpf(str(order))
        p = mpmath.exp(e) / (1 + mpmath.exp(e))
        q = 1 / (1 + mpmath.exp(e))
        return mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)


@pytest.mark.parametrize("order", ["1.1", "1.5", "2", "8", "64", "1024"])
@pytest.mark.parametrize("epsilon", ["1e-12", "1e-9", "1e-4", "0.01", "0.1", "1", "3", "30", "1000"])
def test_the_curve_of_pure_privacy_is_that_of_randomized_response(epsilon: str, order: str) -> None:
    exact = exact_pure_rdp(Decimal(epsilon), Decimal(order))
    ours = PureDP(Decimal(epsilon)).rdp(Decimal(order))
    assert mpmath.mpf(str(ours)) >= exact  # never below: rounded against the spender
    assert float(ours) == pytest.approx(float(exact), rel=1e-9, abs=1e-15 * float(epsilon))


@pytest.mark.parametrize("order", ["2", "8", "64"])
@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1", "3"])
def test_a_mechanism_of_bounded_range_stays_below_its_curve(epsilon: str, order: str) -> None:
    """Two outcomes whose log ratios are t and t - epsilon, for every t: no such pair exceeds the bound."""
    e, a = float(epsilon), float(order)
    worst = 0.0
    for i in range(1, 400):
        t = e * i / 400
        p = (1 - mpmath.exp(t - e)) / (mpmath.exp(t) - mpmath.exp(t - e)) * mpmath.exp(t)  # P of the first outcome
        q = p * mpmath.exp(-t)
        worst = max(worst, float(mpmath.log(p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)) / (a - 1)))
    assert worst <= bounded_range_rdp(e, a) * (1 + 1e-12)
    assert bounded_range_rdp(e, a) <= min(pure_rdp(e, a), a * e * e / 8)


@pytest.mark.parametrize("delta", ["1e-9", "1e-6", "0.01"])
@pytest.mark.parametrize("rho", ["0.001", "0.05", "0.5", "5"])
def test_renyi_conversion_agrees_with_dp_accounting(rho: str, delta: str) -> None:
    points = tuple((order, order * Decimal(rho)) for order in ORDERS)
    ours = RenyiCurve(points).epsilon_at(Decimal(delta))
    theirs, _ = rdp_privacy_accountant.compute_epsilon(
        [float(o) for o in ORDERS], [float(v) for _, v in points], float(delta)
    )
    assert float(ours) == pytest.approx(theirs, rel=1e-9, abs=1e-12)
    assert ours >= Decimal(theirs) * (1 - Decimal("1e-13"))
    back, _ = rdp_privacy_accountant.compute_delta([float(o) for o in ORDERS], [float(v) for _, v in points], theirs)
    assert float(RenyiCurve(points).delta_at(Decimal(theirs))) <= back * (1 + 1e-9)
    assert ZeroConcentrated(Decimal(rho)).epsilon_at(Decimal(delta)) <= ours


def exact_gaussian_delta(mu: Decimal | float, epsilon: Decimal | float) -> Any:
    m, e = (mpmath.mpf(str(each) if isinstance(each, Decimal) else each) for each in (mu, epsilon))
    return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


def random_costs(count: int, seed: int) -> list[tuple[Decimal, Decimal]]:
    """Return pairs (mu, delta): mu from 2e-12 to 40, delta from 1e-300 to nearly that of epsilon 0."""
    rng = random.Random(seed)
    pairs = []
    for i in range(count):
        mu = Decimal(f"{math.exp(rng.uniform(math.log(2e-12 if i % 3 else 1e-3), math.log(40.0))):.6g}")
        most = math.erf(float(mu) / math.sqrt(8.0))
        delta = most * (1.0 - rng.random() ** 6) if i % 2 else math.exp(rng.uniform(-690.0, math.log(most)))
        pairs.append((mu, Decimal(f"{delta:.6g}")))
    return pairs


@pytest.mark.parametrize(
    ("count", "seed"), [(200, 1), pytest.param(6000, 2, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_no_statement_of_gaussian_privacy_is_rounded_down(count: int, seed: int) -> None:
    """The exact delta at the stated epsilon is at most the stated delta, and hardly less; also for tiny mu."""
    for mu, delta in random_costs(count, seed):
        guarantee = GaussianDP(mu)
        epsilon = guarantee.epsilon_at(delta)
        with mpmath.workdps(60):
            assert exact_gaussian_delta(mu, epsilon) <= mpmath.mpf(str(delta)), (mu, delta)
            less = epsilon * (1 - Decimal("1e-9")) - mu * Decimal("1e-11")
            assert less <= 0 or exact_gaussian_delta(mu, less) > mpmath.mpf(str(delta)), (mu, delta)
            back = guarantee.delta_at(epsilon)
            exact = exact_gaussian_delta(mu, epsilon)
            assert exact <= mpmath.mpf(str(back)) <= exact * (1 + mpmath.mpf("1e-10")), (mu, delta)


def test_a_root_that_decimals_round_is_rounded_up() -> None:
    for parts in (["1", "1"], ["0.3", "0.7", "0.11"], ["3", "4"]):
        mu = compose([GaussianDP(Decimal(part)) for part in parts]).mu
        with localcontext(prec=100):
            squares = sum((Decimal(part) ** 2 for part in parts), Decimal(0))
            assert squares <= mu * mu <= squares * (1 + Decimal("1e-38"))


def test_the_order_between_two_stored_ones_counts_as_the_upper() -> None:
    curve = RenyiCurve(((Decimal(2), Decimal("0.1")), (Decimal(4), Decimal("0.3"))), Decimal(5))
    assert curve.rdp(Decimal(3)) == Decimal("0.3")
    assert curve.rdp(Decimal("1.5")) == Decimal("0.1")
    assert curve.rdp(Decimal("4.5")) == INFINITE
    assert curve.rdp(Decimal(5)) == INFINITE
    assert (curve.epsilon, curve.rho, curve.order_max) == (INFINITE, INFINITE, Decimal(5))


def test_a_small_largest_order_is_expensive() -> None:
    """rho = 0.05, delta = 1e-6: epsilon 12.5 where the curve ends at 2, 1.47 where it ends at 20."""
    for largest, expected, at_edge in ((2, 12.5, True), (20, 1.47, False)):
        points = tuple((o, o * Decimal("0.05")) for o in ORDERS if o <= largest)
        statement = RenyiCurve(points).statement(Decimal("1e-6"))
        assert float(statement.epsilon) == pytest.approx(expected, rel=0.01)
        assert statement.at_edge == at_edge


@given(simple, st.integers(1, 20), st.sampled_from(ORDERS))
def test_composing_k_times_is_k_times_the_cost(guarantee: Guarantee, k: int, order: Decimal) -> None:
    together = compose([guarantee] * k)
    assert together.epsilon == guarantee.epsilon * k
    assert together.delta == guarantee.delta * k
    assert together.rdp(order) == guarantee.rdp(order) * k


def test_composition_finds_the_best_route_and_names_it() -> None:
    hundred = compose([BoundedRange(Decimal("0.1"))] * 100).statement(Decimal("1e-6"))
    print(f"100 draws of bounded range 0.1: epsilon {hundred.epsilon} by {hundred.route} instead of 10")
    assert hundred.epsilon < Decimal("2.5")
    assert hundred.route.startswith("rdp(")
    assert compose([PureDP(Decimal("0.1"))]).statement(Decimal("1e-6")).route == "basic"
    gaussian = compose([GaussianDP(Decimal("0.6")), GaussianDP(Decimal("0.8"))])
    assert gaussian.statement(Decimal("1e-6")) == GaussianDP(Decimal(1)).statement(Decimal("1e-6"))
    mixed = compose([GaussianDP(Decimal("0.6")), PureDP(Decimal("0.1"))]).statement(Decimal("1e-6"))
    assert mixed.epsilon.is_finite()
    assert compose([ApproximateDP(Decimal(1), Decimal("1e-6"))] * 2).statement(Decimal("1e-6")).epsilon == INFINITE
    assert Composition(()).epsilon == 0


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
def test_calibrating_rho_never_exceeds_its_target(epsilon: float, delta: float) -> None:
    rho = rho_of_epsilon(epsilon, delta)
    assert epsilon_of_rho(rho, delta) <= epsilon
    assert epsilon_of_rho(rho * 1.001, delta) > epsilon
