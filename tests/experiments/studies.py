"""Small studies for the tests."""

from __future__ import annotations

from typing import Any

from dpbayes_cli.experiments.calibration.cell import CalibrationCell, cells
from dpbayes_cli.experiments.calibration.study import build_calibration

SMALL: dict[str, Any] = {
    "name": "small",
    "seed": "7",
    "trials": "12",
    "draws": "19",
    "n": ["10", "40"],
    "epsilon": ["0.1"],
    "methods": ["noise-aware", "naive", "ops", "non-private"],
    "ops": {"draws": "20", "temper": "joint"},
    "cases": {
        "coin": {"model": "beta-bernoulli", "prior": {"alpha": "10", "beta": "10"}, "support": ["0.1", "0.9"]},
        "dice": {
            "model": "dirichlet-categorical",
            "domain": {"categories": ["a", "b", "c"]},
            "prior": {"concentration": "5"},
            "parameter": "theta[b]",
        },
    },
}


def changed(*path_and_value: Any) -> dict[str, Any]:
    """Return the small study with one value changed, added, or (None) left out."""
    *path, value = path_and_value

    def copied(part: Any) -> Any:
        return {key: copied(inner) for key, inner in part.items()} if isinstance(part, dict) else part

    document: dict[str, Any] = copied(SMALL)
    inside = document
    for key in path[:-1]:
        inside = inside[key]
    if value is None:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return document


def grid(document: dict[str, Any]) -> list[CalibrationCell]:
    """Return the cells of a calibration study."""
    return cells(build_calibration(document))
