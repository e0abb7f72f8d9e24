"""A noise law or a mechanism is added by one file and one registry line, in a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.inference.posterior import Effort
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.privacy.laws.part_noise import PartNoise
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import ROOT
from tests.plans import plan_of
from tests.plugins.gaussian_delta import GaussianDelta
from tests.plugins.staircase import Staircase

COIN = ("--model", "beta-bernoulli", "--success", "1", "--failure", "0", "--on-invalid", "impute:0")
STAIRCASE = [
    ("privacy/laws/staircase.py", "staircase.py", "NOISE_LAWS", "staircase", "privacy.laws.staircase:Staircase"),
    ("mechanisms/staircase_noise.py", "staircase_noise.py", "MECHANISMS", "staircase-noise",
     "mechanisms.staircase_noise:StaircaseNoise"),
]  # fmt: skip
GAUSSIAN_DELTA = [
    ("mechanisms/gaussian_delta.py", "gaussian_delta.py", "MECHANISMS", "gaussian-delta",
     "mechanisms.gaussian_delta:GaussianDelta"),
]  # fmt: skip


def copy_with(additions: list[tuple[str, str, str, str, str]], target: Path) -> Path:
    """Copy package and tests, and add files, each with its registry line."""
    for name in ("dpbayes_cli", "tests", "sample_data", "configs"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", target)
    registry = target / "dpbayes_cli" / "core" / "registry.py"
    for place, file, table, name, subject in additions:
        shutil.copy(ROOT / "tests" / "plugins" / file, target / "dpbayes_cli" / place)
        head = f"{table}: Mapping[str, str] = MappingProxyType(\n    {{\n"
        source = registry.read_text(encoding="utf-8")
        assert source.count(head) == 1
        line = f'        "{name}": "dpbayes_cli.{subject}",\n'
        registry.write_text(source.replace(head, head + line), encoding="utf-8")
    return target


def run(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=directory, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200", "PYTHONPATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return done.stdout


def battery(directory: Path, name: str) -> str:
    tests = ("tests/test_conformance.py", "tests/privacy/test_laws.py")
    return run(directory, "pytest", "-o", "addopts=", "-q", "-m", "not benchmark", "-k", name, *tests)


@pytest.mark.slow
def test_a_staircase_law_passes_the_battery_and_the_audit(tmp_path: Path) -> None:
    copy = copy_with(STAIRCASE, tmp_path)
    assert "passed" in battery(copy, "staircase")
    said = run(copy, "dpbayes_cli", "audit", *COIN, "--mechanism", "staircase-noise", "--eps", "1")
    assert "draws of staircase noise" in said
    (copy / "data.csv").write_text("outcome\n" + "1\n0\n0\n" * 100, encoding="utf-8")
    priced = ("--mechanism", "staircase-noise", "--eps", "1", "--ledger", "ledger.sqlite", "--out", "out")
    run(copy, "dpbayes_cli", "release", "data.csv", *COIN, *priced)
    assert '"law": "staircase"' in (copy / "out" / "release.json").read_text(encoding="utf-8")
    run(copy, "dpbayes_cli", "verify", "out", "--ledger", "ledger.sqlite")
    run(copy, "dpbayes_cli", "report", "out")


@pytest.mark.slow
def test_gaussian_noise_at_a_price_of_epsilon_and_delta_passes_the_battery_and_the_audit(tmp_path: Path) -> None:
    copy = copy_with(GAUSSIAN_DELTA, tmp_path)
    assert "passed" in battery(copy, "gaussian-delta")
    priced = ("--mechanism", "gaussian-delta", "--eps", "1", "--delta", "1e-6")
    assert "draws of discrete-gaussian noise" in run(copy, "dpbayes_cli", "audit", *COIN, *priced)


def test_a_count_behind_staircase_noise_has_the_enumerated_posterior() -> None:
    law, n, seen = Staircase.of(5, Decimal("0.8")), 60, 20
    observation = BetaBernoulli("1", "0", 1.0, 1.0).observation(
        RecordPolicy(Neighbors.REPLACE_ONE, "0"), [seen], law, n
    )
    marginal = infer(observation, "noise-aware", 1, np.random.default_rng(0), Effort(100, 10.0)).marginals[0]
    counts = np.arange(n + 1)
    mass = np.exp(law.log_pmf(seen - counts))  # the prior of the count is uniform
    mean = float((mass * (counts + 1.0) / (n + 2.0)).sum() / mass.sum())
    assert marginal.mean == pytest.approx(mean, rel=1e-9)


def test_the_price_of_epsilon_and_delta_is_what_is_charged() -> None:
    coin, policy = BetaBernoulli("1", "0", 1.0, 1.0), RecordPolicy(Neighbors.REPLACE_ONE, "0")
    plan = plan_of(GaussianDelta(), coin, policy, Decimal("0.5"), delta=Decimal("1e-6"))
    assert (plan.guarantee.epsilon, plan.guarantee.delta) == (Decimal("0.5"), Decimal("1e-6"))
    spent = plan.final_step.noise.privacy([(1,)]).statement(Decimal("1e-6"))
    assert Decimal("0.45") < spent.epsilon <= Decimal("0.5")


def test_parts_of_staircases_are_stored_with_what_determines_them() -> None:
    stored = PartNoise(Staircase.examples()[1:], (1, 2)).serialize()
    assert (stored["scale"], stored["parameters"]["sizes"], len(stored["parameters"]["parts"])) == (None, [1, 2], 2)
