from __future__ import annotations

import re

import numpy as np
import pytest

from dpbayes_cli.bundle.report.probability_plots import MAX_TRANSITION_STATES, transitions_plot
from tests.bundle.pictures import check_picture, texts


def test_transitions_are_numbers_in_shaded_cells() -> None:
    transition = np.array([[0.9, 0.0999, 0.0001], [0.25, 0.5, 0.25], [0.0, 0.003, 0.997]])
    picture = transitions_plot(transition, np.array([1.0, 0.0, 0.0]), "transitions")
    check_picture(picture, labeled=True)
    drawn = texts(picture)
    assert drawn[4:] == [
        *("at first", "1.00", "0.00", "0.00"), *("from state 1", "0.90", "0.10", "<0.01"),
        *("from state 2", "0.25", "0.50", "0.25"), *("from state 3", "0.00", "<0.01", ">0.99"),
    ]  # fmt: skip
    opacities = re.findall(r"fill: var\(--series-1\); opacity: ([0-9.]+)", picture.svg)
    shades = 0.5 * np.concatenate([[1.0], transition[transition > 0.0]])
    assert [float(opacity) for opacity in opacities] == pytest.approx(shades.tolist(), abs=0.01)
    assert "from state 2: to 1 0.25, to 2 0.50, to 3 0.25" in picture.svg
    large = transitions_plot(np.full((20, 20), 0.05), np.full(20, 0.05), "transitions")
    assert large.caption.endswith(f"Shown: the first {MAX_TRANSITION_STATES} of 20 states.")
    assert texts(large).count("0.05") == MAX_TRANSITION_STATES * (MAX_TRANSITION_STATES + 1)
