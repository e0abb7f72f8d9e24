"""A ledger in a file on a network file system is refused, whatever its type and however it is mounted."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbayes_cli.base import mounts
from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.base.mounts import file_system, read_mount_table
from tests.conftest import Cli
from tests.ledger.ledgers import labeled, open_ledger

ROOT = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"


def mounted(place: Path | str, kind: str) -> str:
    escaped = str(place).replace(" ", "\\040")
    return f"{ROOT}36 22 0:31 / {escaped} rw,noatime shared:1 master:2 - {kind} server:/share rw\n"


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse.sshfs", "ceph"])
def test_a_ledger_on_a_network_is_refused_with_a_way_out(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = tmp_path / "a share"
    monkeypatch.setattr(mounts, "read_mount_table", lambda: mounted(share, kind))
    with pytest.raises(LedgerError, match=r"network file system \(" + kind) as refused:
        open_ledger(share / "deep" / "ledger.sqlite").reserve(labeled("a"))
    assert "postgresql://" in refused.value.hint
    assert not share.exists()
    open_ledger(tmp_path / "a share beside" / "ledger.sqlite").reserve(labeled("a"))


def test_an_existing_ledger_on_a_network_is_not_read(
    dpbayes: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dpbayes("budget", "open", "d", "--eps", "1").code == 0
    monkeypatch.setattr(mounts, "read_mount_table", lambda: mounted(tmp_path, "nfs4"))
    for command in (["show"], ["verify"], ["open", "e", "--eps", "1"], ["migrate"], ["recover"]):
        assert dpbayes("budget", *command).code == 6


def test_a_local_disk_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("xfs", "zfs", "tmpfs", "overlay", "fuseblk", "fuse.gocryptfs"):
        monkeypatch.setattr(mounts, "read_mount_table", lambda kind=kind: mounted(tmp_path, kind))
        assert mounts.network_file_system(tmp_path) == ""


def test_an_anchor_may_be_on_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "share").mkdir()
    monkeypatch.setattr(mounts, "read_mount_table", lambda: mounted(tmp_path / "share", "nfs4"))
    open_ledger(tmp_path / "ledger.sqlite").anchor(tmp_path / "share" / "anchor", "")


def test_the_innermost_and_the_latest_mount_counts(tmp_path: Path) -> None:
    outer, inner = mounted(tmp_path, "nfs"), mounted(tmp_path / "disk", "xfs")
    for table in (outer + inner, inner + outer):
        assert file_system(tmp_path / "x", table) == "nfs"
        assert file_system(tmp_path / "disk" / "x", table) == "xfs"
        assert file_system(tmp_path / "diskette" / "x", table) == "nfs"
    assert file_system(tmp_path / "x", outer + mounted(tmp_path, "ext4")) == "ext4"
    assert file_system(tmp_path / "x", "nonsense\n\n1 2 3 - \n") == ""
    assert file_system(Path("/proc/self/status"), read_mount_table()) == "proc"
    (tmp_path / "link").symlink_to(tmp_path / "share")
    assert file_system(tmp_path / "link" / "ledger.sqlite", mounted(tmp_path / "share", "nfs")) == "nfs"
