"""Read a bundle: its document, and the spec, the model and the mechanism that the document states."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dpbayes_cli.base.canonical import canonical_json, digest_of_blocks
from dpbayes_cli.base.cell_grammar import CONTROL_CHARACTERS
from dpbayes_cli.base.errors import DpbayesError, OutputError, VerificationError
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.document import ReleaseDocument, parse_document
from dpbayes_cli.bundle.files import RELEASE, analysis_of_draw, chosen_in, found_keys
from dpbayes_cli.bundle.stated_request import model_of, spec_of
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.model_sections import StatesOverTime, section_of
from dpbayes_cli.core.registry import INSTALL_HINT, mechanism_names, mechanism_type, model_names
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.spec.stored_spec import in_full

MAX_TEXT_BYTES = 256 << 20  # the largest size of any file of a bundle except its samples
_BLOCK_BYTES = 1 << 20
_NO_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO}
_ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*\\(?:u(?:00[0189]|007f|202[89a-e]|206[6-9])|[bfr])", re.IGNORECASE)
"""The JSON escapes of the characters in ``CONTROL_CHARACTERS``. Escapes of a line feed or a tab are allowed."""


@dataclass(frozen=True)
class Bundle:
    """A release document with the spec, the model and the mechanism that it states."""

    document: ReleaseDocument  # the release
    spec: ReleaseSpec  # the release request, with all defaults
    model: Model  # the model of the spec, with what was found privately, if anything was
    mechanism: Mechanism  # the mechanism of the release


def read_bundle(bundle: Path) -> Bundle:
    """Read a bundle.

    Raises:
        OutputError: there is no bundle at this path.
        VerificationError: release.json holds no valid release document or spec, or the document contradicts the spec.
    """
    return bundle_of(read_document(bundle))


def bundle_of(document: ReleaseDocument) -> Bundle:
    """Build the spec, the model and the mechanism that a document states; see ``read_bundle`` for errors."""
    try:
        spec = spec_of(document)
        model, mechanism = model_of(document), mechanism_type(spec.mechanism)()
        points = () if isinstance(document.points, msgspec.UnsetType) else document.points
        expected_names = mechanism.released_names(model, spec.policy, points)
    except (DpbayesError, TypeError, ValueError) as error:
        known = document.model in model_names() and document.mechanism in mechanism_names()
        hint = "" if known else INSTALL_HINT
        raise VerificationError("release.json holds no valid spec", findings=[str(error)], hint=hint) from None
    parameters, over_time = list(model.parameters), section_of(model.sections(), StatesOverTime)
    has_log_weight = not isinstance(document.log_weight, msgspec.UnsetType)
    asks_log_weight = bool(document.draws) and spec.options.value("log_weight_epsilon") is not None
    holds = {
        "the private choice that its spec asks for": (spec.private_choice is None) == (chosen_in(document) is None),
        "its spec with all defaults": canonical_json(_without_nulls(spec.stated_in_full))
        == canonical_json(_without_nulls(in_full(document.spec, spec))),
        "the statistics that its spec asks for": _has_statistics(document, spec, expected_names),
        "a posterior of exactly the parameters that its spec names": list(document.posterior) == parameters
        and document.width.keys() <= document.posterior.keys(),
        "a value in each draw for each parameter of its spec": all(
            len(draw) == len(parameters) for draw in document.draws
        ),
        "a probability of each state for each sequence and step": _has_states(document, over_time),
        "the hidden states of each of its draws": _has_drawn_states(document, over_time),
        "a log weight, or holds one although its spec asks for none": has_log_weight == asks_log_weight,
    }
    for content, is_held in holds.items():
        if not is_held:
            raise VerificationError(f"release.json does not hold {content}")
    return Bundle(document, spec, model, mechanism)


def analysis_of(bundle: Bundle) -> Analysis:
    """Repeat the analysis of a release, with the same samples."""
    document = bundle.document
    return analysis_of_draw(bundle.spec, bundle.model, bundle.mechanism, document.release_id, document)


def _has_statistics(document: ReleaseDocument, spec: ReleaseSpec, expected_names: Sequence[str]) -> bool:
    """Return whether a document holds the expected statistics (none if it holds draws).

    It must also hold the number of records if this number is public, and must not hold a private number. If several
    records of a unit count, a document under replace-one neighbors may leave the number out.
    """
    names = [statistic.name for statistic in document.statistics]
    replaces_one = spec.policy.neighbors is Neighbors.REPLACE_ONE
    if (document.n_records is not None) != replaces_one and not (replaces_one and spec.policy.contributions > 1):
        return False
    if not isinstance(document.groups, msgspec.UnsetType):
        return (
            spec.by is not None
            and not names
            and len(document.groups.values) == len(expected_names)
            and (found_keys(document) is not None) == spec.finds_keys
        )
    if document.draws and document.noise is None:
        return not names
    return bool(names) and names == list(expected_names)


def _has_states(document: ReleaseDocument, over_time: StatesOverTime | None) -> bool:
    """Return whether a document holds state probabilities in the shape that its model requires, or holds none."""
    if isinstance(document.states, msgspec.UnsetType):
        return True
    if over_time is None:
        return False
    n_sequences, n_steps, n_states = over_time.shape
    return len(document.states) == n_sequences and all(
        len(sequence) == n_steps and all(len(step) == n_states for step in sequence) for sequence in document.states
    )


def _has_drawn_states(document: ReleaseDocument, over_time: StatesOverTime | None) -> bool:
    """Return whether each draw has a valid state at each sequence and step, or none if the model has no states."""
    states = document.released_states
    if over_time is None or not document.draws:
        return not states
    return len(states) == len(document.draws) and all(
        len(draw) == over_time.n_sites and set(draw) <= set(range(over_time.states)) for draw in states
    )


def _without_nulls(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a spec without its null values, because earlier versions left some of them out."""
    return {
        key: {name: value for name, value in part.items() if value is not None} if isinstance(part, dict) else part
        for key, part in spec.items()
    }


def read_document(bundle: Path) -> ReleaseDocument:
    """Read the release document of a bundle; see ``read_bundle`` for errors."""
    content = read_file(bundle / RELEASE)
    if content is None:
        hint = "name the directory that the release printed"
        if (bundle / "posterior.json").exists():
            hint = f"dpbayes infer wrote this directory; {hint}"
        raise OutputError(f"there is no bundle at {str(bundle)!r}", hint=hint)
    document = parse_document(content)
    text = content.decode("utf-8", "replace")
    if CONTROL_CHARACTERS.search(text.replace("\n", "")) or _ESCAPED.search(text):
        raise VerificationError("release.json holds control characters, which dpbayes never writes")
    return document


def open_regular(path: Path) -> int | None:
    """Open a regular file for reading, following no link; return its descriptor, or None if there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        raise OutputError(f"cannot read {path.name!r}: {os.strerror(error.errno or 0)}") from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def file_digest(path: Path, max_bytes: int) -> str | None:
    """Return the digest of a regular file, following no link; None if there is no such file.

    A file of more than ``max_bytes`` is a ``VerificationError``; one that cannot be opened is an ``OutputError``.
    """
    descriptor = open_regular(path)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size > max_bytes:
            raise VerificationError(f"{path.name} has {size} bytes; the largest possible size is {max_bytes}")
        blocks = (file.read(min(_BLOCK_BYTES, size - start)) for start in range(0, size, _BLOCK_BYTES))
        return digest_of_blocks("file", size, blocks)


def read_file(path: Path) -> bytes | None:
    """Return the content of a regular file of at most ``MAX_TEXT_BYTES``; see ``file_digest``."""
    descriptor = open_regular(path)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size > MAX_TEXT_BYTES:
            raise VerificationError(f"{path.name!r} is larger than {MAX_TEXT_BYTES >> 20} MiB")
        return file.read(MAX_TEXT_BYTES)
