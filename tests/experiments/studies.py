"""Small studies for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpbayes_cli.experiments.point import GridPoint
from dpbayes_cli.experiments.results import Result, Results
from dpbayes_cli.experiments.runner import compute, publish, run_study
from dpbayes_cli.experiments.studies import build_study
from dpbayes_cli.experiments.study import Study

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


def grid(document: dict[str, Any]) -> list[GridPoint]:
    """Return the points of a study."""
    return build_study(document).grid()


def results_of(study: Study) -> Results:
    """Compute a study without a directory."""
    found = [(point, compute(study, point)) for point in study.grid()]
    return Results(Result(point, done.measures, done.trials) for point, done in found)


def run(study: Study, out: Path, jobs: int = 1) -> list[GridPoint]:
    """Run a study and publish it; return the points that were computed."""
    computed: list[GridPoint] = []
    publish(out, study, run_study(study, out, jobs, lambda point, *_: computed.append(point)))
    return computed
