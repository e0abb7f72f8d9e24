"""A process that has read the data leaves no core dump."""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli

PR_GET_DUMPABLE, PR_SET_DUMPABLE = 3, 4


@pytest.fixture
def dumpable() -> Iterator[None]:
    libc, limit = ctypes.CDLL(None), resource.getrlimit(resource.RLIMIT_CORE)
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (limit[1], limit[1]))
    yield
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


@pytest.mark.usefixtures("dumpable")
def test_a_release_cannot_be_dumped(dpbayes: Cli, coin: Path) -> None:
    assert ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1
    assert dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--out", "out").code == 0
    assert ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0
    assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)


@pytest.mark.usefixtures("dumpable")
def test_command_that_reads_no_data_can_be_dumped(dpbayes: Cli) -> None:
    assert dpbayes("models").code == 0
    assert ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1
