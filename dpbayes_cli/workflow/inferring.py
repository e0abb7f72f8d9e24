"""Infer a posterior again from a bundle, with another prior or other options, at no privacy cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.bundle.analysis import Analysis, analyze
from dpbayes_cli.bundle.files import chosen_in, found_keys, payload_of, sampling_seed, stated_sampling_seed
from dpbayes_cli.bundle.read import Bundle, analysis_of, read_bundle
from dpbayes_cli.core.coefficient_law import HasCoefficients
from dpbayes_cli.core.section import require_type
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
        changes: the changed parts of the sections ``prior`` and ``inference`` of the spec; the prior may be the
            posterior of another release, see ``prior_from``.
        seed: the seed of the samples; if None, it is derived from the release. Equal seeds give independent samples of
            different releases, so that their posteriors may be compared sample by sample.
        more: how many times Markov chains that are too short are continued.

    Raises:
        SpecError: a change is wrong, or the release holds draws, whose prior is part of the request.
    """
    document, spec, model = contents.document, contents.spec, contents.model
    released = payload_of(document)
    if "prior" in changes and "from" in changes["prior"]:
        changes = {**changes, "prior": prior_from(changes["prior"], contents)}
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


def prior_from(stated: Mapping[str, Any], contents: Bundle) -> dict[str, Any]:
    """Return the prior that is the posterior of another release: a normal law with its means and covariance.

    Args:
        stated: ``from``, the directory of the other bundle, and ``other_people: true``.
        contents: the release whose prior it becomes.

    Raises:
        SpecError: it is not said that the other release is of other people, or the other release is not one of the
            same regression, or has no posterior.
        OutputError, VerificationError: see ``read_bundle``.
    """
    if str(stated.get("other_people")).lower() not in {"true", "yes"} or len(stated) > 2:
        raise SpecError(
            "the posterior of another release may be a prior only if the two releases are of different people: the "
            "same records would count twice",
            where="prior.from",
            hint="if they are, state --prior from=BUNDLE,other_people=true, and no other key of the prior",
        )
    other, model = read_bundle(Path(stated["from"])), contents.model
    same = isinstance(model, HasCoefficients) and model.accepts_posteriors and type(other.model) is type(model)
    if not same or other.model.columns != model.columns or other.model.parameters != model.parameters:
        raise SpecError(
            "the other release is not of the same regression: the model, the columns and their bounds must be equal",
            where="prior.from",
        )
    if other.document.draws or other.document.release_id == contents.document.release_id:
        raise SpecError(
            "the other bundle is the same release, or holds draws from a tempered posterior, not a posterior",
            where="prior.from",
        )
    if other.document.account == contents.document.account:
        raise SpecError(
            f"both releases are of the account {contents.document.account!r}, so they are of the same people",
            where="prior.from",
            hint="name a release of other people",
        )
    samples, names = analysis_of(other).samples, require_type(other.model, HasCoefficients).design.names
    return {
        "mean": dict(zip(names, samples.mean(axis=0).tolist(), strict=True)),
        "scale": dict(zip(names, samples.std(axis=0).tolist(), strict=True)),
        "correlations": np.corrcoef(samples.T).reshape(len(names), -1).tolist(),
        "origin": other.document.release_id,
    }
