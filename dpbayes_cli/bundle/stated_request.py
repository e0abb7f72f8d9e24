"""The spec and the model that a release document states, made once for each document."""

from __future__ import annotations

from typing import cast

from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.files import bounds_of
from dpbayes_cli.core.model import Model
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.spec.stored_spec import stored_spec

_SPEC, _MODEL = "made_spec", "made_model"


def spec_of(document: ReleaseDocument) -> ReleaseSpec:
    """Return the spec that a document states.

    Raises:
        SpecError: the document holds no valid spec.
    """
    made = vars(document)
    if _SPEC not in made:
        made[_SPEC] = stored_spec(document.spec)
    return cast(ReleaseSpec, made[_SPEC])


def model_of(document: ReleaseDocument) -> Model:
    """Return the model of a release, with the privately found bounds if there are any.

    Raises:
        SpecError: the document holds no valid spec.
    """
    made = vars(document)
    if _MODEL not in made:
        made[_MODEL] = spec_of(document).build_model(bounds_of(document))
    return cast(Model, made[_MODEL])


def remember(document: ReleaseDocument, spec: ReleaseSpec, model: Model) -> ReleaseDocument:
    """Return the document, which keeps its spec and its model from now on."""
    vars(document).update({_SPEC: spec, _MODEL: model})
    return document
