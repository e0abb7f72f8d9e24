"""Nothing data-dependent leaks: no cell appears anywhere, and only the noisy values distinguish neighbors."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
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


DATA = f"""{SENTINEL},v
{SENTINEL},1
1,{SENTINEL}
{SENTINEL},{SENTINEL}
"{SENTINEL},1
1,0,{SENTINEL}
{SENTINEL}
1,1e999{SENTINEL}
1,\udcff{SENTINEL}
{SENTINEL}"""
"""The sentinel in the header, in cells, in an open quote, in ragged rows, in bytes that are no text, and at the end."""
EXTRA: tuple[list[str], ...] = ([], ["--on-invalid", "impute:0"], ["--neighbors", "add-remove"])


@pytest.mark.parametrize("extra", EXTRA, ids=str)
def test_a_sentinel_in_the_data_appears_nowhere(
    extra: list[str], dpbayes: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "work" / "data.csv"
    data.write_bytes(DATA.encode("utf-8", "surrogateescape"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    done = dpbayes("release", data, *COIN, *extra, "-vv", "--out", "out")
    assert done.code == 0, done.err
    shown = done.out + done.err
    for arguments in ("budget history", "budget export", "infer out -vv", "report out --format html"):
        again = dpbayes(*arguments.split())
        shown += again.out + again.err
    assert SENTINEL not in shown
    assert SENTINEL.encode() not in everything_written(tmp_path, data) + payloads(tmp_path / "ledger.sqlite")
    assert list(scratch.iterdir()) == []


HEADER = f"{SENTINEL},v\n1,1\n".encode()
REFUSED = {
    "a header that lacks the column": ("d.csv", f"{SENTINEL},w\n1,1\n".encode(), COIN),
    "a headerless file": ("d.csv", f"{SENTINEL}\n1\n".encode(), COIN),
    "several columns": ("d.csv", HEADER, COIN[:-2]),
    "a malformed header": ("d.csv", b'"' + HEADER, COIN),
    "a broken gzip": ("d.csv.gz", gzip.compress(HEADER * 9, mtime=0)[:-9], COIN),
    "a file that is no Parquet": ("d.parquet", SENTINEL.encode() * 9, COIN),
}


@pytest.mark.parametrize(("name", "content", "arguments"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refusal_quotes_nothing_of_the_file(
    name: str, content: bytes, arguments: list[str], dpbayes: Cli, place: Path
) -> None:
    (place / name).write_bytes(content)
    done = dpbayes("release", name, *arguments, "-vv")
    assert done.code == 4
    assert SENTINEL not in done.out + done.err


def test_a_crash_in_the_engine_quotes_nothing(dpbayes: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"k": ["1"], "v": [SENTINEL]}), place / "data.parquet")
    monkeypatch.setattr("dpbayes_cli.sources.parquet._text", lambda name, kind: "CAST(v AS INTEGER)")
    check_nothing_is_quoted(dpbayes("release", "data.parquet", *COIN, "-vv"))


def test_a_crash_in_reading_quotes_nothing(dpbayes: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "data.csv").write_text(f"k,v\n1,{SENTINEL}\n")
    codes = "dpbayes_cli.sources.cell_codes.TextRecords.codes"
    monkeypatch.setattr(codes, lambda records, i: int(records._block.data))  # its error quotes the records
    check_nothing_is_quoted(dpbayes("release", "data.csv", *COIN, "-vv"))


def check_nothing_is_quoted(done: Result) -> None:
    assert done.code == 4
    assert SENTINEL not in done.out + done.err


def seen_by_a_reader(dpbayes: Cli, records: Iterable[str], *extra: str) -> tuple[int, str, list[tuple[str, int]]]:
    """Release records to a new ledger; return exit code, messages, and the names and lengths of text files."""
    Path("data.csv").write_text("v\n" + "".join(f"{record}\n" for record in records), encoding="utf-8")
    done = dpbayes("release", "data.csv", *COIN, *extra, "-v", "--out", "out")
    result = " ".join(done.out.replace("`", "").split())
    messages = [
        line for line in done.err.splitlines() if " ".join(line.split()) not in result
    ]  # not from released values
    files = [(path.name, n_lines(path) if path.suffix == ".md" else 0) for path in bundle()]
    shutil.rmtree("out")
    Path("../ledger.sqlite").unlink()
    return done.code, re.sub(r"[0-9a-f]{16,}|20\d\d-\d\d-\d\dT[\d:]+Z", "#", "\n".join(messages)), files


def n_lines(path: Path) -> int:
    """Return the number of lines, without the paragraphs that released values decide on."""
    decided = "WARNING", "note", "The noise for privacy"
    paragraphs = path.read_text(encoding="utf-8").split("\n\n")
    return sum(each.count("\n") + 2 for each in paragraphs if not each.startswith(decided))


def bundle() -> list[Path]:
    return sorted(Path("out").iterdir())


RECORDS = ["1", "0", "", "x", '"', "1,2", "NaN", "1e400", "\uff11", "=cmd()", "\x00", "y" * 5000]


@pytest.mark.parametrize(("extra", "records"), [(EXTRA[0], RECORDS), *((extra, RECORDS[:6:2]) for extra in EXTRA[1:])])
def test_neighbors_cannot_be_told_apart_by_messages_or_exit_codes(
    extra: list[str], records: list[str], dpbayes: Cli
) -> None:
    seen = [seen_by_a_reader(dpbayes, ["1", "0", record, "1"], *extra) for record in records]
    assert seen[0][0] == 0
    assert seen == seen[:1] * len(records)


def test_add_remove_neighbors_cannot_be_told_apart_either(dpbayes: Cli) -> None:
    seen = [seen_by_a_reader(dpbayes, ["1", "0", "1"][:count], "--neighbors", "add-remove") for count in range(4)]
    assert seen == seen[:1] * 4


def test_the_times_of_files_do_not_tell_how_long_a_draw_took(dpbayes: Cli, coin: Path) -> None:
    done = dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--out", "out", "--json")
    assert done.code == 0
    created = json.loads(Path("out/release.json").read_text("utf-8"))["created"]
    moment = datetime.fromisoformat(created).timestamp()
    assert {path.stat().st_mtime for path in (Path("out"), *bundle())} == {moment}


def test_nobody_else_can_read_what_was_written(dpbayes: Cli, coin: Path, ledger_path: Path) -> None:
    os.umask(0)
    dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--out", "out")
    for path in (ledger_path, Path("out"), *bundle()):
        assert path.stat().st_mode & 0o077 == 0
