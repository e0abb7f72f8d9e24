"""The spec and the model that a release document states; both are built once and kept with the document."""

from __future__ import annotations

from typing import cast

from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.files import chosen_in, found_keys
from dpbayes_cli.core.model import Model
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.spec.stored_spec import stored_spec

_SPEC, _MODEL = "built_spec", "built_model"


def spec_of(document: ReleaseDocument) -> ReleaseSpec:
    """Return the spec that a document states; raise ``SpecError`` if it is not valid."""
    attributes = vars(document)
    if _SPEC not in attributes:
        attributes[_SPEC] = stored_spec(document.spec)
    return cast(ReleaseSpec, attributes[_SPEC])


def model_of(document: ReleaseDocument) -> Model:
    """Return the model of a release, with what was found privately, if anything was; see ``spec_of``."""
    attributes = vars(document)
    if _MODEL not in attributes:
        attributes[_MODEL] = spec_of(document).build_model(chosen_in(document), found_keys(document))
    return cast(Model, attributes[_MODEL])


def remember(document: ReleaseDocument, spec: ReleaseSpec, model: Model) -> ReleaseDocument:
    """Keep a spec and a model, which are built already, with the document that states them; return the document."""
    vars(document).update({_SPEC: spec, _MODEL: model})
    return document
