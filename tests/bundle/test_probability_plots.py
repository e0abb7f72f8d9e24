from __future__ import annotations

import numpy as np
import pytest

from dpbayes_cli.bundle.report.probability_plots import (
    MAX_EMISSIONS,
    MAX_STATES,
    MAX_TABLE_ROWS,
    MAX_TABLE_VALUES,
    drawn_values,
    emissions_plot,
    table_plot,
)
from tests.bundle.pictures import cells_of, check_picture, markers, texts


def test_a_table_shows_every_mean_in_its_row_and_panel() -> None:
    cells = cells_of((3, 2, 2))
    parents = {"education": ["low", "mid", "high"], "sex": ["F", "M"]}
    picture = table_plot("income", ["<=50K", ">50K"], parents, cells, "table")
    check_picture(picture)
    drawn = texts(picture)
    assert [label for label in drawn if label[-3:] in {", F", ", M"}] == [
        f"{first}, {second}" for first in parents["education"] for second in parents["sex"]
    ]
    assert {"<=50K", ">50K"} <= set(drawn)
    panels = markers(picture)
    assert [len(panel) for panel in panels] == [6, 6]
    for k, panel in enumerate(panels):
        assert np.corrcoef([x for x, _ in panel], cells["mean"].reshape(6, 2)[:, k])[0, 1] > 0.9999
        assert [y for _, y in panel] == sorted(y for _, y in panel)
    assert picture.caption == (
        "Posterior means and 90 % intervals of the probabilities of income given education, sex "
        "(a row for each combination of their values, in this order)."
    )
    assert picture == table_plot("income", ["<=50K", ">50K"], parents, cells, "table")


@pytest.mark.slow
def test_large_table_shows_its_first_rows_and_values() -> None:
    parents = {name: [f"{name}{k}" for k in range(20)] for name in "abc"}
    values = [f"occupation number {k}" for k in range(15)]
    picture = table_plot("occupation", values, parents, cells_of((8000, 15)), "table")
    check_picture(picture)
    assert [len(panel) for panel in markers(picture)] == [MAX_TABLE_ROWS] * MAX_TABLE_VALUES
    assert picture.caption.endswith("Shown: the first 24 of 8000 rows and the first 8 of 15 values.")
    assert len(picture.svg) < 200_000


def test_the_values_of_a_variable_without_parents_are_rows() -> None:
    cells = cells_of((30,))
    picture = table_plot("country", [f"c{k}" for k in range(30)], {}, cells, "table")
    check_picture(picture)
    (panel,) = markers(picture)
    assert np.corrcoef([x for x, _ in panel], cells["mean"][:MAX_TABLE_ROWS])[0, 1] > 0.9999
    assert picture.caption == (
        "Posterior means and 90 % intervals of the probabilities of country. Shown: the first 24 of 30 values."
    )


def test_emissions_show_every_mean_in_the_panel_of_its_state() -> None:
    cells = cells_of((3, 5))
    picture = emissions_plot("type", [f"kind {k}" for k in range(5)], cells, "emissions-0")
    check_picture(picture, labeled=True)
    panels = markers(picture)
    assert [len(panel) for panel in panels] == [5, 5, 5]
    for k, panel in enumerate(panels):
        assert np.corrcoef([x for x, _ in panel], cells["mean"][k])[0, 1] > 0.9999
        assert [y for _, y in panel] == sorted(y for _, y in panel)
        assert f"var(--hue-{k + 1})" in picture.svg
    assert {"state 1", "state 2", "state 3", *(f"kind {k}" for k in range(5))} <= set(texts(picture))
    best = int(cells["mean"][1].argmax())
    assert f"kind {best} in state 2 ({cells['mean'][1, best]:.2f})" in picture.svg
    assert picture.caption == "Posterior means and 90 % intervals of the probabilities of type in each state."


@pytest.mark.slow
def test_many_states_and_values_plot_the_first_and_the_likeliest() -> None:
    cells = cells_of((10, 40))
    picture = emissions_plot("type", [f"kind {k}" for k in range(40)], cells, "emissions-0")
    check_picture(picture, labeled=True)
    assert [len(panel) for panel in markers(picture)] == [MAX_EMISSIONS] * MAX_STATES
    shown = "Shown: the first 8 of 10 states and the 24 of 40 values that are most likely in some state."
    assert picture.caption.endswith(shown)
    assert len(picture.svg) < 200_000
    mean = np.array([np.arange(30.0), np.zeros(30)])
    mean[1, 0] = 99.0
    assert drawn_values(mean).tolist() == [0, *range(7, 30)]
