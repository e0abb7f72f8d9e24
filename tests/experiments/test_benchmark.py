"""The benchmark: samplers against exact posteriors, claims that a peer can win, and peers that are missing."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.experiments import mst_aim, peers
from dpbayes_cli.experiments.benchmark import Benchmark
from dpbayes_cli.experiments.results import Result, Results
from dpbayes_cli.experiments.study import build_study
from tests.experiments.studies import BENCHMARK, changed


def study_of(document: dict[str, Any], place: Path = Path()) -> Benchmark:
    study = build_study(document, place)
    assert isinstance(study, Benchmark)
    return study


def coin(**settings: Any) -> dict[str, Any]:
    document = changed(BENCHMARK, "cases", {"coin": BENCHMARK["cases"]["coin"]})
    return {**document, **settings}


def test_the_sampler_of_ju_draws_from_the_exact_posterior() -> None:
    """100 equal data sets, whose 40 late sweeps are compared with enumeration of the counts.

    The mean over sets has a standard error of at most sd / 10, as if a set had one draw: six of them.
    """
    n, scale, y = 12, 2.0, 7.5
    counts = np.arange(n + 1)
    weights = stats.betabinom.pmf(counts, n, 1, 1) * np.exp(-np.abs(y - counts) / scale)
    weights /= weights.sum()
    mean = weights @ ((1 + counts) / (n + 2))
    square = weights @ ((1 + counts) * (2 + counts) / ((n + 2) * (n + 3)))
    rng = np.random.default_rng(3)
    draws = peers.ju_sampler(
        np.full((100, 1), y), scale,
        lambda theta: (rng.random((n, 100)) < theta[:, 0]).astype(int),
        lambda records: records[:, :, None].astype(float),
        lambda records: rng.beta(1 + records.sum(axis=0), 1 + n - records.sum(axis=0))[:, None],
        np.full((100, 1), 0.5), 40, rng,
    )  # fmt: skip
    sd = np.sqrt(square - mean**2)
    assert abs(draws.mean() - mean) < 0.6 * sd
    assert abs(np.square(draws).mean() - square) < 0.6 * sd
    assert abs(draws.std() - sd) < 0.25 * sd


def test_a_method_whose_package_is_missing_is_refused(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(peers, "version", missing)
    for path, method, says in (("line", "diffprivlib", "diffprivlib is not"), ("pairs", "mst", "mbi is not")):
        study = study_of(changed(BENCHMARK, "cases", path, "methods", [method]), records)
        with pytest.raises(SpecError, match=says):
            study.grid()
    with pytest.raises(SpecError, match="scikit-learn is not"):
        peers.peer("sklearn.datasets")


@pytest.mark.slow
def test_costs_are_those_of_a_process_of_its_own() -> None:
    study = study_of(changed(coin(costs=True), "cases", "coin", "methods", ["laplace"]))
    (point,) = study.grid()
    measures = study.run(point).measures
    assert measures["seconds"] is not None
    assert 30.0 < (measures["megabytes"] or 0.0) < 1000.0


def test_a_better_and_faster_method_of_others_is_named() -> None:
    study = study_of(coin(costs=True))
    results = []
    for point in study.grid():
        is_peer = point["method"] == "ju"
        trials = {name: [1.0 - 0.5 * is_peer, 1.1 - 0.5 * is_peer] for name in ("error", "loss")}
        measures = {"coverage": 0.9, "coverage_se": 0.0, "seconds": 0.5 if is_peer else 1.0}
        results.append(Result(point, measures, trials))
    claims = list(study.claims(Results(results)))
    assert [claim.holds for claim in claims] == [True, False, False, False]
    assert all("`ju` at epsilon 5" in claim.measured for claim in claims[1:])
    assert all("laplace" in claim.says for claim in claims)


def test_records_are_either_simulated_or_read() -> None:
    for key, value in (("records", "records.csv"), ("spec", None)):
        with pytest.raises(SpecError, match="state"):
            study_of(changed(coin(), "cases", "coin", key, value))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mst_and_aim_find_the_pairs_of_the_records_where_noise_is_small() -> None:
    """Three columns in a chain, which a tree holds exactly, at a rho of 1; and projections are those of mbi."""
    pytest.importorskip("mbi", reason="mbi is not installed")
    rng = np.random.default_rng(5)
    a = rng.integers(3, size=4000)
    b = np.where(rng.random(4000) < 0.7, a, rng.integers(3, size=4000))
    c = np.where(rng.random(4000) < 0.8, b == 1, rng.integers(2, size=4000)).astype(int)
    codes, sizes = np.column_stack([a, b, c]), (3, 3, 2)
    exact = {
        (i, j): np.bincount(codes[:, i] * sizes[j] + codes[:, j], minlength=sizes[i] * sizes[j])
        .reshape(sizes[i], sizes[j])
        .astype(float)
        for i, j in ((0, 1), (0, 2), (1, 2))
    }
    for found, made in (mst_aim.mst(exact, 1.0, 4000, 1, 500), mst_aim.aim(exact, 1.0, 4000, 1, 500, 2)):
        for edge, table in exact.items():
            assert 0.5 * np.abs(found[edge] - table).sum() / 4000 < 0.03
        assert abs((made[:, 0] == made[:, 1]).mean() - (a == b).mean()) < 0.03
    model = mst_aim.GraphicalModel(sizes)
    for edge, table in exact.items():
        model.measure(edge, table, 1.0)
    model.fit(200)
    own = np.asarray(model.fitted.project(("0", "2")).datavector(flatten=False))
    np.testing.assert_allclose(model.project((0, 2)), own, rtol=1e-3, atol=0.1)
