from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbayes_cli.errors import SpecError
from dpbayes_cli.privacy.guarantee import ApproximateDP, Guarantee, PureDP, compose, parse_guarantee

epsilons = st.decimals(min_value=Decimal("1e-12"), max_value=1000, places=12, allow_nan=False)
deltas = st.decimals(min_value=Decimal("1e-18"), max_value=Decimal("0.99"), places=18, allow_nan=False)
guarantees: st.SearchStrategy[Guarantee] = st.one_of(
    st.builds(PureDP, epsilons), st.builds(ApproximateDP, epsilons, deltas)
)


@given(guarantees)
def test_a_guarantee_survives_being_stored(guarantee: Guarantee) -> None:
    assert parse_guarantee(guarantee.serialize()) == guarantee


def test_the_stored_form_is_fixed_for_good() -> None:
    assert PureDP(Decimal("0.10")).serialize() == {"kind": "pure", "epsilon": "0.1"}
    stored = {"kind": "approximate", "epsilon": "1", "delta": "0.000001"}
    assert ApproximateDP(Decimal(1), Decimal("1e-6")).serialize() == stored


@given(guarantees, st.integers(1, 20))
def test_composing_k_times_is_k_times_the_price(guarantee: Guarantee, k: int) -> None:
    assert compose([guarantee] * k) == {"epsilon": guarantee.epsilon * k, "delta": guarantee.delta * k}


def test_composition_of_nothing_costs_nothing() -> None:
    assert compose([]) == {"epsilon": Decimal(0), "delta": Decimal(0)}


@pytest.mark.parametrize("epsilon", ["0", "1e-13", "1000.1"])
def test_absurd_epsilons_are_refused(epsilon: str) -> None:
    with pytest.raises(SpecError, match="epsilon"):
        PureDP(Decimal(epsilon))


@pytest.mark.parametrize("delta", ["0", "1", "2"])
def test_absurd_deltas_are_refused(delta: str) -> None:
    with pytest.raises(SpecError, match="delta"):
        ApproximateDP(Decimal(1), Decimal(delta))


@pytest.mark.parametrize(
    "stored",
    [{}, {"kind": "pure"}, {"kind": "magic", "epsilon": "1"}, {"kind": "pure", "epsilon": "nan"},
     {"kind": "pure", "epsilon": "1", "delta": "0.1"}, {"kind": "approximate", "epsilon": "1"}],
)  # fmt: skip
def test_a_damaged_guarantee_is_not_believed(stored: dict[str, str]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_guarantee(stored)
