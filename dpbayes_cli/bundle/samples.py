"""Write and read the file with the posterior samples of a bundle, in the format that the spec names.

h5netcdf writes netCDF files, because ArviZ takes seconds to import. They are built in memory, because HDF5 does not
recover from a full disk, and because a bundle that is written again must have the same bytes.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpbayes_cli import __version__
from dpbayes_cli.base.csv_escape import escape_row
from dpbayes_cli.base.duck import cursor
from dpbayes_cli.base.errors import OutputError, SpecError
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.document_parts import InferenceReport
from dpbayes_cli.bundle.read import analysis_of, bundle_of, open_regular
from dpbayes_cli.bundle.report.intervals import STORED_LEVEL, Intervals, sampled_intervals, stored_intervals
from dpbayes_cli.bundle.report.wording import guarantee_text
from dpbayes_cli.bundle.write import write_new
from dpbayes_cli.core.model import Model
from dpbayes_cli.privacy.lazy_numpy import np

_MAX_NUMBER_BYTES = {"parquet": 16, "csv": 26, "netcdf": 16}
"""An upper bound on the bytes per number. In CSV, the longest number is -2.2250738585072014e-308 with its separator;
for the other formats, the bound is twice the size of a double."""
_MAX_COLUMN_BYTES = 1 << 16  # an upper bound on the bytes of a column's metadata without its name
_ELEMENT = re.compile(r"([^\[\]]+)\[(.*)\]", re.DOTALL)
_N_CHAINS = 4
_MIN_DRAWS = 4  # the smallest number of draws per chain for which convergence diagnostics can be computed


def check_format(file_format: str) -> None:
    """Refuse a format whose libraries are not installed; a release calls this before anything is charged."""
    missing = [name for name in ("h5netcdf", "h5py") if find_spec(name) is None]
    if file_format == "netcdf" and missing:
        raise SpecError(
            f"netcdf needs {' and '.join(missing)}, which {'are' if missing[1:] else 'is'} not installed",
            where="inference.format",
            hint="pip install 'dpbayes[arviz]', or choose parquet or csv",
        )


def sample_labels(document: ReleaseDocument, report: InferenceReport) -> dict[str, str]:
    """Return the metadata of a samples file; after ``dpbayes infer``, the report is not the one in the document."""
    return {
        "release_id": document.release_id,
        "model": document.model,
        "mechanism": document.mechanism,
        "guarantee": f"{guarantee_text(document.guarantee)} ({document.guarantee.neighbors} neighbors)",
        "method": f"{report.method}: {report.how}",
    }


def write_samples(path: Path, analysis: Analysis, file_format: str, labels: Mapping[str, str]) -> None:
    """Write the posterior samples to a new file; the labels are metadata, which only a netCDF file holds.

    A CSV or Parquet file has one column per parameter and one row per sample. The file must not exist, and no other
    process may write to its directory.
    """
    if file_format == "netcdf":
        write_new(path, netcdf_bytes(analysis, labels))
    elif file_format == "csv":
        with path.open("x", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(escape_row(analysis.parameters))
            writer.writerows(map(repr, row) for row in analysis.samples.tolist())
    else:
        _write_parquet(path, analysis)


def _write_parquet(path: Path, analysis: Analysis) -> None:
    columns = {name: analysis.samples[:, k].copy() for k, name in enumerate(analysis.parameters)}
    target = str(path).replace("'", "''")
    with cursor(OutputError("the samples could not be written")) as engine:
        engine.register("samples", columns)
        engine.execute(f"COPY samples TO '{target}' (FORMAT parquet)")
        engine.unregister("samples")


def intervals_of_bundle(bundle: Path, document: ReleaseDocument, level: float) -> Intervals:
    """Return the intervals of a released posterior at a level, from the samples in its bundle."""
    if level == STORED_LEVEL:
        return stored_intervals(document)
    report = document.inference
    if report.samples_format == "netcdf":
        return sampled_intervals(document, analysis_of(bundle_of(document)).samples, level)
    return sampled_intervals(document, _read_samples(bundle / report.samples_file, report.samples_format), level)


def _read_samples(path: Path, file_format: str) -> Floats:
    """Return the numbers in a samples file, shape (n_samples, n_parameters)."""
    descriptor = open_regular(path)
    if descriptor is None:
        raise OutputError(f"there is no file {path.name!r} in the bundle")
    reader = "read_csv" if file_format == "csv" else "read_parquet"
    try:
        with cursor(OutputError("the samples could not be read")) as engine:
            columns = engine.execute(f"SELECT * FROM {reader}('/dev/fd/{descriptor}')").fetchnumpy()  # noqa: S608
    finally:
        os.close(descriptor)
    return np.column_stack(list(columns.values())).astype(np.float64)


def max_samples_bytes(file_format: str, parameters: Sequence[str], n_samples: int) -> int:
    """Return an upper bound on the size of a samples file in bytes; it holds for all versions of the libraries."""
    names = sum(len(name.encode("utf-8", "replace")) for name in parameters)
    return (
        _MAX_NUMBER_BYTES[file_format] * n_samples * len(parameters)
        + _MAX_COLUMN_BYTES * (len(parameters) + 1)
        + 8 * names
    )


def are_samples(path: Path, file_format: str, parameters: Sequence[str], n_samples: int) -> bool:
    """Return whether a file holds finite samples, a column per parameter and a row per sample; netCDF is not opened."""
    if file_format == "netcdf":
        return True
    expected = list(escape_row(parameters) if file_format == "csv" else parameters)
    reader = (
        "read_csv('/dev/fd/{}', header=true, all_varchar=true)"
        if file_format == "csv"
        else "read_parquet('/dev/fd/{}')"
    )
    texts = (name.replace('"', '""') for name in expected)
    finite = " AND ".join(f'coalesce(isfinite(try_cast("{text}" AS DOUBLE)), false)' for text in texts)
    descriptor = open_regular(path)
    if descriptor is None:
        return False
    try:
        with cursor(OutputError("the samples could not be read")) as engine:
            engine.execute(f"CREATE TEMP VIEW samples AS SELECT * FROM {reader.format(descriptor)}")  # noqa: S608
            columns = [str(row[0]) for row in engine.execute("DESCRIBE samples").fetchall()]
            if columns != expected:
                return False
            query = f"SELECT count(*), count(*) FILTER ({finite}) FROM samples"  # noqa: S608 - names are quoted
            (counts,) = engine.execute(query).fetchall()
    except OutputError:
        return False
    finally:
        os.close(descriptor)
    return bool(counts[0] == counts[1] == n_samples)


def netcdf_bytes(analysis: Analysis, labels: Mapping[str, str]) -> bytes:
    """Return the bytes of a file for ``arviz.from_netcdf``; ``labels`` become attributes of the group ``posterior``.

    Parameters like ``theta[a]`` and ``theta[b]`` become one variable ``theta`` with a coordinate ``theta_label``.
    """
    import h5netcdf
    import h5py

    chains = by_chain(analysis)
    sink = io.BytesIO()
    with h5netcdf.File(sink, "w") as file:
        group = file.create_group("posterior")
        group.attrs.update({**labels, "inference_library": "dpbayes", "inference_library_version": __version__})
        group.dimensions = {"chain": chains.shape[0], "draw": chains.shape[1]}
        for axis, dimension in enumerate(("chain", "draw")):
            group.create_variable(dimension, (dimension,), np.int64, np.arange(chains.shape[axis]))
        for variable, elements in elements_by_variable(analysis.parameters).items():
            columns = [column for _, column in elements]
            if elements[0][0] is None:
                group.create_variable(variable, ("chain", "draw"), np.float64, chains[:, :, columns[0]])
                continue
            dimension = f"{variable}_label"
            group.dimensions[dimension] = len(columns)
            texts = np.array([label for label, _ in elements], dtype=object)
            group.create_variable(dimension, (dimension,), h5py.string_dtype(), texts)
            group.create_variable(variable, ("chain", "draw", dimension), np.float64, chains[:, :, columns])
        if analysis.group_draws is not None:
            _add_groups(file.create_group("groups"), analysis.model, analysis.group_draws)
    return sink.getvalue()


def _add_groups(target: Any, model: Model, draws: Floats) -> None:
    """Add draws of the parameters of each group, shape (n_draws, n_groups, n_parameters), as one chain."""
    import h5py

    keys = np.array(model.group_keys, dtype=object)
    target.dimensions = {"chain": 1, "draw": len(draws), "group": len(keys)}
    target.create_variable("group", ("group",), h5py.string_dtype(), keys)
    for k, name in enumerate(model.group_parameters):
        target.create_variable(name, ("chain", "draw", "group"), np.float64, draws[None, :, :, k])


def by_chain(analysis: Analysis) -> Floats:
    """Return the samples by chain, shape (n_chains, n_draws, n_parameters).

    Markov chains are kept whole, so that diagnostics can be computed; they may hold more samples than were requested.
    Independent samples become four equal chains if their number allows this, otherwise one chain.
    """
    if analysis.chains is not None:
        return analysis.chains
    samples = analysis.samples
    equal = len(samples) % _N_CHAINS == 0 and len(samples) >= _N_CHAINS * _MIN_DRAWS
    return samples.reshape(_N_CHAINS if equal else 1, -1, samples.shape[1])


def elements_by_variable(parameters: Sequence[str]) -> dict[str, list[tuple[str | None, int]]]:
    """Return, for each variable, the label and the column index of each element; a scalar has the label None.

    The label of the parameter ``theta[a]`` is ``a``. A parameter that is both a number and a vector is a ValueError.
    """
    by_variable: dict[str, list[tuple[str | None, int]]] = {}
    for column, name in enumerate(parameters):
        match = _ELEMENT.fullmatch(name)
        variable, label = (match[1], match[2]) if match else (name, None)
        elements = by_variable.setdefault(variable, [])
        if elements and (label is None or elements[0][0] is None):
            raise ValueError(f"the parameter {variable!r} is both a number and a vector")
        elements.append((label, column))
    return by_variable
