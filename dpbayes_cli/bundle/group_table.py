"""The file with the posterior of each group of a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.duck import cursor
from dpbayes_cli.base.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior

_SUMMARIES = ("mean", "sd", "q05", "q50", "q95", "above")


def group_columns(keys: Sequence[str], parameters: Sequence[str], groups: GroupedPosterior) -> dict[str, Any]:
    """Return the columns of the table of groups, with one row for each group.

    They are ``key``, then ``mean``, ``sd``, ``q05``, ``q50``, ``q95`` and ``above`` (the probability that the parameter
    is above the mean of all groups) for each parameter, then the posterior of the number of valid records. If a group
    has several parameters, the name of the parameter follows, as in ``mean[yes]``.
    """
    import numpy as np

    columns: dict[str, Any] = {"key": np.array(keys, dtype=object)}
    for k, name in enumerate(parameters):
        suffix = f"[{name}]" if len(parameters) > 1 else ""
        values = (groups.means, groups.sds, *np.moveaxis(groups.quantiles, 2, 0), groups.above)
        columns |= {f"{summary}{suffix}": each[:, k].copy() for summary, each in zip(_SUMMARIES, values, strict=True)}
    sizes = zip(("records", "records_q05", "records_q95"), groups.sizes.T, strict=True)
    return columns | {name: each.copy() for name, each in sizes}


def write_groups(path: Path, keys: Sequence[str], parameters: Sequence[str], groups: GroupedPosterior) -> None:
    """Write the table of groups to a new Parquet file.

    Raises:
        OutputError: the file cannot be written.
    """
    target = str(path).replace("'", "''")
    with cursor(OutputError("the table of groups could not be written")) as engine:
        engine.register("group_table", group_columns(keys, parameters, groups))
        engine.execute(f"COPY group_table TO '{target}' (FORMAT parquet)")
        engine.unregister("group_table")
