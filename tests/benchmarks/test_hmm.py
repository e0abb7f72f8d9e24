"""Hidden Markov models: a release against records, and a chain's sweeps; whole processes, printed, not asserted."""

from __future__ import annotations

import importlib
import time
from pathlib import Path

import numpy as np
import pytest

from dpbayes_cli.inference.sequences.sequence_chain import SequenceChain
from dpbayes_cli.inference.sequences.sequence_state import SequenceData
from dpbayes_cli.models.hmm import Hmm
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.spec.yaml_reader import read_spec_file
from tests.benchmarks.test_benchmarks import DPBAYES, measure
from tests.conftest import ROOT, SAMPLE_DATA

pytestmark = pytest.mark.benchmark

SPEC = ROOT / "configs" / "releases" / "events-hmm.yaml"


@pytest.mark.parametrize("n_records", [390_000, 3_900_000])
def test_a_release_and_its_memory(n_records: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SAMPLE_DATA)
    data = tmp_path / "events.csv"
    data.write_bytes(importlib.import_module("event_log").events(n_records))
    seconds, memory = measure(
        [*DPBAYES, "release", str(data), "--spec", str(SPEC), "--dataset", "new", "--eps", "3"], runs=1
    )
    print(f"\n{n_records:,} records, 20 sequences, 72 steps, 5 features: {seconds:.1f} s, {memory:.0f} MB")


def test_sweeps() -> None:
    """200 sweeps of one chain, noise of scale 2 on 36,000 counts."""
    model = build_spec(read_spec_file(SPEC)).build_model()
    assert isinstance(model, Hmm)
    rng = np.random.default_rng(1)
    emissions, _, _ = model.draw_parameters(rng)
    states = (np.arange(72) >= rng.integers(40, 50, (20, 1))).astype(int)
    totals = rng.poisson(270 * rng.gamma(0.5, 2.0, (20, 72)))
    law = DiscreteLaplace(2.0)
    counts = [rng.multinomial(totals, emission[states]) for emission in emissions]
    seen = tuple(each + law.simulate(rng, each.shape) for each in counts)
    rough = SequenceChain(SequenceData.of(model.observed(seen, (law,) * 5, complete=True), naive=True), rng)
    rough.start()
    chain = SequenceChain(SequenceData.of(model.observed(seen, (law,) * 5, complete=True)), rng)
    chain.restart_from(rough)
    started = time.perf_counter()
    for _ in range(200):
        chain.sweep()
    print(f"\n200 sweeps: {time.perf_counter() - started:.2f} s")
