"""Infer a posterior again from a bundle, with another prior or other options, at no privacy cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpbayes_cli.bundle.analysis import Analysis, analyze
from dpbayes_cli.bundle.files import chosen_in, found_keys, payload_of, sampling_seed, stated_sampling_seed
from dpbayes_cli.bundle.read import Bundle
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec
from dpbayes_cli.spec.stored_spec import with_former_inference


@dataclass(frozen=True)
class InferredAgain:
    """A posterior, and the spec and the stated or derived seed from which it was inferred."""

    spec: ReleaseSpec
    analysis: Analysis
    seed: int


def infer_again(contents: Bundle, changes: dict[str, Any], seed: int | None = None, *, more: int = 0) -> InferredAgain:
    """Return the posterior of a release under changed sections of its spec; a new prior replaces the old one entirely.

    Args:
        contents: the release.
        changes: the changed parts of the sections ``prior`` and ``inference`` of the spec.
        seed: the seed of the samples; if None, it is derived from the release. Equal seeds give independent samples of
            different releases, so that their posteriors may be compared sample by sample.
        more: how many times Markov chains that are too short are continued.

    Raises:
        SpecError: a change is wrong, or the release holds draws, whose prior is part of the request.
    """
    document, spec, model = contents.document, contents.spec, contents.model
    released = payload_of(document)
    if changes:
        before = with_former_inference(document.spec)
        inference = {**before.get("inference", {}), **changes.get("inference", {})}
        spec = build_spec({**before, **changes, "inference": inference})
    if "prior" in changes or spec.by is not None:  # larger groups have means only if groups learn from each other
        model = spec.build_model(chosen_in(document), found_keys(document))
    derived = sampling_seed(document.release_id, released)
    stated = derived if seed is None else seed
    used = derived if stated == derived else stated_sampling_seed(derived, stated)
    analysis = analyze(spec, model, contents.mechanism, released, document.n_records, used, more=more)
    return InferredAgain(spec, analysis, stated)
