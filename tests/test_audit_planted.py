"""Planted bugs that an audit with default arguments must find: exit 7, and a finding that names the defect.

Each is planted in the source text of a copy of the package, so that fresh processes run it too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

COIN = ("--model", "beta-bernoulli", "--success", "1", "--failure", "0", "--on-invalid", "impute:0")
SHARES = ("--model", "dirichlet-categorical", "--categories", "a,b,c")
NUMBERS = ("--model", "normal", "--lower", "0", "--upper", "10", "--eps", "1")
BOUNDS = (
    *("--model", "normal", "--mechanism", "laplace", "--eps", "0.5"),
    *("--bounds-epsilon", "0.4", "--bounds-low", "0", "--bounds-high", "150"),
)
HIDDEN: dict[str, Any] = {
    "model": "hmm",
    "mechanism": "gibbs",
    "domain": {
        "sequence": {"column": "s", "values": ["u", "v"], "impute": "u"},
        "time": {"column": "t", "values": ["1", "2", "3"], "impute": "1"},
        "features": {"x": {"values": ["a", "b"], "impute": "a"}},
        "states": 2,
    },
    "privacy": {"epsilon": "1"},
}
SLOPES: dict[str, Any] = {
    "model": "logistic-regression",
    "mechanism": "gibbs-posterior",
    "domain": {
        "target": {"column": "y", "values": ["no", "yes"]},
        "features": {"x": {"lower": -1.0, "upper": 3.0}, "z": {"values": ["a", "b", "c"], "impute": "b"}},
    },
    "prior": {"precision": 100.0},
    "privacy": {"epsilon": "1", "delta": "1e-6"},
}

_HALVES = "_ROUND_DOWN.subtract(_ROUND_DOWN.divide(self.epsilon, Decimal(self.parts)), GRID_SLACK)"
_LEFT = "    undecided = np.arange(len(totals))\n"
_CELL = "            point = secrets.randbelow(total)\n"
_WORDS = "np.frombuffer(os.urandom(8 * len(undecided)), dtype=np.uint64)"
_NORMALS = "np.frombuffer(os.urandom(16 * size), dtype=np.uint64)"
_FIXED = "np.random.default_rng(7).integers(0, 1 << 63, 2 * size).astype(np.uint64) * np.uint64(2)"
_CLAMP = "least(greatest({nearest}, 0), {column.steps})"

Change = tuple[str, str]
Case = tuple[str, list[Change], tuple[str, ...] | dict[str, Any], str]
PLANTED: dict[str, Case] = {
    "a cell that is drawn by the same generator at every release, ops": (
        "privacy/grid.py",
        [(_CELL, "            import random\n            point = random.Random(7).randrange(total)\n")],
        (*COIN, "--mechanism", "ops", "--eps", "1"),
        "draws of choice of a cell",
    ),
    "a cell that is drawn by the same generator at every release, rdp-diffuse": (
        "privacy/grid.py",
        [(_CELL, "            import random\n            point = random.Random(7).randrange(total)\n")],
        (*COIN, "--mechanism", "rdp-diffuse", "--eps", "0.1"),
        "draws of choice of a cell",
    ),
    "a cell that is drawn by a generator that starts anew with the process": (
        "privacy/grid.py",
        [
            ("WEIGHT_SCALE = 1 << 140\n", "WEIGHT_SCALE = 1 << 140\nfrom random import Random\nANEW = Random(7)\n"),
            (_CELL, "            point = ANEW.randrange(total)\n"),
        ],
        (*COIN, "--mechanism", "map", "--eps", "1"),
        "in two fresh processes",
    ),
    "a Renyi curve at other orders": (
        "mechanisms/samplers/renyi_posterior.py",
        [("renyi_bound(family, float(order), r, m)", "renyi_bound(family, 1.0 + 0.8 * (float(order) - 1.0), r, m)")],
        (*COIN, "--mechanism", "rdp-diffuse", "--eps", "0.1"),
        "Renyi divergence of the exact laws",
    ),
    "no upper clamp": (
        "sources/statements.py",
        [(_CLAMP, "greatest({nearest}, 0)")],
        (*NUMBERS, "--mechanism", "laplace"),
        "L1 sensitivity",
    ),
    "no lower clamp": (
        "sources/statements.py",
        [(_CLAMP, "least({nearest}, {column.steps})")],
        (*NUMBERS, "--mechanism", "laplace"),
        "L1 sensitivity",
    ),
    "a last count without noise": (
        "privacy/measurements.py",
        [
            (
                "return add_noise(self._measurement(), clamp_to_int64(values))",
                "return [*add_noise(self._measurement(), clamp_to_int64(values[:-1])), int(values[-1])]",
            )
        ],
        (*SHARES, "--mechanism", "laplace", "--eps", "1"),
        "draws of discrete-laplace noise",
    ),
    "a last count without noise, beside the noise": (
        "mechanisms/samplers/calibrated_noise.py",
        [
            (
                "tuple(step.noise.release(evidence.values))",
                "(*step.noise.release(evidence.values)[:-1], evidence.values[-1])",
            )
        ],
        (*SHARES, "--mechanism", "laplace", "--eps", "1"),
        "released values under dictated outcomes",
    ),
    "private bounds that cost twice what is charged": (
        "core/private_quantile.py",
        [(_HALVES, "_ROUND_DOWN.subtract(self.epsilon, GRID_SLACK)")],
        BOUNDS,
        "log ratios of the choices' laws",
    ),
    "Langevin noise of a fixed seed": (
        "privacy/secret_normals.py",
        [(_NORMALS, _FIXED)],
        SLOPES,
        "draws of noise of one Langevin step",
    ),
    "states of a Gibbs chain by a fixed seed": (
        "privacy/choices.py",
        [
            (_LEFT, _LEFT + "    rng = np.random.default_rng(7)\n"),
            (_WORDS, "rng.integers(0, 1 << 63, len(undecided)).astype(np.uint64)"),
        ],
        HIDDEN,
        "draws of choice of states",
    ),
    "noise of a Langevin step halved": (
        "core/langevin.py",
        [("scale = self.arithmetic.noise / lattice", "scale = 0.5 * self.arithmetic.noise / lattice")],
        SLOPES,
        "draws of noise of one Langevin step",
    ),
    "emissions of a Gibbs chain at twice the likelihood power": (
        "mechanisms/samplers/private_gibbs.py",
        [("emissions = self.update_emissions(states, sites, stage.likelihood_power)",
          "emissions = self.update_emissions(states, sites, 2 * stage.likelihood_power)")],
        HIDDEN,
        "log ratios of the choices' laws",
    ),
    "a lattice at twice the likelihood power": (
        "mechanisms/samplers/simplex_sampler.py",
        [("EXACT.fma(power, Decimal(count)", "EXACT.fma(2 * power, Decimal(count)")],
        (*SHARES, "--on-invalid", "impute:a", "--mechanism", "ops", "--eps", "1"),
        "log ratios of the choices' laws",
    ),
}  # fmt: skip


def test_every_planted_bug_finds_its_line() -> None:
    lost = [
        name
        for name, (file, changes, *_) in PLANTED.items()
        for old, _ in changes
        if (ROOT / "dpbayes_cli" / file).read_text(encoding="utf-8").count(old) != 1
    ]
    assert lost == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_default_audit_finds_the_planted_bug(name: str, tmp_path: Path) -> None:
    file, changes, question, finding = PLANTED[name]
    shutil.copytree(ROOT / "dpbayes_cli", tmp_path / "dpbayes_cli", ignore=shutil.ignore_patterns("__pycache__"))
    subject = tmp_path / "dpbayes_cli" / file
    source = subject.read_text(encoding="utf-8")
    for old, new in changes:
        assert source.count(old) == 1, "the line to change is not there any more"
        source = source.replace(old, new)
    subject.write_text(source, encoding="utf-8")
    if isinstance(question, dict):
        import yaml

        (tmp_path / "spec.yaml").write_text(yaml.safe_dump(question), encoding="utf-8")
        question = ("--spec", "spec.yaml")
    done = subprocess.run(
        [sys.executable, "-m", "dpbayes_cli", "audit", *question],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 7, done.stdout[-3000:] + done.stderr[-2000:]
    assert "the audit disproves the guarantee" in done.stderr
    assert finding in done.stderr, done.stderr
