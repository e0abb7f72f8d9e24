"""Posterior samples as ArviZ reads them: a netCDF file with a group ``posterior`` over chains and draws.

The file is written by xarray, to which ArviZ's own writer leaves it too; importing ArviZ itself takes seconds and
brings plotting along. Nothing in it depends on the clock, so that a bundle that is written again has the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpbayes_cli import __version__

if TYPE_CHECKING:
    from dpbayes_cli.bundle.analysis import Analysis
    from dpbayes_cli.numeric import Floats

_ELEMENT = re.compile(r"([^\[\]]+)\[(.*)\]", re.DOTALL)
_CHAINS = 4
_LEAST_DRAWS = 4
"""A chain of fewer draws says nothing about convergence."""


def write_netcdf(path: Path, analysis: Analysis, labels: Mapping[str, str]) -> None:
    """Write the samples for ``arviz.from_netcdf``.

    Parameters like ``theta[a]`` and ``theta[b]`` become one variable ``theta`` with a coordinate ``theta_label``.

    Args:
        path: a new file.
        analysis: the posterior.
        labels: attributes of the group.

    Raises:
        OSError: it cannot be written.
    """
    import numpy as np
    import xarray as xr

    chains = by_chain(analysis)
    coordinates: dict[str, object] = {"chain": np.arange(chains.shape[0]), "draw": np.arange(chains.shape[1])}
    variables: dict[str, object] = {}
    for variable, elements in gathered(analysis.parameters).items():
        columns = [k for _, k in elements]
        if elements[0][0] is None:
            variables[variable] = (("chain", "draw"), chains[:, :, columns[0]])
            continue
        dimension = f"{variable}_label"
        variables[variable] = (("chain", "draw", dimension), chains[:, :, columns])
        coordinates[dimension] = [label or "" for label, _ in elements]
    attributes = {**labels, "inference_library": "dpbayes", "inference_library_version": __version__}
    data = xr.Dataset(variables, coordinates, attributes)
    data.to_netcdf(path, mode="w", group="posterior", engine="h5netcdf")


def by_chain(analysis: Analysis) -> Floats:
    """Return the samples by chain, shape (n_chains, n_draws, n_parameters).

    Markov chains are kept whole, so that their diagnostics can be computed again: they may be longer than the number of
    samples asked for. Independent samples are cut into four equal chains where their number allows it, and are one
    chain elsewhere.
    """
    if analysis.chains is not None:
        return analysis.chains
    samples = analysis.samples
    equal = len(samples) % _CHAINS == 0 and len(samples) >= _CHAINS * _LEAST_DRAWS
    return samples.reshape(_CHAINS if equal else 1, -1, samples.shape[1])


def gathered(parameters: Sequence[str]) -> dict[str, list[tuple[str | None, int]]]:
    """Return, for each variable, the labels and places of its elements; a scalar's only label is None.

    Args:
        parameters: names such as ``mean`` or ``theta[a]``; the label may hold any character.
    """
    found: dict[str, list[tuple[str | None, int]]] = {}
    for place, name in enumerate(parameters):
        match = _ELEMENT.fullmatch(name)
        variable, label = (match[1], match[2]) if match else (name, None)
        elements = found.setdefault(variable, [])
        if elements and (label is None or elements[0][0] is None):
            raise ValueError(f"the parameter {variable!r} is both a number and a vector")
        elements.append((label, place))
    return found
