"""Small files of records from a known network, and specs for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dpbayes_cli.core.registry import mechanism_type
from tests.conftest import Cli

VARIABLES: dict[str, Any] = {
    "class": {"values": ["no", "yes"], "impute": "no"}, "kind": {"values": ["u", "v", "w"], "impute": "u"},
    "flag": {"values": ["0", "1"], "impute": "0"}, "age": {"cuts": [20, 40, 60], "impute": 30},
}  # fmt: skip


def people(path: Path, n_records: int = 600, seed: int = 1) -> Path:
    """Write records of a class, 40 % of them "yes", and three features that depend on it."""
    rng = np.random.default_rng(seed)
    yes = rng.random(n_records) < 0.4
    kind = np.where(yes, rng.choice(3, n_records, p=[0.6, 0.3, 0.1]), rng.choice(3, n_records, p=[0.1, 0.3, 0.6]))
    flag = rng.random(n_records) < np.where(yes, 0.8, 0.3)
    age = rng.normal(np.where(yes, 50, 30), 10).round(1)
    rows = zip(yes, kind, flag, age, strict=True)
    lines = [f"{'yes' if y else 'no'},{'uvw'[k]},{int(f)},{a}" for y, k, f, a in rows]
    path.write_text("class,kind,flag,age\n" + "\n".join(lines) + "\n")
    return path


def naive_bayes(**more: Any) -> dict[str, Any]:
    """Return a spec of naive Bayes on them."""
    domain = {"target": "class", "variables": dict(VARIABLES)}
    fixed = {"model": "naive-bayes", "domain": domain, "privacy": {"epsilon": 1}}
    infers = mechanism_type(more.get("mechanism", "laplace")).post_processing
    return {**fixed, **({"inference": {"samples": 300}} if infers else {}), **more}


def bayes_net(**more: Any) -> dict[str, Any]:
    """Return a spec of a network on them whose tables overlap."""
    parents = {"kind": ["class"], "flag": ["class", "kind"], "age": ["class"]}
    variables = {name: {**part, "parents": parents.get(name, [])} for name, part in VARIABLES.items()}
    return {**naive_bayes(**more), "model": "bayes-net", "domain": {"target": "class", "variables": variables}, **more}


def spec_file(spec: dict[str, Any], name: str = "spec.yaml") -> str:
    """Write a spec and return its name."""
    Path(name).write_text(yaml.safe_dump(spec, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return name


def release(dpbayes: Cli, data: Path, spec: dict[str, Any], *more: str, out: str = "out") -> Any:
    """Release, and return the result of the command."""
    return dpbayes("release", data, "--spec", spec_file(spec), "--out", out, "--json", *more)
