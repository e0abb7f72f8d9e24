"""How likely each sequence of a hidden Markov model is in each state at each step: in the document, and as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpbayes_cli.base.csv_escape import csv_text
from dpbayes_cli.models.hmm import Hmm

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.core.contracts import Model

States = list[list[list[float]]]
"""By sequence, step and state."""


def stated_states(states: Floats) -> States:
    """Return probabilities as a document states them: with 6 significant digits, none outside 0 to 1.

    Args:
        states: shape (n_sequences, n_steps, n_states).
    """
    return [
        [[min(max(float(f"{p:.6g}"), 0.0), 1.0) for p in step] for step in sequence] for sequence in states.tolist()
    ]


def fits(states: States, model: Model) -> bool:
    """Return whether probabilities are those of a model's sequences, steps and states, as many as it has."""
    if not isinstance(model, Hmm):
        return False
    n_sequences, n_steps = model.shape
    return len(states) == n_sequences and all(
        len(sequence) == n_steps and all(len(step) == model.states for step in sequence) for sequence in states
    )


def states_csv(model: Hmm, states: States) -> bytes:
    """Return the bytes of ``states.csv``: sequence, step, the most likely state, and the probability of each.

    Args:
        model: whose states they are.
        states: as a document states them, so that the same document gives the same bytes.
    """
    header = ["sequence", "step", "state", *(f"p{name}" for name in model.state_names)]
    return csv_text([header, *_rows(model, states)]).encode("utf-8")


def _rows(model: Hmm, states: States) -> Iterator[list[str]]:
    sequences, steps = (axis.levels for axis in model.axes)
    for sequence, of_sequence in zip(sequences, states, strict=True):
        for step, p in zip(steps, of_sequence, strict=True):
            likely = model.state_names[p.index(max(p))]
            yield [sequence, step, likely, *map(repr, p)]
