"""Nothing data-dependent leaks: no cell appears anywhere, and only the noisy values distinguish neighbors."""

from __future__ import annotations

import gzip
import json
import os
import re
from datetime import datetime
from pathlib import Path

import pytest

from tests.conftest import Cli, Result

SENTINEL = "S3NTINEL-7f1c"
COIN = ["--model", "beta-bernoulli", "--eps", "1", "--column", "v"]


def everything_written(root: Path, data: Path) -> bytes:
    """Return the bytes of every file below a directory except the data."""
    content = b""
    for path in root.rglob("*"):
        if path.is_file() and path != data:
            content += path.read_bytes()
    return content


def payloads(ledger: Path) -> bytes:
    import sqlite3
    import zlib

    with sqlite3.connect(ledger) as connection:
        rows = connection.execute("SELECT payload FROM payloads").fetchall()
    connection.close()
    return b"".join(zlib.decompress(row[0]) for row in rows)


FILES = {
    "in a cell": f"k,v\n{SENTINEL},1\n2,0\n",
    "in the read cell": f"k,v\n1,{SENTINEL}\n2,0\n",
    "in every cell": f"k,v\n{SENTINEL},{SENTINEL}\n",
    "in an unbalanced quote": f'k,v\n"{SENTINEL},1\n2,0\n',
    "in a ragged row": f"k,v\n1,0,{SENTINEL}\n{SENTINEL}\n",
    "as a huge number": f"k,v\n1,1e999{SENTINEL}\n",
    "in bytes that are no text": f"k,v\n1,\udcff{SENTINEL}\n",
    "in the header": f"{SENTINEL},v\n1,1\n",
    "as the last line": f"k,v\n1,1\n{SENTINEL}",
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES.keys())
@pytest.mark.parametrize("extra", [[], ["--on-invalid", "impute:0"], ["--neighbors", "add-remove"]], ids=str)
def test_a_sentinel_in_the_data_appears_nowhere(
    content: str, extra: list[str], dpbayes: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "work" / "data.csv"
    data.write_bytes(content.encode("utf-8", "surrogateescape"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    done = dpbayes("release", data, *COIN, *extra, "-vv", "--out", "out")
    assert done.code == 0, done.err
    shown = done.out + done.err
    for arguments in (
        ["budget", "history"],
        ["budget", "export"],
        ["infer", "out", "-vv"],
        ["report", "out", "--format", "html"],
    ):
        again = dpbayes(*arguments)
        shown += again.out + again.err
    assert SENTINEL not in shown
    assert SENTINEL.encode() not in everything_written(tmp_path, data) + payloads(tmp_path / "ledger.sqlite")
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "arguments"),
    [
        ("a header that lacks the column", f"{SENTINEL},w\n1,1\n".encode(), COIN),
        (
            "a headerless file",
            f"{SENTINEL}\n1\n".encode(),
            ["--model", "beta-bernoulli", "--eps", "1", "--column", "v"],
        ),
        ("several columns", f"{SENTINEL},v\n1,1\n".encode(), ["--model", "beta-bernoulli", "--eps", "1"]),
        ("a malformed header", f'"{SENTINEL}\n1,1\n'.encode(), COIN),
        ("a broken gzip", gzip.compress(f"k,v\n{SENTINEL},1\n".encode() * 9, mtime=0)[:-9], COIN),
        ("a file that is no Parquet", SENTINEL.encode() * 9, COIN),
    ],
)
def test_a_refusal_quotes_nothing_of_the_file(
    name: str, content: bytes, arguments: list[str], dpbayes: Cli, place: Path
) -> None:
    suffix = ".csv.gz" if "gzip" in name else ".parquet" if "Parquet" in name else ".csv"
    data = place / f"data{suffix}"
    data.write_bytes(content)
    done = dpbayes("release", data, *arguments, "-vv")
    assert done.code == 4
    assert SENTINEL not in done.out + done.err


def test_a_crash_in_the_engine_quotes_nothing(dpbayes: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = place / "data.csv"
    data.write_text(f"k,v\n1,{SENTINEL}\n")
    monkeypatch.setattr(
        "dpbayes_cli.sources.statements.counting_query",
        lambda relation, *rest: f"SELECT CAST(split_part(line, ',', 2) AS INTEGER), 1 FROM {relation}",
    )
    done = dpbayes("release", data, *COIN, "-vv")
    assert done.code == 4
    assert SENTINEL not in done.out + done.err


def masked(done: Result) -> tuple[int, str]:
    """Return the exit code, and stderr without random and time-dependent parts."""
    return done.code, re.sub(r"[0-9a-f]{16,}|20\d\d-\d\d-\d\dT[\d:]+Z", "#", done.err)


RECORDS = ["1", "0", "", "x", '"', "1,2", "NaN", "1e400", "\uff11", "=cmd()", "\x00", "y" * 5000]


@pytest.mark.parametrize("extra", [[], ["--on-invalid", "impute:0"], ["--neighbors", "add-remove"]], ids=str)
def test_neighbors_cannot_be_told_apart_by_messages_or_exit_codes(
    extra: list[str], dpbayes: Cli, place: Path, tmp_path: Path
) -> None:
    seen = set()
    data = place / "data.csv"
    for record in RECORDS:
        data.write_text("v\n1\n0\n" + record + "\n1\n", encoding="utf-8")
        done = dpbayes("release", data, *COIN, *extra, "-v", "--out", "out")
        seen.add(masked(done))
        names = sorted(path.name for path in Path("out").iterdir())
        sizes = sorted(
            (path.name, len(path.read_text(errors="replace").splitlines())) for path in Path("out").glob("*.md")
        )
        seen.add((0, f"{names}{sizes}"))
        for path in Path("out").iterdir():
            path.unlink()
        Path("out").rmdir()
        (tmp_path / "ledger.sqlite").unlink()
    assert len(seen) == 2


def test_add_remove_neighbors_cannot_be_told_apart_either(dpbayes: Cli, place: Path, tmp_path: Path) -> None:
    seen = set()
    data = place / "data.csv"
    for records in (["1", "0", "1"], ["1", "0"], ["1"], []):
        data.write_text("v\n" + "".join(f"{record}\n" for record in records))
        done = dpbayes("release", data, *COIN, "--neighbors", "add-remove", "-v", "--out", "out")
        seen.add(masked(done))
        for path in Path("out").iterdir():
            path.unlink()
        Path("out").rmdir()
        (tmp_path / "ledger.sqlite").unlink()
    assert len(seen) == 1


def test_the_times_of_files_do_not_tell_how_long_a_draw_took(dpbayes: Cli, coin: Path) -> None:
    done = dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--out", "out", "--json")
    assert done.code == 0
    created = json.loads(Path("out/release.json").read_text("utf-8"))["created"]
    moment = datetime.fromisoformat(created).timestamp()
    assert {path.stat().st_mtime for path in (Path("out"), *Path("out").iterdir())} == {moment}


def test_nobody_else_can_read_what_was_written(dpbayes: Cli, coin: Path, ledger_path: Path) -> None:
    os.umask(0)
    dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--out", "out")
    for path in (ledger_path, Path("out"), *Path("out").iterdir()):
        assert path.stat().st_mode & 0o077 == 0
