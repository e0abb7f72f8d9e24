"""Private bounds: the sensitivity of the utility and the largest log ratio by enumeration, and the statistic."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes_cli.base.cell_grammar import parse_number
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.private_quantile import BoundsGrid, PrivateBounds
from dpbayes_cli.core.registry import model_names, model_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic_values import evaluate_codes
from dpbayes_cli.inference.posterior import Effort
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.models.families.bounded_numbers import BoundedNumber
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.source_for import source_for
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.workflow.pricing import price
from dpbayes_cli.workflow.simulated_releases import simulate_with_private_bounds
from tests.conftest import often
from tests.exact_laws import weights_of
from tests.mechanisms.log_ratios import worst
from tests.statistical import assert_follows, assert_uniform

Data = tuple[int | None, ...]
"""A data set: the code of each record, None for a null record."""

SMALL = BoundsGrid(0.0, 4.0, 4, whole=True)
RELATIONS = [("complete", Neighbors.REPLACE_ONE), ("drop", Neighbors.REPLACE_ONE), ("drop", Neighbors.ADD_REMOVE)]
QUANTILES = [Fraction(1, 100), Fraction(1, 2), Fraction(3, 4), Fraction(99, 100)]


def law_of(
    neighbors: Neighbors, lower: Fraction | None, upper: Fraction, epsilon: str = "1", grid: BoundsGrid = SMALL
) -> PrivateBounds:
    return PrivateBounds(grid, lower, upper, Decimal(epsilon), neighbors)


def histogram_of(data: Data) -> Counter[int]:
    return Counter(code for code in data if code is not None)


def pairs_of(records: str, neighbors: Neighbors, n: int) -> list[tuple[Data, Data]]:
    """All ordered pairs of neighboring data sets whose larger one has n records."""
    values: list[int | None] = [*range(5), *([None] if records == "drop" else [])]
    pairs: list[tuple[Data, Data]] = []
    for rest in itertools.combinations_with_replacement(values, n - 1):
        if neighbors is Neighbors.ADD_REMOVE:
            pairs += [pair for a in values for pair in (((*rest, a), rest), (rest, (*rest, a)))]
        else:
            pairs += [((*rest, a), (*rest, b)) for a in values for b in values if a != b]
    return pairs


def utilities(data: Data, quantile: Fraction) -> list[Fraction]:
    valid = [code for code in data if code is not None]
    return [-abs(sum(code <= edge for code in valid) - quantile * len(valid)) for edge in range(5)]


@pytest.mark.parametrize("quantile", often(QUANTILES, 2), ids=str)
@pytest.mark.parametrize(("records", "neighbors"), RELATIONS)
def test_one_record_moves_the_utility_by_at_most_its_sensitivity(
    records: str, neighbors: Neighbors, quantile: Fraction
) -> None:
    """Over all neighboring data sets of up to four records, and attained."""
    sensitivity = law_of(neighbors, None, quantile).sensitivity(quantile)
    moves = [
        [a - b for a, b in zip(utilities(one, quantile), utilities(other, quantile), strict=True)]
        for n in (1, 2, 3, 4)
        for one, other in pairs_of(records, neighbors, n)
    ]
    assert max(abs(x) for move in moves for x in move) == sensitivity
    assert max(max(move) - min(move) for move in moves) <= 2 * sensitivity
    if quantile in {Fraction(1, 2), Fraction(3, 4)} and neighbors is Neighbors.REPLACE_ONE:
        assert max(max(move) - min(move) for move in moves) == 2 * sensitivity


def joint_law(law: PrivateBounds, data: Data) -> dict[tuple[int, int], Fraction]:
    """The probability of every pair of bounds, from the integer weights of the draw."""
    counts, last = law.grid.cumulative(histogram_of(data)), law.grid.last
    upper = weights_of(law.weights(law.upper, counts, 1, last))
    probabilities = {}
    for j in range(1, last + 1):
        above = Fraction(upper[j - 1], sum(upper))
        if law.lower is None:
            probabilities[0, j] = above
            continue
        lower = weights_of(law.weights(law.lower, counts, 0, j - 1))
        for i in range(j):
            probabilities[i, j] = above * Fraction(lower[i], sum(lower))
    assert sum(probabilities.values()) == 1
    return probabilities


@pytest.mark.parametrize(
    "quantiles", [(None, Fraction(1, 2)), (None, Fraction(99, 100)), (Fraction(1, 4), Fraction(3, 4))]
)
@pytest.mark.parametrize("epsilon", [pytest.param("0.1", marks=pytest.mark.slow), "1", "20"])
@pytest.mark.parametrize(("records", "neighbors"), RELATIONS)
def test_no_pair_of_neighbors_exceeds_the_charge(
    records: str, neighbors: Neighbors, epsilon: str, quantiles: tuple[Fraction | None, Fraction]
) -> None:
    """Exhaustively for n <= 3, in exact rationals: the log ratio of two laws, and its range over the outcomes."""
    law = law_of(neighbors, *quantiles, epsilon=epsilon)
    assert law.guarantee.epsilon == Decimal(epsilon)
    laws: dict[Any, list[Fraction]] = {}
    pairs = set()
    for one, other in itertools.chain(*(pairs_of(records, neighbors, n) for n in (1, 2, 3))):
        first, second = (tuple(sorted(histogram_of(data).items())) for data in (one, other))
        pairs.add((first, second))
        for key, data in ((first, one), (second, other)):
            if key not in laws:
                laws[key] = list(joint_law(law, data).values())
    largest, widest = worst(laws, pairs)
    assert max(largest, widest) <= Decimal(epsilon)
    if quantiles == (None, Fraction(1, 2)) and neighbors is Neighbors.REPLACE_ONE:
        assert float(widest) > 0.999 * float(epsilon)  # the range is not generous


@pytest.mark.parametrize("lower", [None, Fraction(1, 4)])
def test_bounds_follow_the_stated_law_and_are_in_order(lower: Fraction | None) -> None:
    law = law_of(Neighbors.REPLACE_ONE, lower, Fraction(3, 4), "3")
    data: Data = (0, 1, 1, 2, 3, 3, None, 4)
    exact = {}
    for (i, j), p in joint_law(law, data).items():
        weight = math.exp(float(utilities(data, law.upper)[j]) * 3 / law.parts / 2)
        upper = [math.exp(float(u) * 3 / law.parts / 2) for u in utilities(data, law.upper)[1:]]
        below = [1.0] if lower is None else [math.exp(float(u) * 3 / 2 / 2) for u in utilities(data, lower)[:j]]
        assert float(p) == pytest.approx(weight / sum(upper) * below[i] / sum(below), rel=1e-12)
        exact[5 * i + j] = float(p)
    support = sorted(exact)
    masses = [exact[k] for k in support]
    rng = np.random.default_rng(0)
    for draw in (law.choose, lambda h: law.simulate(h, rng)):
        drawn = [draw(histogram_of(data)) for _ in range(2000)]
        assert all(0 <= i < j <= 4 for i, j in drawn)
        assert_follows([5 * i + j for i, j in drawn], support, masses)


@pytest.mark.parametrize("grid", [SMALL, BoundsGrid(-0.1, 0.3, 1000), BoundsGrid(0.0, 1e6, 1024, whole=True),
                                  BoundsGrid(1e6, 1e6 + 1, 1 << 16), BoundsGrid(0.0, 3.0, 2, whole=True)])  # fmt: skip
def test_edges_ascend_and_index_inverts_value(grid: BoundsGrid) -> None:
    values = [grid.value(index) for index in range(grid.last + 1)]
    assert (values[0], values[-1]) == (grid.low, grid.high)
    assert all(a < b for a, b in itertools.pairwise(values))
    assert [grid.index(value) for value in values] == list(range(grid.last + 1))
    assert not grid.whole or all(value == int(value) for value in values)
    assert grid.last <= grid.cells
    column = grid.column("value", "clamp")
    assert [column.code(value) for value in values] == [grid.edge(index) for index in range(grid.last + 1)]
    for wrong in (values[0] - 1, (values[0] + values[1]) / 2 + 1e-3 * (values[1] - values[0]), math.nan, math.inf):
        with pytest.raises((ValueError, OverflowError)):
            grid.index(wrong)


def spec_of(
    model: str, mechanism: str = "laplace", domain: Any = None, on_invalid: str = "drop", **private: Any
) -> Any:
    kind = model_type(model)
    low = {"low": "-2"} if "lower" in kind.bound_keys else {}
    bounds = {"epsilon": "1", "high": "4", **low, "cells": "4", **private}
    extra = {key: value for key, value in kind.examples[0].domain.items() if key not in kind.bound_keys}
    return build_spec(
        {
            "model": model, "mechanism": mechanism, "domain": {**extra, **(domain or {})},
            "bounds": {"private": bounds}, "on_invalid": on_invalid, "privacy": {"epsilon": "1"},
        }
    )  # fmt: skip


BOUNDED = [name for name in model_names() if issubclass(model_type(name), BoundedNumber)]


@pytest.mark.parametrize("outside", ["clamp", "drop"])
@pytest.mark.parametrize("on_invalid", ["drop", "impute:1"])
@pytest.mark.parametrize("model", BOUNDED)
def test_the_statistic_between_any_bounds_keeps_its_sensitivity(model: str, on_invalid: str, outside: str) -> None:
    """By brute force over records at and beside every edge, for every pair of bounds; attained by the witness."""
    spec = spec_of(model, domain={"out_of_bounds": outside}, on_invalid=on_invalid)
    law = spec.private_bounds
    grid = law.grid
    edges = [grid.edge(i) for i in range(grid.last + 1)]
    codes = sorted({c for e in edges for c in (e - 1, e, e + 1, e + grid.substeps // 3)} & set(range(grid.steps + 1)))
    names = set()
    for i, j in itertools.combinations(range(grid.last + 1), 2):
        if i and law.lower is None:
            continue
        bounded = require_type(spec.build_model((grid.value(i), grid.value(j))), BoundedNumber)
        statistic = bounded.statistic(spec.policy)
        names.add(statistic.names)

        def contribution(code: int | None, model: Any = bounded, statistic: Any = statistic, ends: Any = (i, j)) -> Any:
            histogram = {} if code is None else {code: 1}
            return evaluate_codes(statistic, model.column, law.codes(histogram, *ends, model.column))

        def change(one: Any, other: Any) -> int:
            return sum(abs(a - b) for a, b in zip(one, other, strict=True))

        contributions = [contribution(code) for code in codes] + [contribution(None)] * (not spec.policy.complete)
        assert max(change(a, b) for a in contributions for b in contributions) == statistic.sensitivity_l1
        squared = max(
            sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) for a in contributions for b in contributions
        )
        assert squared == statistic.sensitivity_l2_squared
        cells = [cell for record in (statistic.witness.record, statistic.witness.neighbor) for cell in record or ()]
        column = grid.column("value", law.outside)
        ends = [contribution(column.code(parse_number(cell) or 0.0)) for cell in cells]
        assert change(*ends) == statistic.sensitivity_l1
    assert len(names) == 1


def test_codes_are_those_of_numbers_between_the_bounds() -> None:
    """The integers of the histogram give the code of the number itself, up to the rounding of the histogram."""
    spec = spec_of("normal-mean", cells="8")
    law, rng = spec.private_bounds, np.random.default_rng(1)
    model = require_type(spec.build_model((law.grid.value(2), law.grid.value(5))), BoundedNumber)
    column = law.grid.column("value", "clamp")
    for number in rng.uniform(-3, 5, 200):
        (code,) = law.codes({column.code(number): 1}, 2, 5, model.column)
        exact = model.column.code(number)
        assert abs(code - exact) <= model.column.steps / (3 * law.grid.substeps) / 2 + 1


numbers = st.floats(-20, 20) | st.sampled_from([-2.0, 4.0, 1.0, -0.5, 1e308, -1e308])


@settings(max_examples=25)
@given(st.lists(numbers | st.none(), max_size=50), st.sampled_from(["clamp", "drop"]))
def test_sql_and_python_give_the_same_histogram_from_every_format(cells: list[float | None], outside: Any) -> None:
    import tempfile

    column = BoundsGrid(-2.0, 4.0, 8).column("value", outside)
    law = PrivateBounds(BoundsGrid(-2.0, 4.0, 8), None, Fraction(1, 2), Decimal(1), Neighbors.REPLACE_ONE, outside)
    expected = histogram_of(tuple(None if x is None else column.code(x) for x in cells))
    with tempfile.TemporaryDirectory() as directory:
        text, parquet = Path(directory) / "f.csv", Path(directory) / "f.parquet"
        invalid = itertools.cycle(["", "x", "1e999", "nan", "1,5"])
        text.write_text("x\n" + "".join(f"{next(invalid) if x is None else repr(x)}\n" for x in cells))
        pq.write_table(pa.table({"x": pa.array(cells, pa.float64())}), parquet)
        imputed = expected + Counter({column.code(1.0): cells.count(None)})
        for path, (impute, counts) in itertools.product((text, parquet), ((None, expected), ("1", imputed))):
            policy, source = RecordPolicy(Neighbors.REPLACE_ONE, impute), source_for(locate(str(path)), Dialect(), None)
            with closing(source):
                source.check((column,), (None,))
                evidence = source.statistics(law.statistic("value", policy), policy)
            assert (evidence.values, evidence.n_records, evidence.histogram) == ((), len(cells), counts)


@pytest.mark.parametrize(
    ("model", "private", "says"),
    [
        ("gamma-exponential", {"high": "0"}, "high is 0"),
        ("gamma-exponential", {"low": "1"}, "begin at 0"),
        ("gamma-exponential", {"lower_quantile": "0.1"}, "no lower quantile"),
        ("gamma-poisson", {"high": "4.5"}, "whole"),
        ("gamma-poisson", {"high": "2e6"}, "does not accept this range"),
        ("gamma-poisson", {"epsilon": "0"}, "epsilon"),
        ("gamma-poisson", {"cells": "1"}, "cells"),
        ("normal", {"low": "4"}, "low is 4"),
        ("normal", {"low": "4", "high": "4.000001"}, "too narrow"),
        ("normal", {"upper_quantile": "1"}, "upper_quantile"),
        ("normal", {"upper_quantile": "0.005"}, "lower quantile"),
        ("normal", {"lower_quantile": "0.9", "upper_quantile": "0.5"}, "below upper_quantile"),
        ("normal", {"quantile": "0.5"}, "unknown key"),
    ],
)
def test_invalid_private_bounds_are_refused(model: str, private: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        print(spec_of(model, **private).build_model())


def test_bounds_off_the_grid_are_refused() -> None:
    spec = spec_of("normal")
    assert spec.build_model((-0.5, 2.5)).columns[0].upper == 2.5
    for bounds in [(-0.5, 2.6), (2.5, -0.5), (1.0, 1.0), (-3.0, 4.0), (math.nan, 4.0)]:
        with pytest.raises(SpecError):
            spec.build_model(bounds)
    with pytest.raises(SpecError, match="does not request"):
        build_spec({"model": "gamma-poisson", "domain": {"upper": "3"}}).build_model((0.0, 3.0))


@pytest.mark.slow
def test_posteriors_between_private_bounds_are_calibrated() -> None:
    """Gamma-exponential, n = 1000, epsilon 1 and 1 for the bounds, 300 trials; false-fail 1e-6."""
    spec = spec_of("gamma-exponential", on_invalid="impute:1", cells="1024", high="20", upper_quantile="0.9")
    rng, ranks = np.random.default_rng(5), []
    planned, law = price(spec, 1000), spec.private_bounds
    assert law is not None
    for _ in range(300):
        (rate,), observation, _ = simulate_with_private_bounds(planned, law, 1000, rng)
        draws = infer(observation, "noise-aware", 199, rng, Effort(summary_draws=199)).draws[:, 0]
        ranks.append((float((draws < rate).sum()) + float(rng.random())) / 200)
    assert_uniform(ranks, 1e-6)
