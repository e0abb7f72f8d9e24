"""Posterior samples for ArviZ: a netCDF file with a group ``posterior`` over chains and draws.

h5netcdf writes the file, because ArviZ takes seconds to import. The file is built in memory, because HDF5 does not
recover from a full disk, and because a bundle that is written again must have the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dpbayes_cli import __version__
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.privacy.lazy_numpy import np

_ELEMENT = re.compile(r"([^\[\]]+)\[(.*)\]", re.DOTALL)
_N_CHAINS = 4
_MIN_DRAWS = 4
"""The smallest number of draws per chain for which convergence diagnostics can be computed."""


def netcdf_bytes(analysis: Analysis, labels: Mapping[str, str]) -> bytes:
    """Return the bytes of a file for ``arviz.from_netcdf``; ``labels`` become attributes of the group ``posterior``.

    Parameters like ``theta[a]`` and ``theta[b]`` become one variable ``theta`` with a coordinate ``theta_label``.
    """
    import io

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
    return sink.getvalue()


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
