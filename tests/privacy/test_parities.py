"""Walsh coefficients of overlapping tables, held against a direct count of parities, record by record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from dpbayes_cli.privacy.parities import Parities
from tests.privacy.parity_references import NETWORKS, counted, odd, patterns, records_of

if TYPE_CHECKING:
    pass


def pattern(parities: Parities, i: int, member: int) -> frozenset[tuple[int, int]]:
    """Return the variables and the bits of a member of a family."""
    bits = np.unravel_index(member, parities.padded_shape(i))
    return frozenset((v, int(each)) for v, each in zip(parities.families[i], bits, strict=True) if each)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_pattern_is_attributed_once_to_the_first_family_that_has_its_variables(name: str) -> None:
    parities = Parities(*NETWORKS[name])
    listed = [pattern(parities, i, int(each)) for i, members in enumerate(parities.members) for each in members]
    assert len(listed) == len(set(listed)) == parities.count
    assert set(listed) == patterns(*NETWORKS[name])
    for i, members in enumerate(parities.members):
        for member in members:
            variables = {v for v, _ in pattern(parities, i, int(member))}
            assert next(j for j, family in enumerate(parities.families) if variables <= set(family)) == i


@pytest.mark.parametrize("name", NETWORKS)
def test_coefficients_are_counts_of_odd_records(name: str) -> None:
    parities = Parities(*NETWORKS[name])
    records = records_of(parities, 200)
    coefficients = parities.coefficients(counted(parities, records))
    signed = parities.coefficients(counted(parities, records), signed=True)
    expected = []
    for i, members in enumerate(parities.members):
        for member in members:
            each = pattern(parities, i, int(member))
            expected.append(sum(odd(each, record) for record in records.tolist()))
    assert coefficients.dtype == signed.dtype == np.int64
    assert coefficients.tolist() == expected
    assert signed.tolist() == [200, *(200 - 2 * count for count in expected)]


@pytest.mark.parametrize("name", NETWORKS)
def test_tables_are_rebuilt_from_their_coefficients(name: str) -> None:
    parities = Parities(*NETWORKS[name])
    tables = counted(parities, records_of(parities, 300))
    for values, total in (
        (parities.coefficients(tables), 300.0),
        (parities.coefficients(tables, signed=True), None),
    ):
        for rebuilt, table in zip(parities.tables(values, total), tables, strict=True):
            np.testing.assert_allclose(rebuilt, table, atol=1e-9)


def test_large_counts_stay_exact() -> None:
    parities = Parities((2, 3), ((0,), (0, 1)))
    table = np.array([[2**60 + 1, 3, 5], [7, 2**60 + 11, 13]], dtype=np.int64)
    total = int(table.sum())
    coefficients = parities.coefficients([table.sum(axis=1), table], signed=True)
    assert coefficients[0] == total
    assert coefficients[1] == int(table[0].sum()) - int(table[1].sum())


def test_noise_on_codes_without_a_value_is_not_in_the_tables() -> None:
    parities = Parities(*NETWORKS["three and five values"])
    noisy = np.random.default_rng(1).laplace(0.0, 30.0, parities.count)
    assert all(table.sum() != pytest.approx(100.0) for table in parities.tables(noisy, 100.0))


def test_a_variable_of_one_value_has_no_bits() -> None:
    parities = Parities((1, 2), ((0,), (0, 1)))
    assert parities.count == 1
    table = np.array([[3, 4]], dtype=np.int64)
    assert parities.coefficients([np.array([7]), table]).tolist() == [4]
    np.testing.assert_allclose(parities.tables(np.array([4]), 7.0)[1], table)
