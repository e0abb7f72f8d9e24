"""States over time: a cell for each sequence and step in the hue of its state, and limits for large models."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from dpbayes_cli.bundle.report.inline_svg import HUES, Picture
from dpbayes_cli.bundle.report.states_plot import (
    MAX_SEQUENCES,
    MAX_STEPS,
    STRENGTHS,
    levels_of,
    runs_of,
    states_plot,
    stride_of,
)
from dpbayes_cli.core.columns import Column
from tests.bundle.pictures import Page, check_picture, texts
from tests.bundle.regimes import months, states_of

SWATCH = 0.16 * 72


def picture_of(n_sequences: int, n_steps: int, n_states: int) -> Picture:
    sequences = Column("region", tuple(f"region {i}" for i in range(n_sequences)))
    return states_plot(
        sequences, Column("month", tuple(months(n_steps))), states_of(n_sequences, n_steps, n_states), "states"
    )


def cells(picture: Picture) -> Counter[tuple[str, float]]:
    """Return the number of rectangles of each color and opacity, without the swatches of the legend."""
    counts: Counter[tuple[str, float]] = Counter()
    for shape in Page(picture.svg).attributes("path"):
        style = re.fullmatch(r"fill: var\(--([a-z0-9-]+)\)(?:; opacity: ([0-9.]+))?", shape.get("style", ""))
        corners = re.findall(r"[ML] ([-0-9.]+) ([-0-9.]+)", shape["d"])
        width = max(float(x) for x, _ in corners[:4]) - min(float(x) for x, _ in corners[:4])
        height = max(float(y) for _, y in corners[:4]) - min(float(y) for _, y in corners[:4])
        if style and not width == pytest.approx(height, abs=0.05) == SWATCH:
            counts[style[1], float(style[2] or 1.0)] += shape["d"].count("M ")
    return counts


@pytest.mark.parametrize(("n_sequences", "n_steps", "n_states"), [(3, 4, 2), (2, 1, 1), (1, 5, 6)])
def test_every_cell_has_the_hue_of_its_state_and_the_strength_of_its_probability(
    n_sequences: int, n_steps: int, n_states: int
) -> None:
    picture = picture_of(n_sequences, n_steps, n_states)
    check_picture(picture, labeled=True)
    states = states_of(n_sequences, n_steps, n_states)
    strengths = list(STRENGTHS.values())
    expected = Counter(
        (f"hue-{state + 1}", strengths[level])
        for state, level in zip(states.argmax(2).ravel(), levels_of(states.max(2)).ravel(), strict=True)
    )
    assert cells(picture) == expected
    assert sum(expected.values()) == n_sequences * n_steps
    assert {f"region {i}" for i in range(n_sequences)} | {"region", "month"} <= set(texts(picture))
    assert [label for label in texts(picture) if label.startswith("state ")] == [
        f"state {k + 1}" for k in range(n_states)
    ]
    assert ("below 50 %" in texts(picture)) == (n_states > 2)
    assert "Shown:" not in picture.caption
    assert picture == picture_of(n_sequences, n_steps, n_states)


def test_strengths_and_runs_by_hand() -> None:
    assert levels_of(np.array([0.3, 0.5, 0.69, 0.7, 0.9, 1.0])).tolist() == [0, 1, 1, 2, 3, 3]
    assert list(runs_of([0, 0, 1, 2, 2, 2])) == [(0, 2), (2, 1), (3, 3)]
    assert list(runs_of([4])) == [(0, 1)]
    states = np.array([[[0.95, 0.05], [0.60, 0.40], [0.20, 0.80], [0.45, 0.55]]])
    picture = states_plot(Column("s", ("only",)), Column("t", ("a", "b", "c", "d")), states, "states")
    assert cells(picture) == {("hue-1", 1.0): 1, ("hue-1", 0.4): 1, ("hue-2", 0.62): 1, ("hue-2", 0.4): 1}
    numbers = [label for label in texts(picture) if label in {"1", "2"}]
    assert numbers == ["1", "2"]
    assert 'aria-label="The most likely state by s and t;' in picture.svg
    assert "Overall, the most likely state is state 1 in 50 %, state 2 in 50 % of the steps." in picture.svg


@pytest.mark.slow
def test_many_sequences_and_steps_show_the_first() -> None:
    picture = picture_of(MAX_SEQUENCES + 5, MAX_STEPS + 1, 3)
    check_picture(picture, labeled=True)
    assert sum(cells(picture).values()) == MAX_SEQUENCES * MAX_STEPS
    assert picture.caption.endswith(
        "Shown: the first 40 of 45 values of region and the first 120 of 121 values of month."
    )
    assert f"region {MAX_SEQUENCES}" not in texts(picture)
    assert len(picture.svg) < 500_000


def test_states_beyond_the_hues_share_a_grey() -> None:
    picture = picture_of(20, 40, len(HUES) + 4)
    drawn = {color for color, _ in cells(picture)}
    assert drawn == {f"hue-{k + 1}" for k in range(len(HUES) + 1)}
    assert "states 7 to 10" in texts(picture)
    assert "state 7" in texts(picture_of(20, 40, len(HUES) + 1))


def test_a_stride_is_the_smallest_that_leaves_room() -> None:
    assert stride_of(["a"], 0.5) == 1
    assert stride_of(["2004-01"], 0.1) in {6, 12}
    assert stride_of(["W" * 7], 0.001) > 60
