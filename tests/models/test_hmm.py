"""Hidden Markov model: its axes, its default prior, and the blocks of its Gibbs sweep."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.models.hmm import Hmm, HmmDomain, HmmPrior
from dpbayes_cli.privacy.neighbors import Neighbors

AXES = {"sequence": {"column": "s", "values": ["u", "v"]}, "time": {"column": "t", "values": ["1", "2", "3"]}}
DOMAIN: dict[str, Any] = {**AXES, "features": {"x": {"values": ["a", "b"]}}, "states": 2}


def test_a_column_has_one_part() -> None:
    with pytest.raises(msgspec.ValidationError, match="different columns"):
        msgspec.convert({**DOMAIN, "features": {"t": {"values": ["a", "b"]}}}, HmmDomain)


def test_a_sweep_updates_all_even_steps_and_then_all_odd_ones() -> None:
    """Sites are numbered sequence by sequence: two of one block must never be neighbors in time."""
    structure = Hmm.build(msgspec.convert(DOMAIN, HmmDomain), HmmPrior()).structure
    assert [block.tolist() for block in structure.update_blocks(0)] == [[0, 2, 3, 5], [1, 4]]
    one_step = {**DOMAIN, "time": {"column": "t", "values": ["1"]}}
    short = Hmm.build(msgspec.convert(one_step, HmmDomain), HmmPrior()).structure
    assert [block.tolist() for block in short.update_blocks(0)] == [[0, 1]]


def test_the_prior_prefers_to_stay_by_what_is_stated() -> None:
    structure = Hmm.build(msgspec.convert(DOMAIN, HmmDomain), HmmPrior(transition=0.5, stay=2.0)).structure
    np.testing.assert_array_equal(structure.successors, [[2.5, 0.5], [0.5, 2.5]])
    counted, _ = structure.draw_state_probabilities(np.zeros(6, dtype=np.int64), np.random.default_rng(0))
    assert counted[0, 0] > counted[1, 0]


def test_simulated_counts_are_those_of_all_records() -> None:
    features = {"x": {"values": ["a", "b"]}, "y": {"cuts": [0]}}
    model = Hmm.build(msgspec.convert({**DOMAIN, "features": features}, HmmDomain), HmmPrior())
    parameters, counts = model.simulated(RecordPolicy(Neighbors.REPLACE_ONE), 500, np.random.default_rng(1))
    assert len(parameters) == len(model.parameters)
    assert (sum(counts[:12]), sum(counts[12:])) == (500, 500)
