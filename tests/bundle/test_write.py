from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dpbayes_cli.base.errors import OutputError
from dpbayes_cli.bundle.read import read_file
from dpbayes_cli.bundle.write import check_target, new_directory, scratch_directory, write_new


def make(target: Path) -> None:
    with new_directory(target) as directory:
        write_new(directory / "a.txt", b"content")
        (directory / "b.txt").write_bytes(b"written by somebody else's library")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o777])
def test_a_bundle_is_for_its_owner_alone_under_any_umask(mask: int, place: Path) -> None:
    os.umask(mask)
    try:
        make(place / "out")
    finally:
        os.umask(0o022)
    assert mode(place / "out") == 0o700
    assert {mode(path) for path in (place / "out").iterdir()} == {0o600}
    assert [path.name for path in place.iterdir()] == ["out"]


OCCUPANTS: dict[str, Callable[[Path], object]] = {
    "file": lambda target: target.write_text("precious"),
    "directory": lambda target: (target / "precious").mkdir(parents=True),
    "empty directory": Path.mkdir,
    "fifo": os.mkfifo,
    "link to a directory": lambda target: target.symlink_to(target.parent),
    "dangling link": lambda target: target.symlink_to("nowhere"),
}


@pytest.mark.parametrize("what", OCCUPANTS)
def test_nothing_is_ever_replaced_or_followed(what: str, place: Path) -> None:
    target = place / "out"
    OCCUPANTS[what](target)
    before = sorted(str(path) for path in place.rglob("*"))
    with pytest.raises(OutputError, match="exists already"):
        check_target(target)
    with pytest.raises(OutputError):
        make(target)
    assert sorted(str(path) for path in place.rglob("*")) == before


@pytest.mark.parametrize("what", ["file", "empty directory"])
def test_nothing_is_replaced_without_renameat2(what: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbayes_cli.base.atomic_file.sys.platform", "other")
    make(place / "fine")
    assert (place / "fine" / "a.txt").read_bytes() == b"content"
    OCCUPANTS[what](place / "out")
    with pytest.raises(OutputError):
        make(place / "out")


def test_a_block_that_fails_leaves_nothing(place: Path) -> None:
    def fail() -> None:
        with new_directory(place / "out") as directory:
            write_new(directory / "a.txt", b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with scratch_directory(place / "out") as directory:
        write_new(directory / "a.txt", b"x")
    assert list(place.iterdir()) == []


def test_a_link_inside_the_directory_is_not_followed(place: Path) -> None:
    victim = place / "victim"
    victim.write_text("precious")
    victim.chmod(0o644)
    with pytest.raises(OutputError), new_directory(place / "out") as directory:
        (directory / "x").symlink_to(victim)
    assert mode(victim) == 0o644
    (place / "y").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_new(place / "y", b"overwritten")
    assert victim.read_text() == "precious"


def test_parents_of_targets_are_made_and_names_of_temporary_files_are_refused(place: Path) -> None:
    check_target(place / "no" / "such" / "out")
    assert (place / "no" / "such").is_dir()
    (place / "file").touch()
    with pytest.raises(OutputError, match="cannot write"):
        check_target(place / "file" / "out")
    with pytest.raises(OutputError, match="may remove"):
        check_target(place / ".out.held-0123456789abcdef.partial")


def test_reading_follows_no_link_and_waits_for_no_pipe(place: Path) -> None:
    (place / "f").write_bytes(b"x")
    (place / "l").symlink_to(place / "f")
    os.mkfifo(place / "p")
    assert read_file(place / "f") == b"x"
    assert read_file(place / "l") is None
    assert read_file(place / "p") is None
    assert read_file(place / "nothing") is None
    assert read_file(place) is None


def test_the_name_of_a_bundle_is_synced_after_it_appears(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a power cut may remove a bundle whose release was reported as written."""
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append((str(Path(f"/proc/self/fd/{descriptor}").readlink()), (place / "out").exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    make(place / "out")
    assert synced[-1] == (str(place.resolve()), True)
    assert not any(visible for _, visible in synced[:-1])
