"""Pictures of networks and tables: parents above children, escaped texts, nothing fetched, bounded size."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from dpbayes_cli.bundle.report.cut_text import ems, fitting
from dpbayes_cli.bundle.report.inline_svg import Picture
from dpbayes_cli.bundle.report.layered_layout import Layout, layered, layers_of, n_crossings, split_rows
from dpbayes_cli.bundle.report.network_plot import (
    MAX_VARIABLES,
    markov_blanket,
    network_plot,
    parents_first,
    shown_variables,
)
from dpbayes_cli.bundle.report.probability_plots import MAX_TABLE_ROWS, MAX_TABLE_VALUES, table_plot
from tests.bundle.test_page import EVIL, Page

Parents = list[tuple[int, ...]]
BOX, GAP, LANE, WIDEST = 1.0, 0.2, 0.1, 8.0
HOSTILE = [*EVIL, '<b>&"', "$x^2$ \\frac"]
NAIVE_BAYES: Parents = [(), *((0,) for _ in range(14))]


def random_graph(n: int, most: int, seed: int) -> Parents:
    """Return a random acyclic graph whose vertices are not in topological order."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(n)
    parents: Parents = [()] * n
    for k, i in enumerate(names):
        earlier = rng.permutation(names[:k])[: int(rng.integers(0, most + 1))]
        parents[i] = tuple(int(j) for j in earlier)
    return parents


def texts(picture: Picture) -> list[str]:
    return [data for tag, data in Page(picture.svg).texts if tag == "text"]


def check(picture: Picture, *, labelled: bool = False) -> None:
    """Check what every picture must be: one labelled element in the page's colors that fetches nothing.

    Args:
        picture: the picture.
        labelled: whether its label says more than its caption.
    """
    ElementTree.fromstring(picture.svg.replace("xmlns:xlink", "xmlns:x"))
    page = Page(picture.svg)
    assert picture.svg.count("<svg") == 1
    (frame,) = page.attributes("svg")
    assert frame["role"] == "img"
    assert frame["aria-label"].startswith(picture.caption)
    assert (len(frame["aria-label"]) > len(picture.caption)) == labelled
    assert not {tag for tag, _ in page.tags} & {"script", "image", "style", "a", "foreignobject", "b"}
    references = [value for _, attributes in page.tags for key, value in attributes.items() if key in {"href", "src"}]
    references += re.findall(r"url\(([^)]*)\)", " ".join(v for _, f in page.tags for v in f.values() if v != EVIL[4]))
    assert all(value.startswith("#") for value in references)
    styles = " ".join(attributes.get("style", "") for _, attributes in page.tags)
    assert "var(--ink)" in styles
    assert not re.search("#[0-9a-f]{6}", styles)


def check_layout(parents: Parents, layout: Layout) -> None:
    """Check that parents are above children, routes pass every row between, and nothing overlaps or lies outside."""
    items: dict[int, set[tuple[float, float]]] = {}
    for i, each in enumerate(parents):
        items.setdefault(layout.row[i], set()).add((layout.x[i], BOX))
        for j in each:
            assert layout.row[j] < layout.row[i]
            assert len(layout.routes[j, i]) == layout.row[i] - layout.row[j] - 1
            for r, x in enumerate(layout.routes[j, i], layout.row[j] + 1):
                items.setdefault(r, set()).add((x, LANE))
    assert sum(size == BOX for row in items.values() for _, size in row) == len(parents)
    for row in items.values():
        placed = sorted(row)
        for (x, size), (y, other) in pairwise(placed):
            assert y - x >= (size + other) / 2 + GAP - 1e-9
        assert placed[0][0] >= placed[0][1] / 2 - 1e-9
        assert placed[-1][0] <= layout.width - placed[-1][1] / 2 + 1e-9


@pytest.mark.parametrize(
    "parents",
    [
        [()],
        NAIVE_BAYES,
        [(), (0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)],
        [()] * 40,
        [(i - 1,) if i else () for i in range(40)],
        *(random_graph(n, most, seed) for seed, (n, most) in enumerate([(5, 2), (14, 3), (25, 2), (40, 3), (40, 6)])),
    ],
)
def test_layout_puts_parents_above_children_without_overlap(parents: Parents) -> None:
    layout = layered(parents, BOX, GAP, LANE, WIDEST)
    check_layout(parents, layout)
    assert layout == layered(parents, BOX, GAP, LANE, WIDEST)
    most = max(layout.row.count(r) for r in range(layout.n_rows))
    assert most * (BOX + GAP) - GAP <= WIDEST


def test_layers_are_longest_paths_and_rows_are_even() -> None:
    assert layers_of([(), (0,), (0, 1), (), (3, 2)]) == (0, 1, 2, 0, 3)
    assert layers_of([(1,), (2,), ()]) == (2, 1, 0)
    assert split_rows([0, 1, 1, 1, 1, 1, 2], 2) == (0, 1, 2, 3, 1, 2, 4)


def test_crossings_are_counted_and_avoidable_ones_removed() -> None:
    assert n_crossings([(0, 1), (1, 0)]) == 1
    assert n_crossings([(0, 0), (1, 1), (0, 1)]) == 0
    assert n_crossings([(a, b) for a in range(3) for b in range(3)]) == 9
    # each child under its own parent, in any order of the numbers
    order = np.random.default_rng(2).permutation(6)
    parents: Parents = [(), (), (), (), (), (), *((int(j),) for j in order)]
    layout = layered(parents, BOX, GAP, LANE, WIDEST)
    places = [(layout.x[j], layout.x[6 + k]) for k, j in enumerate(order)]
    assert n_crossings(places) == 0
    assert all(upper == pytest.approx(lower) for upper, lower in places)


def test_parent_is_centered_above_its_children() -> None:
    layout = layered([(), (0,), (0,), (0,)], BOX, GAP, LANE, WIDEST)
    assert layout.x[0] == pytest.approx(sum(layout.x[1:]) / 3)


def picture_of(parents: Parents, target: int | None, names: list[str] | None = None) -> Picture:
    names = names or [f"v{i}" for i in range(len(parents))]
    return network_plot(names, [2 + i % 3 for i in range(len(parents))], parents, target, "network")


def test_network_picture_shows_all_variables_and_arrows_and_marks_the_target() -> None:
    parents = random_graph(14, 3, 1)
    picture = picture_of(parents, 5)
    check(picture)
    drawn = texts(picture)
    assert {f"v{i}" for i in range(14)} <= set(drawn)
    assert [label for label in drawn if label.startswith("target")] == ["target, 4 values"]
    n_edges = sum(map(len, parents))
    assert picture.caption == f"The network: 14 variables, {n_edges} arrows from parent to child; the target is v5."
    heads = re.findall(r'<path d="[^"]*z', picture.svg)
    without = re.findall(r'<path d="[^"]*z', picture_of([()] * 14, 5).svg)
    assert len(heads) - len(without) == n_edges
    assert picture.svg == picture_of(parents, 5).svg
    assert "target" not in picture_of(parents, None).svg


def test_names_are_texts_that_fit_in_their_boxes() -> None:
    names = [*HOSTILE, "W" * 500]
    parents: Parents = [(), *((i,) for i in range(len(names) - 1))]
    picture = picture_of(parents, 3, names)
    check(picture)
    drawn = texts(picture)
    assert '<b>&"' in drawn
    assert "$x^2$ \\frac" in drawn
    assert "<b>" not in picture.svg
    assert max(map(len, drawn)) < 30
    assert sum("…" in label for label in drawn) >= 3


def test_large_network_shows_the_markov_blanket() -> None:
    parents = random_graph(1000, 3, 4)
    target = max(range(1000), key=lambda i: -abs(len(markov_blanket(parents, i)) - 12))
    blanket = markov_blanket(parents, target)
    picture = picture_of(parents, target)
    check(picture)
    assert {label for label in texts(picture) if label.startswith("v")} == {f"v{i}" for i in {target, *blanket}}
    assert picture.caption.endswith(
        "Shown: the target and its Markov blanket (parents, children and the children's other parents), "
        f"{len(blanket) + 1} variables."
    )


def test_large_blanket_or_no_target_shows_the_first_variables() -> None:
    star: Parents = [(), *((0,) for _ in range(999))]
    picture = picture_of(star, 0)
    check(picture)
    assert len([label for label in texts(picture) if label.startswith("v")]) == MAX_VARIABLES
    assert "the target and the first 39 of the 999 variables in its Markov blanket" in picture.caption
    parents = random_graph(1000, 3, 5)
    shown = shown_variables(parents, None)
    assert len(shown) == MAX_VARIABLES
    assert all(j in shown[:k] for k, i in enumerate(shown) for j in parents[i])
    picture = picture_of(parents, None)
    check(picture)
    assert "Shown: the first 40 variables, parents before children, and the arrows between them." in picture.caption
    assert len(picture.svg) < 250_000
    last_child = shown_variables(star, 999)
    assert last_child == (0, 999)
    hub: Parents = [*([()] * 60), tuple(range(60))]
    assert 60 in shown_variables(hub, 60)
    assert len(shown_variables(hub, 60)) == MAX_VARIABLES


def test_markov_blanket_and_parents_first_by_hand() -> None:
    # 0 -> 1 -> 3 <- 2, 3 -> 4
    parents: Parents = [(), (0,), (), (1, 2), (3,)]
    assert markov_blanket(parents, 1) == {0, 3, 2}
    assert markov_blanket(parents, 4) == {3}
    assert parents_first([(2,), (), (1,), (0,)]) == (1, 2, 0, 3)
    chain: Parents = [*((i + 1,) for i in range(4999)), ()]
    assert parents_first(chain) == tuple(range(4999, -1, -1))


def test_a_cut_text_keeps_its_ends_and_fits() -> None:
    assert fitting("short", 10.0) == "short"
    for name in (*HOSTILE, "occupation number 17", "W" * 99, "日本語" * 20):
        cut = fitting(name, 8.0)
        assert ems(cut) <= 8.0
        assert cut == name or "…" in cut
    assert fitting("occupation number 17", 8.0).endswith("17")
    assert fitting("occupation number 17", 8.0).startswith("occ")


def test_widths_are_no_less_than_those_of_the_widest_common_font() -> None:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font, measure = FontProperties(family="DejaVu Sans", size=100), TextToPath()
    for code in (*range(0x20, 0x7F), *range(0xA1, 0x100), *range(0x410, 0x450), 0x2014, 0x2026):
        width = measure.get_text_width_height_descent(chr(code), font, ismath=False)[0]
        assert ems(chr(code)) >= width / 100 - 0.01, chr(code)


def cells_of(shape: tuple[int, ...], seed: int = 0) -> dict[str, np.ndarray]:
    mean = np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1])
    return {"mean": mean, "q05": 0.5 * mean, "q95": np.minimum(1.0, 1.5 * mean)}


def markers(picture: Picture) -> list[list[tuple[float, float]]]:
    """Return the positions of the dots, panel by panel."""
    panels = re.findall(r'<g clip-path="[^"]*">\s*((?:<use [^>]*/>\s*)+)</g>', picture.svg)
    place = re.compile(r'x="([-\d.]+)" y="([-\d.]+)"')
    return [[(float(x), float(y)) for x, y in place.findall(group)] for group in panels]


def test_a_table_shows_every_mean_in_its_row_and_panel() -> None:
    cells = cells_of((3, 2, 2))
    parents = {"education": ["low", "mid", "high"], "sex": ["F", "M"]}
    picture = table_plot("income", ["<=50K", ">50K"], parents, cells, "table")
    check(picture)
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
        "(a row for each combination, in this order)."
    )
    assert picture == table_plot("income", ["<=50K", ">50K"], parents, cells, "table")


def test_large_table_shows_its_first_rows_and_values() -> None:
    parents = {name: [f"{name}{k}" for k in range(20)] for name in "abc"}
    values = [f"occupation number {k}" for k in range(15)]
    picture = table_plot("occupation", values, parents, cells_of((8000, 15)), "table")
    check(picture)
    assert [len(panel) for panel in markers(picture)] == [MAX_TABLE_ROWS] * MAX_TABLE_VALUES
    assert picture.caption.endswith("Shown: the first 24 of 8000 rows and the first 8 of 15 values.")
    assert len(picture.svg) < 200_000


def test_the_values_of_a_variable_without_parents_are_rows() -> None:
    cells = cells_of((30,))
    picture = table_plot("country", [f"c{k}" for k in range(30)], {}, cells, "table")
    check(picture)
    (panel,) = markers(picture)
    assert np.corrcoef([x for x, _ in panel], cells["mean"][:MAX_TABLE_ROWS])[0, 1] > 0.9999
    assert picture.caption == (
        "Posterior means and 90 % intervals of the probabilities of country. Shown: the first 24 of 30 values."
    )


def test_hostile_names_in_a_table_are_texts() -> None:
    picture = table_plot('<b>&"', HOSTILE[:8], {'<b>&"': HOSTILE, "b": ["1"]}, cells_of((len(HOSTILE), 8)), "table")
    check(picture)
    assert "<b>" not in picture.svg
    assert '<b>&", 1' in texts(picture)
