"""A simulated disk: which part of a directory is synced, and which part a power cut leaves.

A real directory is what the kernel holds. Only synced data are on disk: the content of a file and the names in a
directory at their last sync. At a power cut, each name and each sector that differs from its synced state is kept or
lost at random. Both names of a moved file are kept or lost together, as in a file system with a journal.
"""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

SECTOR = 512
_stat, _listdir = os.stat, os.listdir  # the real calls: the simulation replaces those of ``os``


@dataclass(eq=False)
class Inode:
    """A file or directory, as it is on disk."""

    content: bytes = b""
    names: dict[str, Inode] = field(default_factory=dict)
    is_directory: bool = False


class Disk:
    """The disk under one directory, which is empty at first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._inodes: dict[int, Inode] = {}

    def created(self, path: Path | str | int) -> None:
        """Note that a file or directory is new: its inode number may have belonged to another file."""
        self._inodes.pop(_stat(path).st_ino, None)

    def sync(self, path: Path | str | int) -> None:
        """Sync a file, or the names in a directory."""
        inode = self._inode(path)
        if inode.is_directory:
            inode.names = self._names(path)
        else:
            inode.content = _content(path)

    def sync_all(self) -> None:
        """Sync everything."""
        for directory, _, files in os.walk(self.root):
            for name in (".", *files):
                self.sync(Path(directory, name))

    def lose_power(self, rng: Random) -> None:
        """Keep what is synced, and a random part of the rest; all that is left is synced afterward."""
        outage = _PowerCut(rng, self._inode(self.root))
        for directory, _, files in sorted(os.walk(self.root)):
            inode = self._inode(directory)
            outage.now[inode] = self._names(directory)
            for name in files:
                path = Path(directory, name)
                outage.contents[self._inode(path)] = _content(path)
        tree = outage.draw()
        for path in self.root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self._inodes.clear()
        written: dict[Inode, Path] = {}
        for place, inode in tree:
            path = self.root / place
            if inode.is_directory:
                path.mkdir(mode=0o700)
            elif inode in written:
                path.hardlink_to(written[inode])
            else:
                path.write_bytes(outage.content(inode))
                path.chmod(0o600)
                written[inode] = path
        self.sync_all()

    def _inode(self, path: Path | str | int) -> Inode:
        status = _stat(path)
        return self._inodes.setdefault(status.st_ino, Inode(is_directory=stat.S_ISDIR(status.st_mode)))

    def _names(self, path: Path | str | int) -> dict[str, Inode]:
        place = f"/proc/self/fd/{path}" if isinstance(path, int) else str(path)
        return {name: self._inode(f"{place}/{name}") for name in sorted(_listdir(place))}


class _PowerCut:
    """Draws at random what is left after a power cut."""

    def __init__(self, rng: Random, root: Inode) -> None:
        self.rng, self.root = rng, root
        self.now: dict[Inode, dict[str, Inode]] = {}
        self.contents: dict[Inode, bytes] = {}

    def draw(self) -> list[tuple[Path, Inode]]:
        """Return the remaining paths and inodes, each directory before its content."""
        before = [inode for dir_ in self.now for name, inode in dir_.names.items() if self.now[dir_].get(name) != inode]
        after = [inode for dir_ in self.now for name, inode in self.now[dir_].items() if dir_.names.get(name) != inode]
        moved = [inode for inode in after if before.count(inode) == 1 == after.count(inode)]
        kept = {inode: self.rng.random() < 0.5 for inode in moved}
        tree: list[tuple[Path, Inode]] = []
        seen: set[Inode] = set()

        def fill(place: Path, directory: Inode) -> None:
            old, new = directory.names, self.now.get(directory, directory.names)
            for name in sorted(old.keys() | new.keys()):
                first, last = old.get(name), new.get(name)
                chosen = first
                if first is not last:
                    known = next((kept[inode] for inode in (last, first) if inode in kept), None)
                    chosen = last if (self.rng.random() < 0.5 if known is None else known) else first
                if chosen is None or chosen in seen:
                    continue
                tree.append((place / name, chosen))
                if chosen.is_directory:
                    seen.add(chosen)
                    fill(place / name, chosen)

        fill(Path(), self.root)
        return tree

    def content(self, inode: Inode) -> bytes:
        """Return a file's content, in which each sector is the synced one or the present one."""
        old, new = inode.content, self.contents.get(inode, inode.content)
        if old == new:
            return old
        share = self.rng.choice((0.0, 0.5, 1.0))
        length = len(new) if self.rng.random() < (share or 0.25) else len(old)
        end = max(len(old), len(new))
        old, new = old.ljust(end, b"\0"), new.ljust(end, b"\0")
        starts = range(0, end, SECTOR)
        sectors = [(new if self.rng.random() < share else old)[start : start + SECTOR] for start in starts]
        return b"".join(sectors)[:length]


def _content(path: Path | str | int) -> bytes:
    place = f"/proc/self/fd/{path}" if isinstance(path, int) else path
    descriptor = _open(place, os.O_RDONLY)
    try:
        return os.pread(descriptor, _stat(descriptor).st_size, 0)
    finally:
        _close(descriptor)


_open, _close = os.open, os.close
