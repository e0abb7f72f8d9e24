"""The files of a bundle: their names, and the content of the CSV files, computed from public values alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.csv_escape import csv_text
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.bundle.analysis import Analysis, analyze, describe_draws
from dpbayes_cli.bundle.document import ReleaseDocument, SealedDraw
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.model_sections import NetworkTables, StatesOverTime, section_of
from dpbayes_cli.core.private_choice import Chosen
from dpbayes_cli.core.released import Payload
from dpbayes_cli.core.stored_noise import parse_noise
from dpbayes_cli.spec.release_spec import ReleaseSpec

RELEASE, STATISTICS, TABLES, REPORT = "release.json", "statistics.csv", "tables.csv", "report.md"
STATES, GROUPS, LARGER_GROUPS = "states.csv", "groups.parquet", "larger_groups.parquet"
GROUP_SAMPLES = "group_samples.parquet"
GroupKey = str | Sequence[str]
"""The key of a group or, if it is within a larger group, both keys."""
States = list[list[list[float]]]  # the probabilities of hidden states, indexed by sequence, step and state


def payload_of(document: ReleaseDocument | SealedDraw) -> Payload:
    """Return the privatized statistics of a release; a release of draws or estimates is a ``SpecError``."""
    if document.noise is None:
        raise SpecError(
            "the bundle holds released draws, not statistics that a posterior can be inferred from",
            hint="to pay for more draws: dpbayes release --draws K",
        )
    groups = document.groups
    if not isinstance(groups, msgspec.UnsetType):
        noise = parse_noise(msgspec.to_builtins(document.noise), [groups.noise_scale])
        return Payload(tuple(groups.components), tuple(groups.values), noise, keys=found_keys(document))
    points = document.points
    return Payload(
        tuple(statistic.name for statistic in document.statistics),
        tuple(statistic.value for statistic in document.statistics),
        parse_noise(msgspec.to_builtins(document.noise), [statistic.noise_scale for statistic in document.statistics]),
        chosen_in(document),
        points=() if isinstance(points, msgspec.UnsetType) else tuple(map(tuple, points)),
    )


def chosen_in(document: ReleaseDocument | SealedDraw) -> Chosen | None:
    """Return the bounds or the parents of variables that were found privately; None if the request states them.

    Raises:
        SpecError: the document holds both.
    """
    bounds, structure = document.bounds, document.structure
    if isinstance(structure, msgspec.UnsetType):
        return None if isinstance(bounds, msgspec.UnsetType) else (bounds.lower, bounds.upper)
    if not isinstance(bounds, msgspec.UnsetType):
        raise SpecError("there are both bounds and a structure", where="structure", hint="leave one of them out")
    return tuple((name, tuple(parents)) for name, parents in structure.items())


def found_keys(document: ReleaseDocument | SealedDraw) -> tuple[str, ...] | None:
    """Return the keys of groups that were found in the data and published; None if the request lists the keys."""
    keys = None if isinstance(document.groups, msgspec.UnsetType) else document.groups.keys
    return None if isinstance(keys, msgspec.UnsetType | None) else tuple(keys)


def keys_of(document: ReleaseDocument | SealedDraw, spec: Mapping[str, Any]) -> Sequence[GroupKey]:
    """Return the keys of the groups of a release, given its whole request; empty if there are no groups."""
    published = found_keys(document)
    return (spec.get("by") or {}).get("values", ()) if published is None else published


def sampling_seed(release_id: str, released: Payload) -> int:
    """Return the seed of a release's posterior samples: a digest of public values."""
    described = released.described() if len(released.names) == len(released.values) else list(released.values)
    content = canonical_json([release_id, described, *([] if released.keys is None else [list(released.keys)])])
    return int(digest("sampling seed", content)[:32], 16)


def stated_sampling_seed(derived: int, stated: int) -> int:
    """Return the seed of samples for a stated seed: it differs between releases, whose samples are then independent."""
    return int(digest("stated sampling seed", canonical_json([str(derived), str(stated)]))[:32], 16)


def analysis_of_draw(
    spec: ReleaseSpec, model: Model, mechanism: Mechanism, release_id: str, draw: ReleaseDocument | SealedDraw
) -> Analysis:
    """Return the posterior of a draw, computed from the draw and the release request alone."""
    if draw.draws:
        return describe_draws(model, draw.draws, draw.released_states, estimates=mechanism.estimates)
    released = payload_of(draw)
    return analyze(spec, model, mechanism, released, draw.n_records, sampling_seed(release_id, released))


def tables_csv(document: ReleaseDocument, analysis: Analysis) -> bytes | None:
    """Return the bytes of ``tables.csv``, one line per cell of a network; None without a network or without counts."""
    tables = section_of(analysis.model.sections(), NetworkTables)
    if tables is None or analysis.counts is None:
        return None
    lines: list[list[Any]] = [["variable", "value", "given", "count", "mean", "sd", "q05", "q50", "q95"]]
    cells = zip(tables.network.cells(), analysis.counts.tolist(), document.posterior.values(), strict=True)
    for (variable, value, parents), count, p in cells:
        condition = ",".join(f"{name}={level}" for name, level in parents)
        lines.append([variable, value, condition, *map(repr, (count, p.mean, p.sd, p.q05, p.q50, p.q95))])
    return csv_text(lines).encode("utf-8")


def states_csv(model: Model, states: States | None) -> bytes | None:
    """Return the bytes of ``states.csv``: the most likely state and all rounded probabilities, by sequence and step."""
    over_time = section_of(model.sections(), StatesOverTime)
    if over_time is None or states is None:
        return None
    sequences, steps = (axis.levels for axis in over_time.axes)
    lines = [["sequence", "step", "state", *(f"p{name}" for name in over_time.state_names)]]
    for sequence, by_step in zip(sequences, states, strict=True):
        for step, p in zip(steps, by_step, strict=True):
            lines.append([sequence, step, over_time.state_names[p.index(max(p))], *map(repr, p)])
    return csv_text(lines).encode("utf-8")


def rounded_states(states: Floats | None) -> States | None:
    """Return probabilities of hidden states as a document holds them: rounded to 6 significant digits, from 0 to 1."""
    if states is None:
        return None
    return [[[min(max(float(f"{p:.6g}"), 0.0), 1.0) for p in step] for step in each] for each in states.tolist()]


def statistics_csv(document: ReleaseDocument) -> bytes:
    """Return the bytes of ``statistics.csv``, with the columns name, value and noise_scale.

    If there are groups, its columns are the key of a group and the group's integers.
    """
    groups = document.groups
    if not isinstance(groups, msgspec.UnsetType):
        column, size = document.spec["by"]["column"], len(groups.components)
        values = (groups.values[i : i + size] for i in range(0, len(groups.values), size))
        lines = [[*_list(key), *each] for key, each in zip(keys_of(document, document.spec), values, strict=True)]
        return csv_text([[*_list(column), *groups.components], *lines]).encode("utf-8")
    rows = [[statistic.name, statistic.value, repr(statistic.noise_scale)] for statistic in document.statistics]
    return csv_text([["name", "value", "noise_scale"], *rows]).encode("utf-8")


def _list(names: GroupKey) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
