"""Small files of records with a class and a number that depend on two features, and specs for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.commands.networks import spec_file
from tests.conftest import Cli

REGRESSIONS = ["huber-regression", "quantile-regression"]
LEVEL = 0.8
LOWER, UPPER = 0.0, 40.0


def patients(path: Path, n_records: int = 500, seed: int = 1) -> Path:
    """Write records of a class and a number, and two features on which they depend: an age and a kind."""
    rng = np.random.default_rng(seed)
    age, kind = rng.normal(50.0, 15.0, n_records), rng.integers(0, 3, n_records)
    ill = rng.random(n_records) < 1.0 / (1.0 + np.exp(-(age - 50.0) / 10.0 - (kind - 1.0)))
    days = np.clip(20.0 + (age - 50.0) / 3.0 + 3.0 * kind + rng.normal(0.0, 3.0, n_records), 0.1, 39.9)
    rows = zip(ill, age, kind, days, strict=True)
    lines = [f"{'yes' if i else 'no'},{a:.2f},{'uvw'[k]},{d:.3f}" for i, a, k, d in rows]
    path.write_text("ill,age,kind,days\n" + "\n".join(lines) + "\n")
    return path


def regression(model: str, **more: Any) -> dict[str, Any]:
    """Return a spec of a model on them: two draws, at an epsilon that keeps them useful."""
    target: dict[str, Any] = {"column": "ill", "values": ["no", "yes"], "impute": "no"}
    if model in REGRESSIONS:
        target = {"column": "days", "lower": LOWER, "upper": UPPER, "impute": "20"}
    features = {"age": {"lower": 0, "upper": 100, "impute": "50"}, "kind": {"values": ["u", "v", "w"]}}
    domain = {"target": target, "features": features, **({"level": LEVEL} if model.startswith("quantile") else {})}
    fixed = {"model": model, "mechanism": "gibbs-posterior", "domain": domain, "dataset": "patients"}
    return {**fixed, "privacy": {"mu": 4}, "sampling": {"draws": 2, "n_steps": 100}, **more}


def release_regression(dpbayes: Cli, data: Path, model: str, out: str = "out", **more: Any) -> Path:
    """Open an account, release, and return the bundle."""
    assert dpbayes("budget", "open", "patients", "--rho", "50").code == 0
    spec = spec_file(regression(model, **more))
    dpbayes("release", data, "--spec", spec, "--out", out, "--json").exits(0)
    return Path(out)


def linear_predictors(bundle: Path, data: Path) -> Any:
    """Return the linear predictors of the records under each released draw, by hand, shape (n_records, n_draws)."""
    draws = np.array(json.loads((bundle / "release.json").read_text())["draws"])
    rows = []
    for line in data.read_text().splitlines()[1:]:
        _, age, kind, _ = line.split(",")
        grid = np.floor(min(max(float(age), 0.0), 100.0) / 100.0 * 65536 + 0.5) / 65536
        rows.append([1.0, 2.0 * grid - 1.0, *(float(kind == level) for level in "uvw")])
    return np.array(rows) @ draws.T
