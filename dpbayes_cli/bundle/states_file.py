"""The state probabilities of a hidden Markov model by sequence and step: in the document, and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dpbayes_cli.base.csv_escape import csv_text
from dpbayes_cli.core.model_sections import ModelSection, StatesOverTime, section_of

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

States = list[list[list[float]]]
"""Probabilities by sequence, step and state."""


def rounded_states(states: Floats) -> States:
    """Return probabilities as a document states them: with 6 significant digits, none outside 0 to 1.

    Args:
        states: shape (n_sequences, n_steps, n_states).
    """
    return [
        [[min(max(float(f"{p:.6g}"), 0.0), 1.0) for p in step] for step in sequence] for sequence in states.tolist()
    ]


def fits(states: States, sections: Iterable[ModelSection]) -> bool:
    """Return whether probabilities have the model's numbers of sequences, steps and states."""
    over_time = section_of(sections, StatesOverTime)
    if over_time is None:
        return False
    n_sequences, n_steps, n_states = over_time.shape
    return len(states) == n_sequences and all(
        len(sequence) == n_steps and all(len(step) == n_states for step in sequence) for sequence in states
    )


def states_csv(over_time: StatesOverTime, states: States) -> bytes:
    """Return the bytes of ``states.csv``: sequence, step, the most likely state, and the probability of each.

    Args:
        over_time: the names of sequences, steps and states.
        states: the probabilities in the document, so that the same document gives the same bytes.
    """
    header = ["sequence", "step", "state", *(f"p{name}" for name in over_time.state_names)]
    return csv_text([header, *_rows(over_time, states)]).encode("utf-8")


def _rows(over_time: StatesOverTime, states: States) -> Iterator[list[str]]:
    sequences, steps = (axis.levels for axis in over_time.axes)
    for sequence, of_sequence in zip(sequences, states, strict=True):
        for step, p in zip(steps, of_sequence, strict=True):
            likely = over_time.state_names[p.index(max(p))]
            yield [sequence, step, likely, *map(repr, p)]
