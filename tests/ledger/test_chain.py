"""The hash chain shows every edited, removed, moved or inserted entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dpbayes_cli.ledger.chain import Entry, broken_links, next_entry


@pytest.fixture
def chain() -> list[Entry]:
    entries: list[Entry] = []
    for i in range(6):
        entries.append(next_entry(entries[-1] if entries else None, {"kind": "test", "value": str(i)}))
    return entries


def test_a_known_chain_never_changes(chain: list[Entry]) -> None:
    assert broken_links(chain) == []
    assert [entry.sequence for entry in chain] == [1, 2, 3, 4, 5, 6]
    assert chain[2].fields == {"kind": "test", "value": "2", "sequence": 3}
    assert chain[-1].hash == "d7e768045e6356c6ee3d73f8a3cb41049afd97491cfcfce35745f3fda8c97609"


def edited(entries: list[Entry], i: int) -> list[Entry]:
    body = entries[i].body.replace('"test"', '"text"')
    return [*entries[:i], replace(entries[i], body=body), *entries[i + 1 :]]


def deleted(entries: list[Entry], i: int) -> list[Entry]:
    return entries[:i] + entries[i + 1 :]


def exchanged(entries: list[Entry], i: int) -> list[Entry]:
    return [*entries[:i], entries[i + 1], entries[i], *entries[i + 2 :]]


def renumbered(entries: list[Entry], i: int) -> list[Entry]:
    return [replace(entry, sequence=number) for number, entry in enumerate(exchanged(entries, i), 1)]


def inserted(entries: list[Entry], i: int) -> list[Entry]:
    return [*entries[: i + 1], replace(entries[i], sequence=i + 2), *entries[i + 1 :]]


@pytest.mark.parametrize("tamper", [edited, deleted, exchanged, renumbered, inserted])
def test_every_change_but_a_missing_end_is_found(
    tamper: Callable[[list[Entry], int], list[Entry]], chain: list[Entry]
) -> None:
    for position in range(5):
        assert broken_links(tamper(chain, position)), position
    assert broken_links(chain[:2]) == []
