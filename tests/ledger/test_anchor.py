"""The anchor: an older, shorter, other or copied ledger is refused until a human has adopted it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger import anchor as anchor_module
from dpbayes_cli.ledger.anchor import lock_anchor, read_last
from dpbayes_cli.ledger.chain import Mark
from dpbayes_cli.ledger.ledger import Ledger
from tests.ledger.ledgers import StoredLedger, change, copy_of, labeled, marks, open_ledger, publish


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere" / "anchor"


@pytest.fixture
def ledger(path: Path, file: Path) -> Ledger:
    ledger = open_ledger(path)
    ledger.anchor(file, "")
    publish(ledger, labeled("a"))
    return ledger


def refused(use: Callable[[], object], match: str) -> None:
    with pytest.raises(LedgerError, match=match) as error:
        use()
    assert error.value.exit_code == 6
    assert "dpbayes budget adopt" in error.value.hint


def test_an_anchor_gets_a_line_for_every_change_in_order(ledger: Ledger, file: Path) -> None:
    """The account and its first charge are one change."""
    hashes = [entry.hash for entry in ledger.entries()]
    assert ledger.entries()[0].fields["path"] == str(file)
    assert [number for number, _ in marks(file)] == [0, 1, 3, 4, 5]
    assert all(number == 0 or hashes[number - 1] == digest for number, digest in marks(file))
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.read_bytes()
    ledger.state()
    ledger.reserve(labeled("a"))
    ledger.findings()
    assert ledger.adopt("just so")[1] == []
    assert file.read_bytes() == before


def test_one_file_by_two_names_is_locked_once(ledger: Ledger, path: Path, file: Path) -> None:
    file.with_name("link").symlink_to(file)
    os.link(file, file.with_name("hard"))
    for name in ("link", "hard"):
        before = len(marks(file))
        open_ledger(path, file.parent / name).reserve(labeled(name))
        assert len(marks(file)) == before + 1


@pytest.mark.parametrize("entries", [1, 4])
def test_an_anchor_refuses_an_older_copy_of_any_age(entries: int, ledger: Ledger, path: Path) -> None:
    change(path, f"DELETE FROM entries WHERE sequence > {entries}")
    for use in (ledger.state, lambda: ledger.reserve(labeled("b")), lambda: ledger.preview(labeled("b")),
                lambda: ledger.anchor(None, "away with it"), lambda: ledger.sealed(labeled("a"))):  # fmt: skip
        refused(use, f"ends at entry {entries}, but its anchor .* has seen entry 5")
    assert any("has seen entry 5" in finding for finding in ledger.findings()[0])
    assert len(ledger.entries()) == entries


def test_an_anchor_refuses_a_copy_that_was_changed_separately(ledger: Ledger, path: Path) -> None:
    copy = open_ledger(copy_of(path, "copy.sqlite"))
    publish(ledger, labeled("here"))
    refused(lambda: copy.reserve(labeled("there")), "has seen entry 8")
    bare = copy_of(path, "bare.sqlite")
    ledger.reserve(labeled("next"))
    shutil.copy(bare, path)
    elsewhere = open_ledger(path, None)
    refused(lambda: elsewhere.reserve(labeled("another")), "ends at entry 8, but its anchor .* has seen entry 9")


def test_an_anchor_refuses_a_ledger_rewritten_with_new_hashes(tmp_path: Path, file: Path) -> None:
    """The rewritten ledger has as many entries as the anchored one, all of them valid."""
    first, second = open_ledger(tmp_path / "one.sqlite"), open_ledger(tmp_path / "two.sqlite", file)
    first.anchor(file, "")
    publish(first, labeled("a"))
    other = open_ledger(tmp_path / "two.sqlite")
    other.anchor(tmp_path / "another", "")
    publish(other, labeled("b"))
    refused(second.state, "entry 5 of the ledger .* is not the one")


def test_a_stated_anchor_refuses_a_copy_from_before_the_anchor(path: Path, file: Path) -> None:
    ledger = open_ledger(path)
    ledger.reserve(labeled("first"))
    old = copy_of(path, "old.sqlite")
    ledger.anchor(file, "")
    shutil.copy(old, path)
    assert open_ledger(path).state().anchor == ""  # the copy names no anchor
    refused(open_ledger(path, file).state, "has seen entry 3")
    refused(lambda: open_ledger(path, file).reserve(labeled("b")), "has seen entry 3")


def test_an_anchor_refuses_a_new_ledger_in_place_of_a_lost_one(ledger: Ledger, path: Path, file: Path) -> None:
    path.unlink()
    again = open_ledger(path, file)
    for use in (again.state, lambda: again.reserve(labeled("a"))):
        refused(use, "has seen entry 5")
    assert not path.exists()


def test_a_missing_or_emptied_anchor_is_refused(ledger: Ledger, path: Path, file: Path) -> None:
    content = file.read_bytes()
    file.unlink()
    refused(ledger.state, "is missing")
    refused(lambda: ledger.reserve(labeled("b")), "is missing")
    assert not file.exists()
    file.touch()
    refused(lambda: ledger.reserve(labeled("b")), "is empty")
    file.write_bytes(content)
    ledger.reserve(labeled("b"))


def test_a_stated_anchor_must_exist_but_may_be_begun(path: Path, file: Path) -> None:
    ledger = open_ledger(path, file)
    refused(lambda: ledger.reserve(labeled("a")), "is missing")
    file.touch()  # as after a kill between the creation of the file and its first line
    ledger.anchor(file, "")
    ledger.reserve(labeled("a"))
    assert [number for number, _ in marks(file)] == [0, 1, 3]


def test_an_anchor_that_is_behind_is_brought_up(ledger: Ledger, file: Path) -> None:
    whole = file.read_bytes()
    for cut in {*range(whole.index(b"\n") + 1, len(whole), 7), len(whole) - 1, len(whole)}:
        file.write_bytes(whole[:cut])
        ledger.state()
        ledger.reserve(labeled("a"))  # appends no entry, but may append to the anchor
        last = read_last(file)
        assert last == ledger.state().mark
        assert file.read_bytes().startswith(whole[:cut])
    file.write_bytes(whole[:-1] + b"\0" * 20)
    assert read_last(file) == ledger.state().mark


def test_an_anchor_reads_its_last_complete_line_before_many_torn_ones(tmp_path: Path) -> None:
    file = tmp_path / "anchor"
    file.write_text(f"7 {'a' * 64}\n" + "8 abc\n" * 2000)
    assert read_last(file) == Mark(7, "a" * 64)
    file.write_text("".join(f"{i} {'a' * 64}\n" for i in range(1, 5000)))
    assert read_last(file) == Mark(4999, "a" * 64)


def test_a_file_that_is_not_an_anchor_is_not_changed(path: Path, file: Path) -> None:
    for content in ("secret notes\n", f"1 {'A' * 64}\n", f"01 {'a' * 64}\n", f"1 {'a' * 65}\n", "-1 a\n"):
        file.write_text(content)
        with pytest.raises(LedgerError, match="not an anchor"):
            open_ledger(path).anchor(file, "")
        assert file.read_text() == content
        assert open_ledger(path).state().last is None


def test_an_anchor_at_an_impossible_path_is_refused(path: Path, tmp_path: Path) -> None:
    ledger = open_ledger(path)
    ledger.reserve(labeled("a"))
    os.mkfifo(tmp_path / "pipe")
    before = path.read_bytes()
    for place, match in [
        (tmp_path, "cannot be used"), (tmp_path / "pipe", "not a regular file"), (path, "the ledger itself"),
        (tmp_path / "missing" / "anchor", "is missing"), (tmp_path / "work" / ".." / "ledger.sqlite", "ledger itself"),
    ]:  # fmt: skip
        with pytest.raises(LedgerError, match=match):
            ledger.anchor(place, "")
    assert path.read_bytes() == before


def test_an_anchor_can_be_moved_and_the_old_one_still_agrees(ledger: Ledger, path: Path, file: Path) -> None:
    new = file.with_name("new")
    ledger.anchor(new, "a larger disk")
    assert marks(new)[-1] == marks(file)[-1]
    publish(ledger, labeled("b"))
    assert [number for number, _ in marks(new)] == [5, 6, 7, 8, 9]
    open_ledger(path, file).state()
    ledger.anchor(None, "no more")
    file.unlink()
    new.unlink()
    publish(ledger, labeled("c"))


def test_adopting_records_who_looked_and_what_was_lost(ledger: Ledger, path: Path, file: Path) -> None:
    old = copy_of(path, "old.sqlite")
    publish(ledger, labeled("b"))
    seen = ledger.state().mark
    shutil.copy(old, path)
    head = ledger.state(compare=False).mark
    state, disputes = ledger.adopt("the disk died; looked at by Ada")
    assert len(disputes) == 1
    fields = ledger.entries()[-1].fields
    assert fields["seen"] == [{"path": str(file), "sequence": seen.sequence, "hash": seen.hash}]
    assert fields["found"] == {"sequence": head.sequence, "hash": head.hash}
    assert (fields["reason"], fields["time"]) == ("the disk died; looked at by Ada", "2026-01-02T03:04:05Z")
    assert fields["user"]
    assert read_last(file) == state.mark
    publish(ledger, labeled("c"))
    assert ledger.findings()[0] == []


def test_a_lost_anchor_is_recreated_only_by_adopting(ledger: Ledger, file: Path) -> None:
    file.unlink()
    ledger.adopt("the share is gone")
    assert ledger.entries()[-1].fields["lost"] == [str(file)]
    assert [number for number, _ in marks(file)] == [5, 6]
    file.unlink()
    file.parent.rmdir()
    with pytest.raises(LedgerError, match="directory of the anchor"):
        ledger.adopt("still gone")
    moved = file.parent.with_name("moved")
    ledger.adopt("elsewhere from now on", moved)
    publish(ledger, labeled("b"))
    assert read_last(moved) == ledger.state().mark


@pytest.mark.parametrize("name", ["write", "fsync"])
def test_a_charge_whose_anchor_write_fails_stands_and_is_marked_later(
    name: str, ledger: Ledger, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(os, name)

    def full(descriptor: int, *arguments: object) -> object:
        if os.path.samestat(os.fstat(descriptor), file.stat()):
            raise OSError(28, "No space left on device")
        return real(descriptor, *arguments)

    before = file.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(os, name, full)
        with pytest.raises(LedgerError, match="No space left"):
            ledger.reserve(labeled("b"))
    for _ in range(2):  # the charge stands
        assert [entry.fields["kind"] for entry in ledger.entries()].count("reserved") == 2
        ledger.reserve(labeled("b"))
    assert file.read_bytes().startswith(before)
    assert read_last(file) == ledger.state().mark


def test_an_anchor_locked_by_another_process_is_waited_for(
    ledger: Ledger, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchor_module, "_LOCK_TIMEOUT_SECONDS", 0.05)
    with lock_anchor(file, set()), pytest.raises(LedgerError, match="another process holds its lock"):
        ledger.reserve(labeled("b"))
    ledger.reserve(labeled("b"))


def test_a_ledger_on_either_storage_is_anchored(stored: StoredLedger, file: Path) -> None:
    ledger = stored.ledger
    ledger.anchor(file, "")
    publish(ledger, labeled("a"))
    assert read_last(file) == ledger.state().mark
    stored.tamper("DELETE FROM entries WHERE sequence > 4")
    refused(ledger.state, "has seen entry 5")
    refused(lambda: ledger.reserve(labeled("b")), "has seen entry 5")
    ledger.adopt("looked at")
    publish(ledger, labeled("b"))
    assert read_last(file) == ledger.state().mark


WRITER = """
import sys
from pathlib import Path
from tests.ledger import ledgers
for i in range(10):
    ledgers.open_ledger(Path(sys.argv[1])).reserve(ledgers.labeled(f"{sys.argv[2]}-{i}", "0.01"))
"""


def test_racing_processes_mark_every_change_in_order(ledger: Ledger, path: Path, file: Path) -> None:
    root = Path(__file__).parents[2]
    writers = [
        subprocess.Popen([sys.executable, "-W", "ignore", "-c", WRITER, str(path), str(i)], cwd=root) for i in range(3)
    ]
    for _ in range(20):
        open_ledger(path).state()  # a reader is never refused meanwhile
    assert [writer.wait() for writer in writers] == [0] * 3
    hashes = [entry.hash for entry in ledger.entries()]
    assert len(hashes) == 35
    assert marks(file)[5:] == [(number, hashes[number - 1]) for number in range(6, 36)]
