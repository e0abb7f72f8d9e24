"""The ledger that a text names, and which parts of an address are shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.base.postgres_address import PostgresAddress, parse_address
from dpbayes_cli.ledger.place import default_path, storage_at
from tests.conftest import Cli

SECRET = "hunter2"
REFUSED = [
    f"postgresql://ada:{SECRET}@db/clinic",
    f"postgres://ada:{SECRET}@db:5432/clinic",
    f"postgresql://ada%3A{SECRET}@db/clinic",
    f"postgresql://ada:a/{SECRET}@db/clinic",
    f"postgresql://ada:1?{SECRET}@db/clinic",
    f"postgresql://ada:1#{SECRET}@db/clinic",
    f"postgresql://ada:a {SECRET}@db/clinic",
    f"postgresql://ada@db/clinic?password={SECRET}",
    f"postgresql://ada@db/clinic?sslpassword={SECRET}",
    f"postgresql://ada@db/clinic?options=-c%20synchronous_commit%3D{SECRET}",
    f"postgresql://ada@db/clinic?sslmode=require&sslmode={SECRET}",
    f"postgresql://ada@db/clinic?schema={SECRET}.x",
    f"postgresql://ada@db/clinic?host={SECRET}",
    f"postgresql://ada@db:{SECRET}/clinic",
    "postgresql://ada@db",
    "postgresql://ada@db/%FF",
    "postgresql://ada@db/a%00b",
    "postgresql://ada@db/a?schema=pg_catalog",
    f"postgresql:ada:{SECRET}@db",
    f"POSTGRESQL://ada:{SECRET}@db/clinic",
    f"mysql://ada:{SECRET}@db/clinic",
]


@pytest.mark.parametrize("address", REFUSED)
def test_a_wrong_address_is_refused_and_nothing_of_it_is_repeated(
    address: str, dpbayes: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(place.rglob("*"))
    stated = dpbayes("budget", "show", "--ledger", address, "-vv")
    monkeypatch.setenv("DPBAYES_LEDGER", address)
    implied = dpbayes("budget", "open", "clinic", "--eps", "1", "--json", "-vv")
    for result in (stated, implied):
        assert result.code == LedgerError.exit_code
        assert "Hint: " in result.err or "schema" in result.err
        assert not any(word in result.out + result.err for word in (SECRET, "ada", "clinic"))
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize(
    ("text", "address", "location"),
    [
        ("postgres://db/clinic", PostgresAddress("", "db", "", "clinic"), "postgresql://db/clinic"),
        ("postgresql:///clinic", PostgresAddress("", "", "", "clinic"), "postgresql:///clinic"),
        (
            "postgresql://a%40b@Db:6432/c%20d?sslmode=verify-full&passfile=/run/secret&schema=stored",
            PostgresAddress(
                "a@b", "Db", "6432", "c d", "stored", (("passfile", "/run/secret"), ("sslmode", "verify-full"))
            ),
            "postgresql://a%40b@Db:6432/c%20d?schema=stored",
        ),
        ("postgresql://ada@[::1]:1/x", PostgresAddress("ada", "::1", "1", "x"), "postgresql://ada@[::1]:1/x"),
        ("postgresql:///x?host=/run/Pg", PostgresAddress("", "/run/Pg", "", "x"), "postgresql://%2Frun%2FPg/x"),
    ],
)
def test_an_address_is_read_and_shown_without_its_options(text: str, address: PostgresAddress, location: str) -> None:
    assert parse_address(text) == address
    assert address.location == location
    assert parse_address(location).location == location
    parameters = parse_address("postgresql://ada@db/clinic?sslmode=require").parameters
    assert parameters == {"user": "ada", "host": "db", "dbname": "clinic", "sslmode": "require"}


def test_a_path_names_a_ledger_in_a_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert storage_at("x.sqlite").location == str(place / "x.sqlite")
    monkeypatch.setenv("DPBAYES_LEDGER", "/x/y.sqlite")
    assert storage_at().location == "/x/y.sqlite"
    assert storage_at("postgresql://db/x").location == "postgresql://db/x"
    monkeypatch.setenv("DPBAYES_LEDGER", "postgresql://db/y")
    assert storage_at().location == "postgresql://db/y"
    monkeypatch.delenv("DPBAYES_LEDGER")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert storage_at().location == "/state/dpbayes/ledger.sqlite"


WITHOUT = """
import builtins, sys
plain = builtins.__import__

def refusing(name, *rest, **named):
    if name.partition(".")[0] == "psycopg":
        raise ImportError(name)
    return plain(name, *rest, **named)

builtins.__import__ = refusing
from dpbayes_cli.main import run
run()
"""


def test_a_missing_driver_tells_how_to_install_it() -> None:
    command = [sys.executable, "-c", WITHOUT, "budget", "show", "--ledger"]
    done = subprocess.run([*command, "postgresql://ada@db/clinic"], capture_output=True, text=True, check=False)
    assert done.returncode == LedgerError.exit_code
    assert "pip install 'dpbayes[postgres]'" in done.stderr
    done = subprocess.run([*command, "stored.sqlite"], capture_output=True, text=True, check=False)
    assert "there is no ledger at" in done.stderr


def test_without_a_home_the_ledger_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(cls: type[Path]) -> Path:
        raise RuntimeError("no home")

    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # which is ignored
    assert default_path().is_absolute()
    monkeypatch.setattr(Path, "home", classmethod(nowhere))
    with pytest.raises(LedgerError, match="no home"):
        default_path()
