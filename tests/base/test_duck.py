"""The embedded engine."""

from __future__ import annotations

from importlib import metadata

from dpbayes_cli.base import duck


def test_the_version_is_that_of_the_engine() -> None:
    assert metadata.version("duckdb").startswith(duck.version())
