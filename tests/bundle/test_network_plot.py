from __future__ import annotations

import re

from dpbayes_cli.bundle.report.inline_svg import Picture
from dpbayes_cli.bundle.report.network_plot import (
    MAX_VARIABLES,
    markov_blanket,
    network_plot,
    shown_variables,
    sort_parents_first,
)
from tests.bundle.pictures import HOSTILE, check_picture, texts
from tests.bundle.test_layered_layout import Parents, random_graph


def picture_of(parents: Parents, target: int | None, names: list[str] | None = None) -> Picture:
    names = names or [f"v{i}" for i in range(len(parents))]
    return network_plot(names, [2 + i % 3 for i in range(len(parents))], parents, target, "network")


def test_network_picture_shows_all_variables_and_arrows_and_marks_the_target() -> None:
    parents = random_graph(14, 3, 1)
    picture = picture_of(parents, 5)
    check_picture(picture)
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
    check_picture(picture)
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
    check_picture(picture)
    assert {label for label in texts(picture) if label.startswith("v")} == {f"v{i}" for i in {target, *blanket}}
    assert picture.caption.endswith(
        "Shown: the target and its Markov blanket (parents, children and the children's other parents), "
        f"{len(blanket) + 1} variables."
    )


def test_large_blanket_or_no_target_shows_the_first_variables() -> None:
    star: Parents = [(), *((0,) for _ in range(999))]
    picture = picture_of(star, 0)
    check_picture(picture)
    assert len([label for label in texts(picture) if label.startswith("v")]) == MAX_VARIABLES
    assert "the target and the first 39 of the 999 variables in its Markov blanket" in picture.caption
    parents = random_graph(1000, 3, 5)
    shown = shown_variables(parents, None)
    assert len(shown) == MAX_VARIABLES
    assert all(j in shown[:k] for k, i in enumerate(shown) for j in parents[i])
    picture = picture_of(parents, None)
    check_picture(picture)
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
    assert sort_parents_first([(2,), (), (1,), (0,)]) == (1, 2, 0, 3)
    chain: Parents = [*((i + 1,) for i in range(4999)), ()]
    assert sort_parents_first(chain) == tuple(range(4999, -1, -1))
