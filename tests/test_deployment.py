"""The files for deployment are accepted by the tools that read them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

DEPLOY = ROOT / "configs" / "deploy"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_reads_the_timer_and_its_service(tmp_path: Path) -> None:
    for unit in DEPLOY.glob("dpbayes-nightly*"):
        text = unit.read_text().replace("/srv/clinic/nightly", "/bin/true")
        (tmp_path / unit.name).write_text(text)
    units = [str(path) for path in sorted(tmp_path.iterdir())]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert "dpbayes" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("docker") is None, reason="docker is not installed")
def test_the_image_prints_its_help() -> None:
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        pytest.skip("no docker daemon is running")
    build = ["docker", "build", "-q", "-f", str(DEPLOY / "Dockerfile"), "-t", "dpbayes-test", str(ROOT)]
    built = subprocess.run(build, capture_output=True, text=True, check=False)
    if built.returncode and "resolve" in built.stderr + built.stdout:
        pytest.skip("the base image cannot be fetched")
    assert built.returncode == 0, built.stderr
    done = subprocess.run(["docker", "run", "--rm", "dpbayes-test"], capture_output=True, text=True, check=True)
    assert "Usage: dpbayes" in done.stdout


def test_the_pre_commit_configuration_names_hooks() -> None:
    hooks = [
        hook["id"]
        for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
        for hook in repo["hooks"]
    ]
    assert {"ruff", "ruff-format", "mypy"} <= set(hooks)
