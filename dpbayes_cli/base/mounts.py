"""Find the file system of a path: on a network file system, locks and syncs are not reliable."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

NETWORK = frozenset([
    "nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "virtiofs", "ceph", "lustre", "gfs", "gfs2",
    "ocfs2", "glusterfs", "afs", "openafs", "auristorfs", "coda", "ncpfs", "gpfs", "beegfs", "beegfs_nodev",
    "pvfs2", "orangefs", "panfs", "vboxsf", "vmhgfs", "prl_fs", "davfs", "acfs", "dlm",
])  # fmt: skip
NETWORK_FUSE = frozenset([
    "sshfs", "glusterfs", "ceph", "cephfs", "cvmfs2", "curlftpfs", "davfs", "davfs2", "encfs-ssh", "gcsfuse",
    "gcsfs", "goofys", "gvfsd-fuse", "httpfs", "juicefs", "lizardfs", "mfs", "moosefs", "mount.juicefs",
    "osxfs", "grpcfuse", "rclone", "s3fs", "seaweedfs", "smbnetfs", "vmhgfs-fuse", "weed", "alluxio",
    "alluxio-fuse", "blobfuse", "blobfuse2", "hdfs", "fuse_dfs",
])  # fmt: skip
_MOUNT_TABLE = Path("/proc/self/mountinfo")


def read_mount_table() -> str:
    """Return the kernel's table of mounts, or an empty text if there is none."""
    try:
        return _MOUNT_TABLE.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def file_system(path: Path, table: str) -> str:
    """Return the type of the file system of a path, which need not exist; empty if the table does not say it."""
    place = os.path.realpath(path)
    above = [
        (len(point), kind)
        for point, kind in _mounts(table)
        if place == point or place.startswith(point.rstrip("/") + "/")
    ]
    above.sort(key=lambda mount: mount[0])  # stable: of two mounts at one place, the later one hides the earlier
    return above[-1][1] if above else ""


def network_file_system(path: Path) -> str:
    """Return the type of the network file system that a path is on, or will be on; an empty text if it is local."""
    kind = file_system(path, read_mount_table())
    return kind if kind in NETWORK or kind.removeprefix("fuse.") in NETWORK_FUSE else ""


def is_mount_point(path: Path, table: str) -> bool:
    """Return whether a path is a mount point; ``table`` is as in ``file_system``."""
    return os.path.realpath(path) in {point for point, _ in _mounts(table)}


@functools.lru_cache(maxsize=1)
def _mounts(table: str) -> list[tuple[str, str]]:
    mounts = []
    for line in table.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if dash and len(fields) >= 5:
            point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
            mounts.append((point, right.split(" ")[0]))
    return mounts
