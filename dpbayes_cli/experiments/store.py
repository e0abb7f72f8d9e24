"""The directory of a study: one file a finished point, written whole or not at all, found again by its digest.

The file of a point is named by the digest of everything that its numbers depend on. So a killed run is taken up where
it was, a changed study recomputes the points that changed and no others, and what an earlier form of the study computed
stays where it was. Another study's directory is refused.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from dpbayes_cli.base.canonical import canonical_json
from dpbayes_cli.base.errors import DpbayesError, OutputError
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.point import GridPoint
from dpbayes_cli.experiments.study import Study
from dpbayes_cli.spec.yaml_reader import read_spec_file

STUDY, CELLS = "study.yaml", "cells"
_PARTIAL = ".partial"


class FinishedPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of one finished point.

    Attributes:
        stamp: that nothing in it is private.
        definition: what the numbers depend on; see ``GridPoint``.
        measures: the numbers of the point, by name.
        trials: arrays with one number per trial, by name.
        seconds: how long the point took.
    """

    stamp: str
    definition: dict[str, Any]
    measures: dict[str, float | None]
    trials: dict[str, list[float]]
    seconds: float


def open_directory(directory: Path, study: Study) -> None:
    """Make the directory of a study, or take up the one that is there.

    Raises:
        OutputError: there is something else, or it cannot be written.
    """
    if os.path.lexists(directory):
        _check_same(directory, study)
    try:
        (directory / CELLS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {str(directory)!r}: {error.strerror}", hint="choose another --out") from None
    for left in (directory / CELLS).glob(f"*{_PARTIAL}"):
        with suppress(OSError):
            left.unlink()
    write_whole(directory / STUDY, study_yaml(study))


def _check_same(directory: Path, study: Study) -> None:
    """Refuse what is not the directory of a study of that name."""
    hint = "choose another --out: an experiment only takes up a directory of its own"
    if not directory.is_dir():
        raise OutputError(f"{str(directory)!r} exists and is not a directory", hint=hint)
    if not any(directory.iterdir()):
        return
    try:
        found = read_spec_file(directory / STUDY).get("name")
    except DpbayesError:
        found = None
    if found is None:
        raise OutputError(f"{str(directory)!r} exists and is not the directory of a study", hint=hint) from None
    if found != study.name:
        raise OutputError(f"{str(directory)!r} holds the study {found!r}, not {study.name!r}", hint=hint)


def study_yaml(study: Study) -> bytes:
    """Return the canonical file of a study, every default written out, stamped."""
    import yaml

    stated = {key: value for key, value in msgspec.to_builtins(study).items() if value is not None}
    stated["cases"] = {
        name: {key: value for key, value in case.items() if value is not None} for name, case in stated["cases"].items()
    }
    text = yaml.safe_dump(stated, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
    return f"# {NOT_PRIVATE}\n{text}".encode()


def finished(directory: Path, point: GridPoint) -> FinishedPoint | None:
    """Return a finished point, None if its file is missing, torn, or of another definition."""
    try:
        found = msgspec.json.decode(_file(directory, point).read_bytes(), type=FinishedPoint)
    except (OSError, msgspec.DecodeError):
        return None
    return found if canonical_json(found.definition) == canonical_json(point.definition) else None


def finish(directory: Path, point: GridPoint, result: FinishedPoint) -> None:
    """Write the file of a point.

    Raises:
        OutputError: the file cannot be written.
    """
    write_whole(_file(directory, point), msgspec.json.encode(result) + b"\n")


def _file(directory: Path, point: GridPoint) -> Path:
    return directory / CELLS / f"{point.digest[:32]}.json"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place, sync it and rename it: it is there whole, or as it was.

    Raises:
        OutputError: the file cannot be written.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{_PARTIAL}")
    try:
        try:
            with partial.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror}") from None
