from __future__ import annotations

from dataclasses import replace

import pytest

from dpbayes_cli.ledger.chain import Entry, broken_links, next_entry


def chain(length: int = 6) -> list[Entry]:
    entries: list[Entry] = []
    for i in range(length):
        entries.append(next_entry(entries[-1] if entries else None, {"kind": "test", "value": str(i)}))
    return entries


def test_an_honest_chain_verifies() -> None:
    entries = chain()
    assert broken_links(entries) == []
    assert [entry.sequence for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert entries[2].fields == {"kind": "test", "value": "2", "sequence": 3}


def test_the_head_of_a_known_chain_never_changes() -> None:
    assert chain()[-1].hash == HEAD


@pytest.mark.parametrize("position", range(6))
def test_every_edit_is_found(position: int) -> None:
    entries = chain()
    entries[position] = replace(entries[position], body=entries[position].body.replace("test", "tess"))
    assert broken_links(entries)


@pytest.mark.parametrize("position", range(5))
def test_every_deletion_except_at_the_end_is_found(position: int) -> None:
    entries = chain()
    del entries[position]
    assert broken_links(entries)


@pytest.mark.parametrize("position", range(5))
def test_every_exchange_is_found(position: int) -> None:
    entries = chain()
    entries[position], entries[position + 1] = entries[position + 1], entries[position]
    assert broken_links(entries)


def test_renumbering_after_an_exchange_is_found() -> None:
    entries = chain()
    entries[1], entries[2] = replace(entries[2], sequence=2), replace(entries[1], sequence=3)
    assert broken_links(entries)


def test_an_insertion_is_found() -> None:
    entries = chain()
    entries.insert(3, replace(entries[2], sequence=4))
    assert broken_links(entries)


HEAD = "d7e768045e6356c6ee3d73f8a3cb41049afd97491cfcfce35745f3fda8c97609"
