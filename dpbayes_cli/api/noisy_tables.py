"""Posteriors of noisy tables that other tools published, in Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpbayes_cli.spec.table_spec import build_table_spec, read_table_spec
from dpbayes_cli.workflow.noisy_table import InferredTable
from dpbayes_cli.workflow.noisy_table import infer_table as infer_published


def infer_table(
    table: str | Path,
    spec: str | Path | Mapping[str, Any],
    *,
    samples: int = 4000,
    interval: float = 0.9,
    seed: int = 0,
) -> InferredTable:
    """Compute the posterior of counts, rates, shares, sums and differences from noisy counts that another tool gave.

    >>> noise = {"law": "discrete-laplace", "scale": 2}
    >>> sums = {"sums": [{"name": "patients", "columns": ["len"], "by": ["clinic"]}]}
    >>> spec = {"keys": ["clinic", "relapse"], "counts": ["len"], "noise": noise, "infer": sums}
    >>> patients = dpb.infer_table("noisy_opendp.csv", spec).to_pandas()

    Args:
        table: a CSV or Parquet file.
        spec: the spec of the table as a file or as a mapping; ``dpbayes spec init table`` writes one with comments.
        samples: the number of posterior draws of a quantity that is not computed exactly.
        interval: the probability of the intervals.
        seed: the seed of the draws.

    Raises:
        SpecError: the spec is wrong, or does not fit the table.
        SourceError: the table cannot be read.

    Privacy: post-processing of a published table; nothing is spent.
    """
    stated = build_table_spec(dict(spec)) if isinstance(spec, Mapping) else read_table_spec(Path(spec))
    return infer_published(Path(table), stated, samples, interval, seed)
