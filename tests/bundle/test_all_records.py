"""What a result says about all records of its groups together."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from dpbayes_cli.bundle.document_parts import ParameterSummary, ReleasedGroups
from dpbayes_cli.bundle.report import all_records
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.spec.release_spec import build_spec

COUNTS = {"model": "beta-bernoulli"}
NUMBERS = {"model": "normal-mean", "domain": {"lower": -5, "upper": 30, "variance": 25}}
SQUARES = {"model": "normal", "domain": {"lower": -5, "upper": 30}}
CATEGORIES = {"model": "dirichlet-categorical", "domain": {"categories": ["a", "b", "c"]}}
SIZES = (30, 300)


def model_of(request: dict[str, Any]) -> Any:  # a model of groups
    by = {"column": "g", "values": ["x", "y"]}
    return build_spec({**request, "column": "v", "by": by, "privacy": {"epsilon": "1"}}).build_model()


def exact_integers(model: Any, values: list[list[float]]) -> list[int]:
    """The statistic of groups with these values; of categories, the values are indices."""
    column, rows = model.columns[-1], []
    for each in values:
        if not isinstance(column, NumericColumn):
            rows.append(np.bincount(np.array(each, int), minlength=len(column.levels)))
            continue
        u = 2 * np.round((np.array(each) - column.lower) / column.step).astype(int) - column.steps
        sums = [u.sum(), len(u) * column.steps]
        if model.sums_squares:
            sums = [2 * column.steps * u.sum(), (u**2).sum(), len(u) * column.steps**2]
        rows.append(np.array(sums))
    return [int(x) for x in np.concatenate(rows)]


def sentences(
    monkeypatch: pytest.MonkeyPatch, request: dict[str, Any], integers: list[int], scale: float, over_groups: float
) -> list[str]:
    model = model_of(request)
    monkeypatch.setattr(all_records, "model_of", lambda document: model)
    monkeypatch.setattr(all_records, "is_pooled", lambda document: True)
    mean = ParameterSummary(mean=over_groups, sd=0.01, q05=over_groups - 0.02, q50=over_groups, q95=over_groups + 0.02)
    groups = ReleasedGroups(components=list(model.component_names), values=integers, noise_scale=scale)
    document: Any = SimpleNamespace(
        mechanism="laplace", groups=groups, posterior={"mean": mean}, extreme_larger_groups=UNSET
    )
    return list(all_records.overall_sentences(document))


@pytest.mark.parametrize(("request_", "values", "expected"), [
    (COUNTS, [[0] * 10 + [1] * 20, [0] * 240 + [1] * 60], 75.7576),
    (CATEGORIES, [[0] * 30, [1] * 150 + [2] * 150], 9.0909),
    (NUMBERS, [[10.0] * 30, [21.0] * 300], 20.0),
    (SQUARES, [[10.0] * 30, [21.0] * 300], 20.0),
])  # fmt: skip
def test_shares_and_means_are_those_of_the_records_that_were_read(
    request_: dict[str, Any], values: list[list[float]], expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, note = sentences(monkeypatch, request_, exact_integers(model_of(request_), values), 0.01, 0.5)
    assert float(re.search(r"more: (?:theta\[a\] )?([0-9.]+)", first)[1]) == pytest.approx(expected, abs=2e-3)  # type: ignore[index]
    assert note.startswith("NOTE: that is outside the interval of the mean over groups")


@pytest.mark.parametrize("request_", [COUNTS, NUMBERS, SQUARES], ids=["counts", "sums", "squares"])
def test_the_interval_is_that_of_the_noise(request_: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """90 % intervals of 600 simulated releases: the share that hold the truth is in .9 +- .06 (5 sd, 6e-7)."""
    rng, model = np.random.default_rng(3), model_of(request_)
    values = [list(rng.integers(0, 2, n)) if request_ is COUNTS else list(rng.normal(12.0, 5.0, n)) for n in SIZES]
    exact = np.array(exact_integers(model, values))
    column, groups = model.columns[-1], SimpleNamespace(components=model.component_names, values=exact.tolist())
    scale = 5.0 * (column.steps ** (2 if model.sums_squares else 1) if isinstance(column, NumericColumn) else 1)
    truth, _ = all_records._means(groups, model, 0.0)  # type: ignore[arg-type,misc]
    held = []
    for _ in range(600):
        noisy = exact + np.round(rng.laplace(0.0, scale, len(exact))).astype(int)
        groups = SimpleNamespace(components=model.component_names, values=noisy.tolist())
        estimate, error = all_records._means(groups, model, scale * 2.0**0.5)  # type: ignore[arg-type,misc]
        held.append(abs(estimate[0] - truth[0]) < 1.645 * error[0])
    assert abs(np.mean(held) - 0.9) < 0.06


def test_nothing_is_said_if_noise_hides_the_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not sentences(monkeypatch, COUNTS, [3, 4, 2, 5], 3.0, 0.5)


def test_there_is_no_note_if_the_mean_over_groups_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(sentences(monkeypatch, COUNTS, [50, 50, 500, 500], 0.5, 0.5)) == 1
