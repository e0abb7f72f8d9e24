"""Hostile input: bounded memory and time, no link followed, nothing charged if it can be refused before."""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from dpbayes_cli.base.errors import OutputError, SourceError, SpecError, VerificationError
from dpbayes_cli.bundle.place import check_place, place_bundle
from dpbayes_cli.bundle.read import analysis_of, read_bundle, read_document
from dpbayes_cli.sources.location import Location, open_bytes
from dpbayes_cli.spec.yaml_reader import parse_yaml, read_spec_file
from tests.conftest import ROOT, Cli, cpu_limit

COIN = ["--model", "beta-bernoulli", "--eps", "1", "--out", "out"]
MEBIBYTE = 1 << 20
MOST_MEMORY = 256 * MEBIBYTE
"""The bound on resident memory for any input; an ordinary release of three records takes half of it."""


def measured(*arguments: str, blocks: Iterable[bytes] = (), limit: float = 120.0) -> tuple[int, int, str]:
    """Run a release whose FIFO is fed; return its exit code, its peak of resident memory in bytes, and stderr.

    The peak is read in the process itself: what wait4 reports counts the memory of its parent before the exec.
    """
    script = (
        "import atexit, sys\n"
        "from pathlib import Path\n"
        "def peak():\n"
        "    line = next(x for x in Path('/proc/self/status').read_text().splitlines() if x.startswith('VmHWM'))\n"
        "    sys.stderr.write('\\nPEAK ' + line.split()[1])\n"
        "atexit.register(peak)\n"
        f"sys.argv = ['dpbayes', *{arguments!r}]\n"
        "from dpbayes_cli.main import run\n"
        "run()\n"
    )

    def feed() -> None:
        with Path("data.csv").open("wb", buffering=0) as sink:
            for block in blocks:
                sink.write(block)

    if Path("data.csv").is_fifo():
        Thread(target=feed, daemon=True).start()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        timeout=limit,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    messages, _, peak = done.stderr.decode().rpartition("\nPEAK ")
    return done.returncode, int(peak) * 1024, messages


def entries(ledger: Path) -> int:
    """Return the number of entries of a ledger, 0 if there is no ledger."""
    import sqlite3

    if not ledger.exists():
        return 0
    with sqlite3.connect(ledger) as connection:
        (count,) = connection.execute("SELECT count(*) FROM entries").fetchone()
    connection.close()
    return int(count)


def long_line(n_bytes: int) -> Iterator[bytes]:
    """Yield a line of ones between two records."""
    yield b"x\n1\n0\n"
    for _ in range(n_bytes // MEBIBYTE):
        yield b"1" * MEBIBYTE
    yield b"\n1\n"


def open_quote(n_bytes: int) -> Iterator[bytes]:
    """Yield a quote that is never closed, before many lines."""
    yield b'x\n1\n"'
    for _ in range(n_bytes // MEBIBYTE):
        yield b"1\n" * (MEBIBYTE // 2)


@pytest.mark.parametrize(
    ("mebibytes", "seconds"), [(64, 30.0), pytest.param(1024, 120.0, marks=pytest.mark.slow)], ids=["64M", "1G"]
)
def test_a_line_without_end_is_one_invalid_record_in_bounded_memory(mebibytes: int, seconds: float) -> None:
    os.mkfifo("data.csv")
    options = ["--dataset", "d", "--records", "4", *COIN]
    code, peak, messages = measured("release", "data.csv", *options, blocks=long_line(mebibytes << 20), limit=seconds)
    assert code == 0, messages
    assert peak < MOST_MEMORY
    assert json.loads(Path("out/release.json").read_text())["n_records"] == 4


@pytest.mark.slow
def test_a_quote_that_is_never_closed_takes_bounded_memory() -> None:
    os.mkfifo("data.csv")
    options = ["--dataset", "d", "--records", "2", "--quoted-newlines", *COIN]
    code, peak, messages = measured("release", "data.csv", *options, blocks=open_quote(1 << 30))
    assert code == 0, messages
    assert peak < MOST_MEMORY


def bomb(path: Path, member: int, members: int) -> None:
    """Write a header, two records and zeros: a gzip file of many members."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = packer.compress(bytes(member)) + packer.flush()
    with path.open("wb") as file:
        file.write(gzip.compress(b"x\n1\n0\n", mtime=0))
        for _ in range(members):
            file.write(zeros)


@pytest.mark.parametrize("members", [1, pytest.param(160, marks=pytest.mark.slow)], ids=["64M", "10G of zeros in 10M"])
def test_a_gzip_bomb_is_one_invalid_record_in_bounded_memory(members: int) -> None:
    bomb(Path("data.csv.gz"), 64 * MEBIBYTE, members)
    assert Path("data.csv.gz").stat().st_size < (members * 64 * MEBIBYTE) / 900
    code, peak, messages = measured("release", "data.csv.gz", *COIN)
    assert code == 0, messages
    assert peak < MOST_MEMORY
    assert json.loads(Path("out/release.json").read_text())["n_records"] == 3


HEADERS = {
    "a million columns": (b"c," * 1_000_000 + b"x\n1\n", "longer than 1 MiB"),
    "no line feed for two million bytes": (b"x" * (2 * MEBIBYTE) + b"\n1\n", "longer than 1 MiB"),
    "line ends that are carriage returns": (b"x\r1\r0\r1\r", "carriage return"),
    "NUL": (b"age,x\0\n1\n", "control bytes"),
    "gzip inside gzip": (gzip.compress(b"x\n1\n0\n" * 50), "compressed by gzip"),
}


def test_a_hostile_header_is_refused_before_the_charge(dpbayes: Cli, place: Path, ledger_path: Path) -> None:
    for content, why in HEADERS.values():
        for name, packed in (("data.csv", content), ("data.csv.gz", gzip.compress(content, 1))):
            (place / name).write_bytes(packed)
            with cpu_limit(30.0):
                dpbayes("release", name, *COIN, "--column", "x").exits(4, why)
    assert entries(ledger_path) == 0


def test_a_header_of_exactly_the_longest_length_is_read(dpbayes: Cli, place: Path) -> None:
    names = b"x," + b"y" * (MEBIBYTE - 2)
    (place / "data.csv").write_bytes(b"\xef\xbb\xbf" + names + b"\r\n1,1\n0,1\n")
    assert dpbayes("release", "data.csv", *COIN, "--column", "x").code == 0


def test_a_device_is_refused_as_data(dpbayes: Cli, ledger_path: Path) -> None:
    Path("data.csv").symlink_to("/dev/zero")
    for what in ("/dev/zero", "/dev/null", "data.csv"):
        dpbayes("release", what, *COIN, "--dataset", "d", "--records", "5", "--no-header", "--columns", "x").exits(
            4, "neither a file nor a pipe"
        )
        Path("s.yaml").write_text(f"model: beta-bernoulli\ndata: {what}\nprivacy: {{epsilon: 1}}\n")
        assert dpbayes("release", "--spec", "s.yaml", "--dataset", "d").code == 4
    assert entries(ledger_path) == 0
    with pytest.raises(SourceError, match="neither"), open_bytes(Path("data.csv")):
        pytest.fail("it was opened")
    assert Location("data.csv", (Path("data.csv"),)).is_stream


@pytest.mark.parametrize("kind", ["fifo", "device", "directory"])
def test_irregular_files_are_refused_as_spec_and_bundle(kind: str, dpbayes: Cli, place: Path) -> None:
    for path in (place / "s.yaml", place / "bundle" / "release.json"):
        path.parent.mkdir(exist_ok=True)
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            path.mkdir()
    with pytest.raises(SpecError, match=r"regular file|directory"):
        read_spec_file(place / "s.yaml")
    for command in (["release", "--spec", "s.yaml"], ["plan", "--spec", "s.yaml"], ["spec", "check", "s.yaml"]):
        assert dpbayes(*command).code == 3
    for command in (["report", "bundle"], ["infer", "bundle", "--out", "o"], ["predict", "bundle", "d.csv"]):
        assert dpbayes(*command).code == 8


SPECS = {
    "a hundred megabytes": ("a: " + "x" * 100_000_000, "larger"),
    "an exponent": ("model: beta-bernoulli\nprivacy: {epsilon: 1e999999}\n", "not a plain decimal"),
    "a hundred thousand digits": (f"model: beta-bernoulli\nprivacy: {{epsilon: {'9' * 100_000}}}\n", "not a plain"),
    "a huge count": (f"model: beta-bernoulli\ninference: {{samples: {'9' * 100_000}}}\n", "samples"),
    "a truth value": ("model: beta-bernoulli\nprivacy: {epsilon: yes}\n", "not a plain decimal"),
    "a date": ("model: 2020-01-01\n", "2020-01-01"),
    "a merge key": ("model: beta-bernoulli\n<<: {privacy: {epsilon: 1}}\n", "unknown key"),
    "an escape in a key": ('model: beta-bernoulli\n"\\e[31m": 1\n', r"\x1b"),
    "a direction mark": ('model: beta-bernoulli\ncolumn: "a\\u202eb"\n', "control character"),
}


@pytest.mark.parametrize(("text", "why"), SPECS.values(), ids=SPECS.keys())
def test_a_hostile_spec_is_refused_with_a_short_message(text: str, why: str, dpbayes: Cli, place: Path) -> None:
    (place / "s.yaml").write_text(text)
    with cpu_limit(30.0):
        done = dpbayes("plan", "--spec", "s.yaml", "--records", "10").exits(3, why)
    assert "\x1b" not in done.err
    assert len(done.err) < 10_000


def test_the_parser_of_specs_needs_little_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for text in ("- " * 100_000, "{" * 100_000, "? " * 100_000, "a: '" + "x" * 200_000):
        with pytest.raises(SpecError):
            parse_yaml(text)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 100 * MEBIBYTE


@pytest.mark.parametrize(
    "content", [b"[" * 1_000_000, b'{"a":' * 100_000, b'{"schema_version": ' + b"9" * 1_000_000 + b"}", b"\xff\xfe"]
)
def test_a_release_document_that_explodes_is_exit_7(content: bytes, dpbayes: Cli, place: Path) -> None:
    (place / "bundle").mkdir()
    (place / "bundle" / "release.json").write_bytes(content)
    assert dpbayes("report", "bundle").code == 7


def test_a_bundle_with_control_characters_is_not_shown(dpbayes: Cli, coin: Path) -> None:
    assert dpbayes("release", coin, *COIN).code == 0
    document = json.loads(Path("out/release.json").read_text())
    assert read_document(Path("out")).release_id == document["release_id"]
    for evil in ("\x1b[2J", "a\u202eb", "\x9b31m", "\r"):
        for ascii_only in (True, False):
            Path("out/release.json").write_text(
                json.dumps({**document, "account": evil}, ensure_ascii=ascii_only), encoding="utf-8"
            )
            with pytest.raises(VerificationError, match="control"):
                read_document(Path("out"))


@pytest.mark.parametrize("damage", ["cut", "no footer", "claim"])
def test_a_hostile_parquet_file_is_refused_before_the_charge(
    damage: str, dpbayes: Cli, place: Path, ledger_path: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": ["1", "0"]}), place / "data.parquet")
    whole = (place / "data.parquet").read_bytes()
    broken = {"cut": whole[: len(whole) // 2], "no footer": whole[:-9], "claim": whole[:-8] + b"\xff\xff\xff\x7fPAR1"}
    (place / "data.parquet").write_bytes(broken[damage])
    dpbayes("release", "data.parquet", *COIN).exits(4)
    assert entries(ledger_path) == 0


def long_cells(path: Path, n_records: int, cells: Iterable[str], group: int, **options: Any) -> None:
    """Write records that cycle through the cells, in row groups of ``group`` records."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    one = pa.array(list(cells))
    kind = pa.dictionary(pa.int32(), pa.string()) if options["use_dictionary"] else pa.string()
    schema = pa.schema([("x", kind)])
    with pq.ParquetWriter(path, schema, compression="zstd", store_schema=False, **options) as out:
        for first in range(0, n_records, group):
            codes = pa.array([i % len(one) for i in range(first, min(first + group, n_records))], pa.int32())
            column = pa.DictionaryArray.from_arrays(codes, one).cast(kind)
            out.write_table(pa.table({"x": column}, schema), group)


LONG = "a" * (900 << 10)
BOMBS: dict[str, dict[str, Any]] = {
    "30,000 of one": {"n_records": 30_000, "cells": [LONG, "1"], "group": 30_000, "use_dictionary": True},
    "2 million of one": {"n_records": 2_000_000, "cells": [LONG], "group": 2_000_000, "use_dictionary": True},
    "10,000 of 300": {
        "n_records": 10_000, "cells": (f"{LONG}{i}" for i in range(300)), "group": 10_000, "use_dictionary": True,
        "dictionary_pagesize_limit": 1 << 30,
    },
    "10,000 each by itself": {
        "n_records": 10_000, "cells": (f"{LONG}{i}" for i in range(2_000)), "group": 2_000, "use_dictionary": False,
        "write_batch_size": 64,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in BOMBS])
def test_long_cells_of_a_small_parquet_file_take_bounded_memory(name: str, place: Path) -> None:
    """A dictionary's entry or a compressed page is never unpacked in memory for all of its records."""
    n_records = BOMBS[name]["n_records"]
    long_cells(place / "data.parquet", **BOMBS[name])
    assert (place / "data.parquet").stat().st_size < 1 << 20
    code, peak, messages = measured("release", "data.parquet", *COIN, limit=60.0)
    assert code == 0, messages
    assert peak < 2 * MOST_MEMORY
    document = json.loads(Path("out/release.json").read_text())
    assert document["n_records"] == n_records
    ones = next(each["value"] for each in document["statistics"])
    assert abs(ones - (n_records // 2 if name == "30,000 of one" else 0)) < 60  # noise of scale 2: once in 1e12


def test_a_link_that_is_planted_after_the_check_is_not_followed(dpbayes: Cli, coin: Path, place: Path) -> None:
    assert dpbayes("release", coin, *COIN).code == 0
    bundle = read_bundle(Path("out"))
    (place / "elsewhere").mkdir()
    target = place / "planted"
    check_place(target, sealed=False)
    target.symlink_to(place / "elsewhere")
    with pytest.raises(OutputError, match="not the bundle of this release"):
        place_bundle(bundle.document, lambda: analysis_of(bundle), target, None, lambda text: None)
    assert list((place / "elsewhere").iterdir()) == []
    assert sorted(path.name for path in place.iterdir()) == ["coin.csv", "elsewhere", "out", "planted"]


def test_a_sticky_directory_that_everybody_writes_takes_a_private_bundle(dpbayes: Cli, coin: Path, place: Path) -> None:
    shared = place / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    os.umask(0)
    assert dpbayes("release", coin, *COIN[:-1], "shared/../shared/out").code == 0
    assert [path.name for path in shared.iterdir()] == ["out"]
    assert (shared / "out").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (shared / "out").iterdir()} == {0o600}
    assert {path.stat().st_nlink for path in (shared / "out").iterdir()} == {1}
