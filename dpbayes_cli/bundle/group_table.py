"""The file with the posterior of each group of a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.duck import cursor
from dpbayes_cli.base.errors import OutputError
from dpbayes_cli.bundle.files import GROUP_SAMPLES, GROUPS, LARGER_GROUPS, GroupKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.core.model import Model
    from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior, LargerSummary

_SUMMARIES = ("mean", "sd", "q05", "q50", "q95", "above")


def group_columns(keys: Sequence[GroupKey], parameters: Sequence[str], groups: GroupedPosterior) -> dict[str, Any]:
    """Return the columns of the table of groups, with one row for each group.

    They are ``key``, with larger groups also ``larger_group``, then ``mean``, ``sd``, ``q05``, ``q50``, ``q95`` and
    ``above`` (the probability that the parameter is above the mean of all groups) for each parameter, then the
    posterior of the number of valid records. If a group has several parameters, the name of the parameter follows, as
    in ``mean[yes]``.
    """
    columns = _key_columns(keys) | _summary_columns(parameters, groups)
    sizes = zip(("records", "records_q05", "records_q95"), groups.sizes.T, strict=True)
    return columns | {name: each.copy() for name, each in sizes}


def larger_columns(
    keys: Sequence[GroupKey], parameters: Sequence[str], groups: GroupedPosterior, larger: LargerSummary
) -> dict[str, Any]:
    """Return the columns of the table of larger groups, with one row for each.

    They are ``key`` and the number of its ``groups``, then the summaries of each parameter's mean over groups of the
    larger group, as in ``group_columns``. ``weighted_mean`` is the mean of the estimates of the larger group's own
    groups, weighted by their estimated numbers of records. The last column is the sum of these numbers, ``records``.
    """
    import numpy as np

    names, index = larger_names(keys)
    sizes = np.bincount(index, weights=groups.sizes[:, 0])
    columns = {"key": np.array(names, dtype=object), "groups": np.bincount(index)}
    columns |= _summary_columns(parameters, larger)
    for k, suffix in enumerate(_suffixes(parameters)):
        total = np.bincount(index, weights=groups.sizes[:, 0] * groups.means[:, k])
        columns[f"weighted_mean{suffix}"] = total / np.maximum(sizes, 1e-300)
    return columns | {"records": sizes}


def larger_names(keys: Sequence[GroupKey]) -> tuple[list[str], Integers]:
    """Return the keys of the larger groups, and for each group the index of the one that contains it."""
    import numpy as np

    places: dict[str, int] = {}
    index = [places.setdefault(key[1], len(places)) for key in keys]
    return list(places), np.array(index, dtype=np.int64)


def write_groups(
    directory: Path, keys: Sequence[GroupKey], model: Model, groups: GroupedPosterior, draws: Floats | None
) -> None:
    """Write the table of groups and, if there are any, that of larger groups and samples to new Parquet files.

    Args:
        directory: the directory of the files.
        keys: the keys of the groups.
        model: the model of groups.
        groups: the posterior.
        draws: draws of the parameters of all groups, shape (n_draws, n_groups, n_parameters); None to write none.

    Raises:
        OutputError: a file cannot be written.
    """
    tables = {GROUPS: group_columns(keys, model.group_parameters, groups)}
    if groups.larger is not None:
        tables[LARGER_GROUPS] = larger_columns(keys, model.group_parameters, groups, groups.larger)
    if draws is not None:
        tables[GROUP_SAMPLES] = _sample_columns(keys, model.group_parameters, draws)
    for name, columns in tables.items():
        target = str(directory / name).replace("'", "''")
        with cursor(OutputError("the table of groups could not be written")) as engine:
            engine.register("group_table", columns)
            engine.execute(f"COPY group_table TO '{target}' (FORMAT parquet)")
            engine.unregister("group_table")


def _sample_columns(keys: Sequence[GroupKey], parameters: Sequence[str], draws: Floats) -> dict[str, Any]:
    """Return the columns of the samples: one row for each group, and one column for each draw.

    They are those of the keys, ``parameter`` if there are several (one row for each of them), and ``draw_0``,
    ``draw_1`` and so on, of single precision. A draw is joint: its numbers in all rows belong together.
    """
    import numpy as np

    columns = {name: np.repeat(each, len(parameters)) for name, each in _key_columns(keys).items()}
    if len(parameters) > 1:
        columns["parameter"] = np.tile(np.array(parameters, dtype=object), len(keys))
    values = draws.reshape(len(draws), -1).astype(np.float32)
    return columns | {f"draw_{i}": row.copy() for i, row in enumerate(values)}


def _key_columns(keys: Sequence[GroupKey]) -> dict[str, Any]:
    import numpy as np

    columns: dict[str, Any] = {"key": np.array([key if isinstance(key, str) else key[0] for key in keys], dtype=object)}
    if keys and not isinstance(keys[0], str):
        columns["larger_group"] = np.array([key[1] for key in keys], dtype=object)
    return columns


def _suffixes(parameters: Sequence[str]) -> list[str]:
    return [f"[{name}]" for name in parameters] if len(parameters) > 1 else [""]


def _summary_columns(parameters: Sequence[str], groups: GroupedPosterior | LargerSummary) -> dict[str, Any]:
    import numpy as np

    values = (groups.means, groups.sds, *np.moveaxis(groups.quantiles, 2, 0), groups.above)
    columns: dict[str, Any] = {}
    for k, suffix in enumerate(_suffixes(parameters)):
        columns |= {f"{summary}{suffix}": each[:, k].copy() for summary, each in zip(_SUMMARIES, values, strict=True)}
    return columns
