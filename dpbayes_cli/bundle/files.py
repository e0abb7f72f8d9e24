"""The files of a bundle as functions of the release document."""

from __future__ import annotations

from typing import Any

import msgspec

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.csv_escape import csv_text
from dpbayes_cli.base.errors import DpbayesError, SpecError, VerificationError
from dpbayes_cli.bundle.analysis import Analysis, analyse, describe_draws
from dpbayes_cli.bundle.document import Noise, ReleaseDocument, SealedDraw
from dpbayes_cli.bundle.states_file import fits, stated_states, states_csv
from dpbayes_cli.core.contracts import Model, Payload
from dpbayes_cli.core.model_sections import ModelSection, NetworkTables, StatesOverTime, section_of
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noise import NoiseLaw, parse_noise
from dpbayes_cli.privacy.part_noise import noise_of_scales
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec

RELEASE, STATISTICS, TABLES, REPORT = "release.json", "statistics.csv", "tables.csv", "report.md"
STATES = "states.csv"


def spec_of(document: ReleaseDocument) -> ReleaseSpec:
    """Return the spec that a release answered.

    Raises:
        VerificationError: the document does not hold one, or other statistics or parameters than the spec asks for.
    """
    try:
        spec = build_spec(document.spec)
        model = spec.build_model(bounds_of(document))
        asked = mechanism_type(spec.mechanism)().statistic(model, spec.policy).names
    except (DpbayesError, TypeError, ValueError) as error:
        raise VerificationError("release.json holds no valid spec", findings=[str(error)]) from None
    names = [statistic.name for statistic in document.statistics]
    public = document.n_records is not None
    if spec.policy.contributions == 1 or spec.policy.neighbors is Neighbors.ADD_REMOVE:
        public = spec.policy.neighbors is Neighbors.REPLACE_ONE
    if (spec.bounds is None) != (bounds_of(document) is None):
        raise VerificationError("release.json does not hold the bounds that its spec asks for")
    if canonical_json(_stated(spec.stated_in_full)) != canonical_json(_stated(_with_later(document.spec))):
        raise VerificationError("release.json does not hold its spec in full")
    drawn = bool(document.draws) and document.noise is None and not names
    if not (drawn or (names and names == list(asked))) or public != (document.n_records is not None):
        raise VerificationError("release.json does not hold the statistics of its spec")
    parameters = list(model.parameters)
    if list(document.posterior) != parameters or (document.width and list(document.width) != parameters):
        raise VerificationError("release.json does not hold the posterior of its spec's parameters")
    if any(len(draw) != len(parameters) for draw in document.draws):
        raise VerificationError("release.json does not hold draws of its spec's parameters")
    if not isinstance(document.states, msgspec.UnsetType) and not fits(document.states, model.sections()):
        raise VerificationError("release.json does not hold the states of its spec's sequences")
    if not _has_states(document, model):
        raise VerificationError("release.json does not hold the states of its draws")
    weighed = not isinstance(document.log_weight, msgspec.UnsetType)
    if weighed != (bool(document.draws) and spec.sampling.log_weight_epsilon is not None):
        raise VerificationError("release.json does not hold the log weight that its spec asks for, or one unasked")
    return spec


def _has_states(document: ReleaseDocument, model: Model) -> bool:
    """Return whether a document holds the states of its draws, one a site, where the model has any, else none."""
    states, over_time = document.released_states, section_of(model.sections(), StatesOverTime)
    if over_time is None or not document.draws:
        return not states
    return len(states) == len(document.draws) and all(
        len(each) == over_time.n_sites and set(each) <= set(range(over_time.states)) for each in states
    )


def sections_of(document: ReleaseDocument) -> tuple[ModelSection, ...]:
    """Return what the parameters of a release are together; see ``Model.sections``."""
    return spec_of(document).build_model(bounds_of(document)).sections()


_LATER = {
    ("sampling", "selection"): "exponential",
    ("sampling", "calibration"): "gdp",
    ("sampling", "sampler"): "langevin",
    ("sampling", "gamma"): 0.01,
    ("sampling", "kernel"): "gibbs",
    ("inference", "sweeps"): 120,
    ("inference", "sampler"): "blocked",
}
"""Options that bundles of earlier versions do not hold, with what was meant before they existed."""


def _with_later(stated: dict[str, Any]) -> dict[str, Any]:
    """Return a stored spec with the options that its time did not know."""
    whole = {key: dict(part) if isinstance(part, dict) else part for key, part in stated.items()}
    for (section, key), value in _LATER.items():
        if isinstance(whole.get(section), dict):
            whole[section].setdefault(key, value)
    return whole


def _stated(whole: dict[str, Any]) -> dict[str, Any]:
    """Return a spec without what it leaves open, of which earlier versions had less."""
    return {
        key: {name: value for name, value in part.items() if value is not None} if isinstance(part, dict) else part
        for key, part in whole.items()
    }


def released_of(document: ReleaseDocument | SealedDraw) -> Payload:
    """Return the privatized statistics of a release.

    Raises:
        SpecError: it released posterior draws or estimates.
    """
    if document.noise is None:
        raise SpecError(
            "the bundle holds draws that were paid for, and no statistic from which more could be drawn",
            hint="each draw was paid for: ask for more with dpbayes release --draws K, at their own price",
        )
    return Payload(
        tuple(statistic.name for statistic in document.statistics),
        tuple(statistic.value for statistic in document.statistics),
        _noise_of(document.noise, [statistic.noise_scale for statistic in document.statistics]),
        bounds_of(document),
    )


def _noise_of(stated: Noise, scales: list[float]) -> NoiseLaw:
    one = None if stated.scale is None else parse_noise(msgspec.to_builtins(stated))
    return noise_of_scales(one, stated.law, scales)


def bounds_of(document: ReleaseDocument | SealedDraw) -> tuple[float, float] | None:
    """Return the bounds that were found privately, None where the question states its own."""
    bounds = document.bounds
    return None if isinstance(bounds, msgspec.UnsetType) else (bounds.lower, bounds.upper)


def sampling_seed(release_id: str, released: Payload) -> int:
    """Return the seed of a release's posterior samples: a digest of what is public already."""
    content = canonical_json([release_id, released.described()])
    return int(digest("sampling seed", content)[:32], 16)


def analysis_of(document: ReleaseDocument) -> Analysis:
    """Repeat the analysis of a release, sample for sample."""
    return analysis_of_draw(spec_of(document), document.release_id, document)


def analysis_of_draw(spec: ReleaseSpec, release_id: str, draw: ReleaseDocument | SealedDraw) -> Analysis:
    """Analyse what was released, as a function of it and of the question."""
    if draw.draws:
        return describe_draws(spec, draw.draws, draw.released_states)
    released = released_of(draw)
    return analyse(spec, released, draw.n_records, sampling_seed(release_id, released))


def tables_csv(document: ReleaseDocument, analysis: Analysis) -> bytes | None:
    """Return the bytes of ``tables.csv``: for each cell of a network what was released and its posterior.

    None where the model is no network, or posterior draws were released, which the samples hold.
    """
    tables = section_of(sections_of(document), NetworkTables)
    if tables is None or analysis.counts is None:
        return None
    lines: list[list[Any]] = [["variable", "value", "given", "count", "mean", "sd", "q05", "q50", "q95"]]
    posterior = document.posterior.values()
    cells = zip(tables.network.cells(), analysis.counts.tolist(), posterior, strict=True)
    for (variable, value, given), count, p in cells:
        stated = ",".join(f"{name}={level}" for name, level in given)
        lines.append([variable, value, stated, repr(count), *map(repr, (p.mean, p.sd, p.q05, p.q50, p.q95))])
    return csv_text(lines).encode("utf-8")


def inferred_states_csv(spec: ReleaseSpec, analysis: Analysis) -> bytes | None:
    """Return the bytes of ``states.csv`` for an analysis of its own; None where the model has no states."""
    over_time = section_of(spec.build_model().sections(), StatesOverTime)
    if over_time is None or analysis.states is None:
        return None
    return states_csv(over_time, stated_states(analysis.states))


def statistics_csv(document: ReleaseDocument) -> bytes:
    """Return the bytes of ``statistics.csv``: name, value, noise_scale."""
    rows = [[statistic.name, statistic.value, repr(statistic.noise_scale)] for statistic in document.statistics]
    return csv_text([["name", "value", "noise_scale"], *rows]).encode("utf-8")
