"""The lock of a partial directory tells whether its writer lives, whatever its process ID and container."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpbayes_cli.base import mounts
from dpbayes_cli.base.atomic_file import locked_directory, new_file, remove_abandoned
from dpbayes_cli.base.errors import Interrupted
from tests.conftest import ROOT
from tests.ledger.test_mounts import mounted

NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc"]
WRITER = """
import sys
from pathlib import Path
from dpbayes_cli.bundle.write import new_directory, write_new
with new_directory(Path(sys.argv[1])) as directory:
    write_new(directory / "a.txt", b"content")
    print("writing", flush=True)
    sys.stdin.read()
"""
REMOVER = """
import sys
from pathlib import Path
from dpbayes_cli.bundle.write import scratch_directory
with scratch_directory(Path(sys.argv[1])):
    pass
"""


def can_unshare() -> bool:
    try:
        return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def start(prefix: list[str], program: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*prefix, sys.executable, "-W", "ignore", "-c", program, name], start_new_session=True, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def run(prefix: list[str], program: str, name: str) -> int:
    with start(prefix, program, name) as process:
        process.communicate()
    return process.returncode


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.mark.parametrize(("here", "there"), [(False, False), (False, True), (True, False)])
def test_only_partial_directories_of_killed_writers_are_removed(here: bool, there: bool, place: Path) -> None:
    """The targets have different names: a writer removes all abandoned directories beside its target."""
    if (here or there) and not can_unshare():
        pytest.skip("no PID namespace can be made here")
    writers = {name: start(NAMESPACE * here, WRITER, name) for name in ("out", "killed")}
    try:
        for writer in writers.values():
            assert writer.stdout is not None
            assert writer.stdout.readline() == "writing\n"
        for name in writers:
            assert run(NAMESPACE * there, REMOVER, name) == 0
        assert [names(partial) for partial in place.iterdir()] == [["a.txt"]] * 2
    finally:
        os.killpg(writers["killed"].pid, signal.SIGKILL)
        for writer in writers.values():
            writer.communicate()
    assert run(NAMESPACE * there, REMOVER, "third") == 0
    assert names(place) == ["out"]
    assert names(place / "out") == ["a.txt"]
    assert writers["out"].returncode == 0


def abandoned(place: Path) -> Path:
    left = place / ".out.held-0123456789abcdef.partial"
    left.mkdir()
    (left / "half").touch()
    return left


def before_locking(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Do something once, between the opening of a partial directory and its lock."""
    lock, actions = fcntl.flock, [action]

    def late(descriptor: int, how: int) -> None:
        if actions:
            actions.pop()()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)


def test_directory_renamed_into_place_before_it_was_locked_is_kept(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = abandoned(place)
    before_locking(monkeypatch, lambda: os.rename(left, place / "out"))  # noqa: PTH104 - returns nothing
    remove_abandoned(place)
    assert names(place) == ["out"]
    assert names(place / "out") == ["half"]


def test_writer_makes_another_directory_if_its_first_was_removed_before_the_lock(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_locking(monkeypatch, lambda: remove_abandoned(place))
    with new_file(place / "out") as partial:
        partial.write_bytes(b"content")
    assert names(place) == ["out"]
    assert (place / "out").read_bytes() == b"content"


def test_network_file_system_is_never_cleaned(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "read_mount_table", lambda: mounted(place, "nfs4"))
    left = abandoned(place)
    with locked_directory(place / "out") as partial:
        assert ".unheld-" in partial.name
        monkeypatch.undo()  # the server sees a local disk, without the locks of its clients
        remove_abandoned(place)
        assert not left.exists()
        assert partial.exists()
    monkeypatch.setattr(mounts, "read_mount_table", lambda: mounted(place, "nfs4"))
    left = abandoned(place)
    remove_abandoned(place)
    assert left.exists()


def test_file_system_without_locks_is_written_but_never_cleaned(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", none)
    left = abandoned(place)
    with locked_directory(place / "out") as partial:
        assert ".unheld-" in partial.name
    assert list(place.iterdir()) == [left]


def test_partial_directories_of_earlier_versions_are_kept(place: Path) -> None:
    """They have no lock, and the process ID in their name may belong to any container."""
    for left in (place / ".out.999999999-ab.partial", place / f".out.{os.getpid()}-cd.partial"):
        left.mkdir()
    with locked_directory(place / "out"):
        pass
    assert len(names(place)) == 2


def test_signal_while_a_directory_is_removed_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``shutil.rmtree`` ignores every Exception, so the run would not end."""

    def interrupted(*_arguments: object, **_named: object) -> int:
        raise Interrupted(signal.SIGTERM)

    with pytest.raises(Interrupted), locked_directory(tmp_path / "out"):
        monkeypatch.setattr(os, "open", interrupted)
