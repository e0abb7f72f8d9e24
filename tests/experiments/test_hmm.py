"""A study of hidden Markov models: held-out records, the price of a draw, and chains in floats."""

from __future__ import annotations

import importlib
import itertools
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import betainc, betaln, gammaln

from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.file_records import POLICY
from dpbayes_cli.experiments.hmm import HiddenMarkovModels
from dpbayes_cli.experiments.hmm_chains import HmmPrediction, HmmTrial, run_chain, state_shares
from dpbayes_cli.experiments.results import GridPoint
from dpbayes_cli.experiments.study import build_study, read_study
from dpbayes_cli.experiments.truncated_draws import draw_at_least, row_range
from dpbayes_cli.models.hmm import Hmm
from dpbayes_cli.spec.release_spec import build_spec
from tests.conftest import ROOT, SAMPLE_DATA
from tests.experiments.studies import HMM, write_records
from tests.plans import plan_arguments, plan_of

CONFIG = ROOT / "configs" / "experiments" / "hmm.yaml"


def study_of(place: Path, **changes: Any) -> HiddenMarkovModels:
    return require_type(build_study({**HMM, "trials": "4", **changes}, place), HiddenMarkovModels)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("records")
    write_records(place, 6000)
    return place


def point_of(study: HiddenMarkovModels, *place: Any) -> GridPoint:
    """The point with a number of states, an epsilon and a method."""
    return next(each for each in study.grid() if (each["states"], each["epsilon"], each["method"]) == place)


def test_what_is_held_out_is_not_learned_from(records: Path) -> None:
    study = study_of(records)
    trials = study.trials_of(point_of(study, 2, None, "non-private"))
    assert len({trial.held.tobytes() for trial in trials}) == len(trials)
    for trial in trials:
        assert trial.held.sum() == 3
        assert trial.n_train + trial.n_test == 6000
        for train, test in zip(trial.train, trial.test, strict=True):
            assert not train[trial.held].any()
            assert (train[~trial.held].sum(axis=1) > 0).all()
            assert test.shape[0] == 3


@pytest.mark.parametrize("n_states_draws", [5, 1])
def test_the_likelihood_is_that_of_brute_force(n_states_draws: int) -> None:
    rng = np.random.default_rng(2)
    held = np.zeros((2, 3), dtype=bool)
    held[0, 2] = held[1, 0] = True
    test = (np.array([[2, 1], [0, 3]]), np.array([[1, 0, 2], [2, 1, 0]]))
    emissions = tuple(rng.dirichlet(np.ones(size), size=(5, 2)) for size in (2, 3))
    states = rng.dirichlet(np.ones(2), size=(n_states_draws, 2, 3))
    expected = 0.0
    for i, place in enumerate([(0, 2), (1, 0)]):
        likelihoods = [
            sum(
                states[(d % n_states_draws, *place)][k]
                * math.prod(
                    np.prod(emission[d, k] ** counts[i]) for emission, counts in zip(emissions, test, strict=True)
                )
                for k in range(2)
            )
            for d in range(5)
        ]
        expected += math.log(np.mean(likelihoods))
    trial = HmmTrial((), held, test)
    assert trial.log_likelihood(HmmPrediction(emissions, states)) == pytest.approx(expected / 6.0)


def test_all_sweeps_are_paid_for_at_the_power_of_the_mechanism(records: Path) -> None:
    """The mechanism's least shares are those of a lattice: a little larger, and the range is smaller."""
    study = study_of(records)
    powers = {method: study.power_of(point_of(study, 2, "1", method)) for method in ("gibbs", "ops", "laplace")}
    each = sum(map(row_range, (2, 3), (0.1, 0.1)))
    assert powers["gibbs"] == pytest.approx(1.0 / (6 * 4.0 * each))
    request = plan_arguments(POLICY, Decimal(1), n_records=6000, sweeps=6)
    plan = plan_of(mechanism_type("gibbs")(), study.cases["units"].model(2), **request)
    assert 1.0 <= plan.parameters["likelihood_power"] * 6 * 4.0 * each < 1.1
    assert powers["ops"] == pytest.approx(1.0 / (2.0 * sum(map(row_range, (2, 3), (0.01, 0.01)))))
    assert powers["laplace"] is None


@pytest.mark.parametrize("shape", [(3.0, 5.0), (0.4, 0.7), (1.0, 400.0)])
def test_draws_with_a_least_entry_have_the_moments_of_their_law(shape: tuple[float, float]) -> None:
    """Means and squares of 20,000 draws within 5 standard errors, false fail 6e-7 each; the last by the chain."""
    n, least = 20_000, 0.1
    drawn = draw_at_least(np.tile(shape, (n, 1)), least, np.random.default_rng(4))
    assert drawn.min() >= least - 1e-12
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0)
    line = np.linspace(least, 1.0 - least, 200_001)
    masses = np.exp((shape[0] - 1.0) * np.log(line) + (shape[1] - 1.0) * np.log1p(-line))
    for power in (1, 2):
        expected = float((masses @ line**power) / masses.sum())
        values = drawn[:, 0] ** power
        assert abs(values.mean() - expected) <= 5.0 * values.std() / math.sqrt(n) + 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("as_released", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_chains_end_where_the_tempered_posterior_is(as_released: bool) -> None:
    """Shares of all 8 state paths in 20,000 chains against sums over states; 5 standard errors, false fail 6e-7 each.

    One sequence of three steps and one feature of two values, all other unknowns being integrated out.
    """
    least, power, n = 0.1, 0.6, 20_000
    domain = {
        "sequence": {"column": "s", "values": ["a"]}, "time": {"column": "t", "values": ["1", "2", "3"]},
        "features": {"x": {"values": ["0", "1"]}}, "states": 2,
    }  # fmt: skip
    spec = build_spec({"model": "hmm", "domain": domain, "prior": {"stay": 1.0, "emission": 1.5, "initial": 0.8}})
    model = require_type(spec.build_model(), Hmm)
    counts = np.array([[6, 1], [5, 3], [1, 4]])
    weights = {}
    for path in itertools.product(range(2), repeat=3):
        log = 0.0
        for k in range(2):
            a, b = 1.5 + power * sum(counts[t] for t in range(3) if path[t] == k) * np.ones(2)
            log += betaln(a, b) + math.log(betainc(a, b, 1.0 - least) - betainc(a, b, least))
            row = np.array([1.0 + (k == j) for j in range(2)])
            moves = np.array([sum((x, y) == (k, j) for x, y in itertools.pairwise(path)) for j in range(2)])
            log += float(gammaln(row + moves).sum() - gammaln((row + moves).sum()))
        weights[path] = math.exp(log)
    many, rng = (np.tile(counts, (n, 1, 1, 1)),), np.random.default_rng(6)
    drawn = run_chain(model, many, [power] * 40, [least], rng, as_released=as_released).states[:, 0]
    for path, weight in weights.items():
        share = weight / sum(weights.values())
        assert abs((drawn == path).all(axis=1).mean() - share) <= 5.0 * math.sqrt(share * (1.0 - share) / n)


def test_neighboring_states_say_what_they_know_of_a_state() -> None:
    transition, initial = np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0.6, 0.4])
    first, middle, last = state_shares(np.array([[[0, 1, 1]]]), transition[None], initial[None])[0, 0]
    np.testing.assert_allclose(first, np.array([0.6 * 0.1, 0.4 * 0.7]) / 0.34)
    np.testing.assert_allclose(middle, np.array([0.9 * 0.1, 0.1 * 0.7]) / 0.16)
    np.testing.assert_allclose(last, [0.3, 0.7])


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize("method", ["laplace", "ops"])
def test_the_planted_states_are_found_at_epsilon_3(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong in less than 5 % of all cells: those with a handful of records or none say little."""
    study = require_type(read_study(CONFIG), HiddenMarkovModels)
    point = point_of(study, 2, "3", method)
    monkeypatch.syspath_prepend(SAMPLE_DATA)
    planted = importlib.import_module("event_log").states()
    regions, months = (axis.levels for axis in study.cases["events"].model(2).axes)
    truth = np.array([[planted[region, month] == "A" for month in months] for region in regions])
    ((_, states), *_) = study.predictions(point, study.trials_of(point)[:1])
    likely = states[0, :, :, 0] > 0.5
    assert min((likely != truth).mean(), (likely == truth).mean()) < 0.05
