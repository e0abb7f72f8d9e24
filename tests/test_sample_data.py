"""The synthetic event log has the planted structure."""

from __future__ import annotations

import csv
import importlib
import io
from collections import Counter
from statistics import median
from types import ModuleType

import pytest

from tests.conftest import SAMPLE_DATA


@pytest.fixture(scope="module")
def event_log() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SAMPLE_DATA)
        return importlib.import_module("event_log")


@pytest.fixture(scope="module")
def records(event_log: ModuleType) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(event_log.events().decode("ascii"))))


def test_every_region_switches_once_for_good_around_september_2007(event_log: ModuleType) -> None:
    switches = event_log.switch_months()
    assert set(switches) == set(event_log.REGIONS)
    assert all("2007-03" <= month <= "2008-03" for month in switches.values())
    assert median(map(event_log.MONTHS.index, switches.values())) == event_log.MONTHS.index("2007-09")
    assert len(set(switches.values())) > 5
    states = event_log.states()
    for region, month in states:
        assert states[region, month] == "A" or month < switches[region]
    early = Counter(region for (region, month), state in states.items() if state == "A" and month < switches[region])
    assert early == {region: length for region, (_, length) in event_log.SPELLS.items()}


@pytest.mark.slow
def test_counts_are_skewed(event_log: ModuleType, records: list[dict[str, str]]) -> None:
    assert len(records) == event_log.N_RECORDS
    counts = Counter((record["region"], record["month"]) for record in records)
    every = sorted(counts[region, month] for region in event_log.REGIONS for month in event_log.MONTHS)
    assert (every[0], every.count(0), median(every), every[-1]) == (0, 4, 110.5, 4219)
    regions = sorted(Counter(record["region"] for record in records).values())
    assert (regions[0], regions[-1]) == (1792, 87474)


@pytest.mark.slow
def test_events_depend_on_the_state(event_log: ModuleType, records: list[dict[str, str]]) -> None:
    """Shares within 5 standard errors (false-fail 6e-7 each), with more than 100,000 records in each state."""
    states = event_log.states()
    for k, state in enumerate(event_log.STATES):
        own = [record for record in records if states[record["region"], record["month"]] == state]
        assert len(own) > 100_000
        for column, shares in event_log.SHARES.items():
            counts = Counter(record[column] for record in own)
            for value, pair in shares.items():
                share = pair[k] / 100.0
                assert abs(counts[value] / len(own) - share) <= 5.0 * (share * (1.0 - share) / len(own)) ** 0.5


def test_a_log_of_any_size_can_be_made(event_log: ModuleType) -> None:
    header, *lines = event_log.events(1000).decode("ascii").splitlines()
    assert (header, len(lines)) == ("region,month,kind,category,friendly,civilian,enemy", 1000)
