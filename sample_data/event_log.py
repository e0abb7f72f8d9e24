"""A synthetic log of events by region and month, in the shape of the case study of Foulds et al. 2016, sec. 5.

Every region is in state B until it switches to state A for good, at a month of its own around September 2007; three
regions have an earlier spell of A. Events depend on the state of their region and month, and on nothing else. How many
there are does not: it differs widely between regions, grows until 2007, and falls off.
"""

from __future__ import annotations

import bisect
import itertools
import math
import random

REGIONS = tuple(f"R{k + 1:02}" for k in range(20))
MONTHS = tuple(f"{year}-{month:02}" for year in range(2004, 2010) for month in range(1, 13))
STATES = ("A", "B")

SHARES: dict[str, dict[str, tuple[int, int]]] = {
    "kind": {
        "friendly action": (36, 15),
        "explosive hazard": (20, 34),
        "enemy action": (17, 26),
        "criminal event": (9, 13),
        "non-combat event": (8, 5),
        "suspicious incident": (6, 4),
        "other": (4, 3),
    },
    "category": {
        "cache found": (25, 8),
        "IED explosion": (11, 24),
        "IED found": (12, 13),
        "direct fire": (11, 17),
        "indirect fire": (6, 10),
        "raid": (10, 5),
        "detention": (8, 4),
        "murder": (4, 8),
        "accident": (4, 3),
        "show of force": (3, 4),
        "patrol": (4, 2),
        "other": (2, 2),
    },
    "friendly": {"0": (94, 87), "1": (6, 13)},
    "civilian": {"0": (93, 83), "1": (7, 17)},
    "enemy": {"0": (80, 91), "1": (20, 9)},
}
"""By column and value: of a hundred events in state A, and in state B, how many have it."""

SPELLS = {"R04": ("2005-03", 4), "R11": ("2006-01", 3), "R17": ("2005-08", 5)}
"""Regions that were in state A before, since when, and for how many months."""

N_RECORDS = 390_000


def switch_months() -> dict[str, str]:
    """Return the month from which each region is in state A for good."""
    rng = random.Random(20260105)
    usual = MONTHS.index("2007-09")
    return {region: MONTHS[usual + min(6, max(-6, round(rng.gauss(0.0, 2.5))))] for region in REGIONS}


def states() -> dict[tuple[str, str], str]:
    """Return the state of each region in each month."""
    switches, states = switch_months(), {}
    for region in REGIONS:
        start, length = SPELLS.get(region, (MONTHS[0], 0))
        spell = range(MONTHS.index(start), MONTHS.index(start) + length)
        for t, month in enumerate(MONTHS):
            states[region, month] = "A" if month >= switches[region] or t in spell else "B"
    return states


def intensities() -> dict[tuple[str, str], float]:
    """Return how many events are expected of each region and month, relative to others; months first."""
    rng = random.Random(20260106)
    sizes = [math.exp(rng.gauss(0.0, 0.9)) for _ in REGIONS]
    peak = MONTHS.index("2007-06")
    course = [0.1 + math.exp(-(((t - peak) / (26.0 if t < peak else 16.0)) ** 2)) for t in range(len(MONTHS))]
    cells = itertools.product(range(len(MONTHS)), range(len(REGIONS)))
    return {(REGIONS[r], MONTHS[t]): sizes[r] * course[t] * rng.gammavariate(2.0, 1.0) for t, r in cells}


def events(n_records: int = N_RECORDS) -> bytes:
    """Return so many events, month by month and region by region: region, month, kind, category, casualties.

    ``friendly``, ``civilian`` and ``enemy`` are 1 where there were casualties of that side, else 0.
    """
    rng = random.Random(20260107)
    expected, state = intensities(), states()
    cells, ends = list(expected), list(itertools.accumulate(expected.values()))
    counts = [0] * len(cells)
    for _ in range(n_records):
        counts[bisect.bisect(ends, rng.random() * ends[-1], hi=len(ends) - 1)] += 1
    weights = [[[pair[k] for pair in column.values()] for column in SHARES.values()] for k in range(len(STATES))]
    lines = [",".join(("region", "month", *SHARES))]
    for (region, month), n in zip(cells, counts, strict=True):
        own = weights[STATES.index(state[region, month])]
        drawn = [rng.choices(list(v), w, k=n) for v, w in zip(SHARES.values(), own, strict=True)]
        lines += [f"{region},{month},{','.join(values)}" for values in zip(*drawn, strict=True)]
    return ("\n".join(lines) + "\n").encode("ascii")
