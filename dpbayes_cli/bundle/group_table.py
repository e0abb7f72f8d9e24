"""The file with the posterior of each group of a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.duck import cursor
from dpbayes_cli.base.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpbayes_cli.base.numeric import Floats
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
    _write(path, group_columns(keys, parameters, groups))


def write_group_samples(path: Path, keys: Sequence[str], parameters: Sequence[str], draws: Floats) -> None:
    """Write samples of the groups to a new Parquet file: one row for each group, and one column for each draw.

    The columns are ``key``, ``parameter`` if there are several (one row for each of them), and ``draw_0``, ``draw_1``
    and so on, of single precision. A draw is joint: its numbers in all rows belong together.

    Args:
        draws: shape (n_draws, n_groups, n_parameters).

    Raises:
        OutputError: the file cannot be written.
    """
    import numpy as np

    names = np.repeat(np.array(keys, dtype=object), len(parameters))
    columns: dict[str, Any] = {"key": names}
    if len(parameters) > 1:
        columns["parameter"] = np.tile(np.array(parameters, dtype=object), len(keys))
    values = draws.reshape(len(draws), -1).astype(np.float32)
    _write(path, columns | {f"draw_{i}": row.copy() for i, row in enumerate(values)})


def _write(path: Path, columns: dict[str, Any]) -> None:
    target = str(path).replace("'", "''")
    with cursor(OutputError("the table of groups could not be written")) as engine:
        engine.register("group_table", columns)
        engine.execute(f"COPY group_table TO '{target}' (FORMAT parquet)")
        engine.unregister("group_table")
