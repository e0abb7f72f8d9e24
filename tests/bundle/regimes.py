"""Sequences with regimes, a made-up posterior of their states, and a release of it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dpbayes_cli.core.noisy_observation import NoisyObservation, NoisySequences
from dpbayes_cli.inference.dirichlet_rows import summarize_draws
from dpbayes_cli.inference.posterior import Effort, Method, Posterior
from tests.commands.networks import spec_file
from tests.conftest import Cli

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


def months(count: int) -> list[str]:
    """Return the names of months, from January 2004."""
    return [f"{2004 + k // 12}-{k % 12 + 1:02d}" for k in range(count)]


def hmm_spec(
    sequences: list[str], steps: list[str], features: dict[str, list[str]], states: int, **more: Any
) -> dict[str, Any]:
    """Return a spec whose sequences are regions, and whose steps are months."""
    domain = {
        "sequence": {"column": "region", "values": sequences},
        "time": {"column": "month", "values": steps},
        "features": {name: {"values": values} for name, values in features.items()},
        "states": states,
    }
    return {
        **{"model": "hmm", "domain": domain, "privacy": {"epsilon": 1}},
        **{"inference": {"samples": 200}, "prior": {"stay": 5}, **more},
    }


def states_of(n_sequences: int, n_steps: int, n_states: int, seed: int = 1) -> Floats:
    """Return probabilities of states that last for some steps, most certain in the middle of a run."""
    rng = np.random.default_rng(seed)
    probabilities = np.empty((n_sequences, n_steps, n_states))
    for s in range(n_sequences):
        cuts = 1 + np.sort(rng.permutation(n_steps - 1)[: int(rng.integers(1, 7))])
        run = np.searchsorted(cuts, np.arange(n_steps), side="right")
        state = rng.integers(0, n_states, len(cuts) + 1)[run]
        distance = np.min(np.abs(np.arange(n_steps)[:, None] - cuts - 0.5), axis=1, initial=n_steps)
        sure = 1.0 - 0.5 * np.exp(-distance / 3.0) * rng.random(n_steps)
        probabilities[s] = (1.0 - sure[:, None]) / max(n_states - 1, 1)
        probabilities[s, np.arange(n_steps), state] = sure if n_states > 1 else 1.0
    return probabilities


def made_up(
    observation: NoisyObservation, method: Method, n_draws: int, rng: np.random.Generator, effort: Effort | None = None
) -> Posterior:
    """Return a posterior of the right shape that does not depend on the data, so that figures are predictable."""
    assert isinstance(observation, NoisySequences)
    n_states, rng = len(observation.initial), np.random.default_rng(7)
    emissions = [rng.dirichlet(np.full(len(prior), 0.5), n_states) for prior in observation.emission]
    transition = rng.dirichlet(np.ones(n_states), n_states) * 0.2 + 0.8 * np.eye(n_states)
    rows = [row for table in (*emissions, transition) for row in table] + [rng.dirichlet(np.ones(n_states))]
    draws = np.concatenate([rng.dirichlet(40.0 * row + 0.3, n_draws) for row in rows], axis=1)
    n_sequences, n_steps, _ = observation.observed[0].shape
    states = states_of(n_sequences, n_steps, n_states)
    return Posterior(summarize_draws(draws, draws.var(axis=0) / 2), draws, "made up", False, states=states)


def release_made_up(
    dpbayes: Cli, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], out: str = "out", *more: str
) -> Any:
    """Release one record with a made-up inference; return the printed JSON."""
    monkeypatch.setattr("dpbayes_cli.inference.solve.infer", made_up)
    domain = spec["domain"]
    axes = domain["sequence"], domain["time"]
    names = [*(axis["column"] for axis in axes), *domain["features"]]
    record = [*(axis["values"][0] for axis in axes), *(part["values"][0] for part in domain["features"].values())]
    with Path("log.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, record])
    done = dpbayes("release", "log.csv", "--spec", spec_file(spec), "--out", out, "--json", *more)
    return done.json
