"""Generate the synthetic sample files of this directory: ``python sample_data/generate.py``.

The generator uses Python's own random numbers with fixed seeds, so the files come out the same on every machine.
"""

from __future__ import annotations

import gzip
import io
import random
from pathlib import Path

import event_log
import noisy_tables

HERE = Path(__file__).parent


def relapse() -> bytes:
    """1,000 patients of one clinic, one column: 1 = relapse within a year (30 %), 0 = none, 2 % not recorded."""
    rng = random.Random(20260101)
    lines = ["relapse"]
    for _ in range(1000):
        outcome = "1" if rng.random() < 0.30 else "0"
        lines.append("" if rng.random() < 0.02 else outcome)
    return ("\n".join(lines) + "\n").encode("ascii")


def clinic() -> bytes:
    """1,500 patients: age, treatment arm, months of follow-up, relapse (yes / no), a note that may hold commas.

    Relapse: 25 % in the arm "new", 40 % in the arm "standard". 3 % of the outcomes are missing, written in the ways
    that people write them; some notes are quoted and hold commas and doubled quotes.
    """
    rng = random.Random(20260102)
    notes = ["", "", "", "stable", '"moved, lost to follow-up"', '"said ""feeling fine"""', "dose reduced"]
    lines = ["age,arm,months,relapse,note"]
    for _ in range(1500):
        arm = rng.choice(["new", "standard"])
        outcome = "yes" if rng.random() < (0.25 if arm == "new" else 0.40) else "no"
        if rng.random() < 0.03:
            outcome = rng.choice(["", "NA", "unknown"])
        age = min(90, max(18, round(rng.gauss(52, 14))))
        lines.append(f"{age},{arm},{rng.randint(1, 24)},{outcome},{rng.choice(notes)}")
    return ("\n".join(lines) + "\n").encode("ascii")


def survey() -> bytes:
    """6,000 answers to "How do you get to work?": region, age group, answer; 4 % refused to answer.

    Answers: car 42 %, train 21 %, bus 16 %, bicycle 13 %, on foot 8 %.
    """
    rng = random.Random(20260103)
    answers = ["car", "train", "bus", "bicycle", "on foot"]
    lines = ["region;age_group;answer"]
    for _ in range(6000):
        answer = rng.choices(answers, weights=[42, 21, 16, 13, 8])[0]
        region = rng.choice(["north", "south", "east", "west"])
        group = rng.choice(["18-29", "30-44", "45-64", "65+"])
        lines.append(f"{region};{group};{'refused' if rng.random() < 0.04 else answer}")
    return ("\n".join(lines) + "\n").encode("ascii")


def compressed(content: bytes) -> bytes:
    """Return the content as gzip without a time stamp or a name."""
    target = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0) as file:
        file.write(content)
    return target.getvalue()


def main() -> None:
    """Write the files."""
    (HERE / "relapse.csv").write_bytes(relapse())
    (HERE / "clinic.csv").write_bytes(clinic())
    (HERE / "survey.csv.gz").write_bytes(compressed(survey()))
    (HERE / "events.csv.gz").write_bytes(compressed(event_log.events()))
    for name, table in noisy_tables.TABLES.items():
        (HERE / name).write_text(table(), encoding="ascii")


if __name__ == "__main__":
    main()
