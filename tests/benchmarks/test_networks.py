"""Networks: release time and memory against rows and nodes, as whole processes; printed, not asserted."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.benchmarks.test_benchmarks import DPBAYES, measure

pytestmark = pytest.mark.benchmark

PANDAS = """
import sys, itertools, numpy as np, pandas as pd, yaml
spec = yaml.safe_load(open(sys.argv[1])); data = pd.read_parquet(sys.argv[2])
rng = np.random.default_rng()
for name, node in spec["domain"]["variables"].items():
    counts = data.groupby([*node["parents"], name]).size()
    noisy = counts + rng.laplace(0.0, 2.0 * len(spec["domain"]["variables"]), len(counts))
"""
"""What one would write by hand: counts family by family and real-valued noise; no posterior, no ledger."""


def network(n_nodes: int) -> dict[str, list[str]]:
    rng = np.random.default_rng(n_nodes)
    return {
        f"x{i}": [f"x{j}" for j in sorted(rng.choice(i, size=min(3, i), replace=False).tolist())] if i else []
        for i in range(n_nodes)
    }


def spec_file(place: Path, n_nodes: int) -> Path:
    path = place / f"net-{n_nodes}.yaml"
    if not path.exists():
        nodes = {name: {"values": [0, 1], "impute": 0, "parents": p} for name, p in network(n_nodes).items()}
        path.write_text(yaml.safe_dump({"model": "bayes-net", "domain": {"variables": nodes}}, sort_keys=False))
    return path


def data_file(place: Path, n_rows: int, n_nodes: int) -> Path:
    path = place / f"rows-{n_rows}-{n_nodes}.parquet"
    if not path.exists():
        rng = np.random.default_rng(0)
        shares = rng.random(n_nodes)
        schema = pa.schema([(f"x{i}", pa.int8()) for i in range(n_nodes)])
        with pq.ParquetWriter(path, schema) as writer:
            for first in range(0, n_rows, 100_000):
                block = rng.random((min(100_000, n_rows - first), n_nodes)) < shares
                writer.write_table(pa.table([block[:, i].astype(np.int8) for i in range(n_nodes)], schema=schema))
    return path


def release(place: Path, n_rows: int, n_nodes: int) -> list[str]:
    data, spec = data_file(place, n_rows, n_nodes), spec_file(place, n_nodes)
    return [*DPBAYES, "release", str(data), "--spec", str(spec), "--eps", "1", "--dataset", "wide", "--out", "out"]


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wide")


def test_a_thousand_nodes_and_a_million_rows(wide: Path) -> None:
    ours = measure(release(wide, 1_000_000, 1000), runs=1)
    by_hand = [sys.executable, "-c", PANDAS, str(spec_file(wide, 1000)), str(data_file(wide, 1_000_000, 1000))]
    theirs = measure(by_hand, runs=1)
    print(f"\n1e6 rows, 1,000 nodes: {ours[0]:.1f} s, {ours[1]:.0f} MB; counts and noise in pandas {theirs[0]:.1f} s, "
          f"{theirs[1]:.0f} MB; ratio {ours[0] / theirs[0]:.2f}")  # fmt: skip


def test_growth_in_rows(wide: Path) -> None:
    sizes = [100_000, 200_000, 400_000, 800_000]
    show_growth("rows, 200 nodes", sizes, [measure(release(wide, n, 200), runs=1)[0] for n in sizes])


def test_growth_in_nodes(wide: Path) -> None:
    sizes = [125, 250, 500, 1000]
    show_growth("nodes, 1e5 rows", sizes, [measure(release(wide, 100_000, n), runs=1)[0] for n in sizes])


def show_growth(what: str, sizes: list[int], seconds: list[float]) -> None:
    """Print times beside the straight line that fits them best."""
    measured = ", ".join(f"{size} {s:.2f} s" for size, s in zip(sizes, seconds, strict=True))
    each, fixed = np.polyfit(sizes, seconds, 1)
    off = max(abs(s / (fixed + each * size) - 1.0) for size, s in zip(sizes, seconds, strict=True))
    print(f"\n{what}: {measured}; {fixed:.2f} s + {each:.3g} s each, off by at most {off:.0%}")
