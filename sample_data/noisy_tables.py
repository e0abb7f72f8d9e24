"""Tables that look like those of four publishers of noisy counts; every number in them is made up from fixed seeds.

Discrete noise is drawn by inversion from Python's own random numbers, so the files come out the same on every machine.
"""

from __future__ import annotations

import math
import random


def discrete_laplace(rng: random.Random, scale: float) -> int:
    """Draw noise with P(z) proportional to exp(-|z| / scale), as the difference of two geometric variables."""
    return sum(sign * math.floor(-scale * math.log(1.0 - rng.random())) for sign in (1, -1))


def discrete_gaussian(rng: random.Random, variance: float) -> int:
    """Draw noise with P(z) proportional to exp(-z^2 / (2 variance)), by inversion."""
    reach = math.ceil(12.0 * math.sqrt(variance))
    support = range(-reach, reach + 1)
    return rng.choices(support, [math.exp(-z * z / (2 * variance)) for z in support])[0]


def opendp() -> str:
    """Patients of 20 clinics by relapse: ``group_by("clinic", "relapse").agg(dp.len())`` with integer Laplace noise.

    The scale is 2. 22 % of the patients relapse, in a clinic 12 to 32 %.
    """
    rng = random.Random(20260201)
    lines = ["clinic,relapse,len"]
    for number in range(1, 21):
        rate = 0.12 + 0.20 * rng.random()
        patients = round(math.exp(rng.gauss(3.2, 0.7)))
        relapses = sum(rng.random() < rate for _ in range(patients))
        for relapse, count in (("yes", relapses), ("no", patients - relapses)):
            lines.append(f"clinic {number:02},{relapse},{count + discrete_laplace(rng, 2.0)}")
    return "\n".join(lines) + "\n"


def tumult() -> str:
    """Members of 24 library branches, and how many of them borrowed a book, each with geometric noise of epsilon 0.5.

    Branches with a noisy number of members below 20 are suppressed, as by ``SuppressAggregates``.
    """
    rng = random.Random(20260202)
    lines = ["branch,members,borrowers"]
    for number in range(1, 25):
        members = round(math.exp(rng.gauss(3.6, 0.9)))
        borrowers = sum(rng.random() < 0.85 for _ in range(members))
        noisy = [count + discrete_laplace(rng, 2.0) for count in (members, borrowers)]
        if noisy[0] >= 20:
            lines.append(f"branch-{number:02},{noisy[0]},{noisy[1]}")
    return "\n".join(lines) + "\n"


def wikimedia() -> str:
    """Views of 100 pages of made-up titles from three countries, with discrete Gaussian noise of scale 10.

    Noisy numbers up to 90 are not published. Few pages have many views: the number of views has a Pareto law.
    """
    rng = random.Random(20260203)
    lines = ["country,project,page_id,page_title,gbc"]
    for page in range(1, 101):
        for country, project in (("Freedonia", "en"), ("Grand Fenwick", "fr"), ("Sylvania", "de")):
            views = round(12.0 * rng.paretovariate(0.9))
            noisy = views + discrete_gaussian(rng, 100.0)
            if noisy > 90:
                lines.append(f"{country},{project}.wikipedia,{7000 + page},Made-up_page_{page},{noisy}")
    return "\n".join(lines) + "\n"


def census() -> str:
    """People of six counties by ethnicity and age, with discrete Gaussian noise whose variance each row states.

    The number of people in the state, 21,426, has no noise.
    """
    rng = random.Random(20260204)
    cells = ["hispanic_adult", "hispanic_minor", "other_adult", "other_minor"]
    lines = ["geocode,query_name,cell,variance,value"]
    total = 0
    for county, people in ((1, 9200), (3, 6100), (5, 3900), (7, 1900), (9, 520), (11, 86)):
        variance = 30.25 if people > 1000 else 110.25
        for cell, share in zip(cells, (0.11, 0.05, 0.64, 0.20), strict=True):
            count = round(people * share * (0.8 + 0.4 * rng.random()))
            total += count
            noisy = count + discrete_gaussian(rng, variance)
            lines.append(f"56{county:03},hispanic_votingage,{cell},{variance},{noisy}")
    assert total == PEOPLE, total
    return "\n".join(lines) + "\n"


PEOPLE = 21426
"""The number of people in ``census()``."""
TABLES = {
    "noisy_opendp.csv": opendp,
    "noisy_tumult.csv": tumult,
    "noisy_wikimedia.csv": wikimedia,
    "noisy_census.csv": census,
}
"""The files, and what makes them."""
