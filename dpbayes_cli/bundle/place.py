"""Write a bundle to its target, or verify the bundle that the target already holds.

A bundle appears at its target only once all of its files are complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from msgspec import UnsetType

from dpbayes_cli.base.atomic_file import sync
from dpbayes_cli.base.errors import OutputError, VerificationError
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.files import (
    GROUP_SAMPLES,
    RELEASE,
    REPORT,
    STATES,
    STATISTICS,
    TABLES,
    keys_of,
    states_csv,
    statistics_csv,
    tables_csv,
)
from dpbayes_cli.bundle.group_table import write_groups
from dpbayes_cli.bundle.read import MAX_TEXT_BYTES, file_digest
from dpbayes_cli.bundle.report.markdown import report_markdown
from dpbayes_cli.bundle.samples import max_samples_bytes, sample_labels, write_samples
from dpbayes_cli.bundle.write import check_target, new_directory, scratch_directory, write_new

_MAX_DRAW_BYTES, _MAX_COLUMN_BYTES = 8, 1 << 16
"""Upper bounds on the bytes of a draw of a group, of single precision, and of a column's metadata."""


def check_place(target: Path, *, sealed: bool) -> None:
    """Refuse a target at which the bundle cannot be written; a release calls this before anything is charged.

    If the ledger holds the draw of the release (``sealed``), an existing target may be its bundle.
    """
    if not (sealed and os.path.lexists(target)):
        check_target(target)


def place_bundle(
    document: ReleaseDocument,
    analyze: Callable[[], Analysis],
    target: Path,
    published: Mapping[str, str] | None,
    say: Callable[[str], None],
) -> dict[str, str]:
    """Write the bundle, or verify the bundle that the target already holds; return the digest of each file by name.

    Args:
        document: the sealed release.
        analyze: a function that returns the posterior of the release; it is called only if files are written.
        published: the digest of each file, if the release was published before; otherwise None.
        say: a function that shows a message to the user.

    Raises:
        OutputError: the target exists and does not hold this bundle, or holds a damaged copy of it.
    """
    if not os.path.lexists(target):
        try:
            with new_directory(target, datetime.fromisoformat(document.created)) as directory:
                digests = render(document, analyze(), directory)
            if published is not None and digests != published:
                say(
                    "the bundle was published with other software versions; its samples and report were written again "
                    "now, and may differ slightly from those published"
                )
            return digests
        except OutputError:
            if not os.path.lexists(target):
                raise  # otherwise another process has written to the target meanwhile, perhaps this bundle
    if published is not None:
        _verify(target, published, document)
        return dict(published)
    with scratch_directory(target) as directory:
        digests = render(document, analyze(), directory)
    _verify(target, digests, document)
    return digests


def render(document: ReleaseDocument, analysis: Analysis, directory: Path) -> dict[str, str]:
    """Write the files of a bundle into an empty directory; return their digests."""
    write_new(directory / RELEASE, document.pretty())
    write_new(directory / STATISTICS, statistics_csv(document))
    report = document.inference
    labels = sample_labels(document, report)
    write_samples(directory / report.samples_file, analysis, report.samples_format, labels)
    if analysis.groups is not None:
        keys = keys_of(document, document.spec)
        write_groups(directory, keys, analysis.model, analysis.groups, analysis.group_draws)
    if (tables := tables_csv(document, analysis)) is not None:
        write_new(directory / TABLES, tables)
    if (states := states_csv(analysis.model, document.states or None)) is not None:
        write_new(directory / STATES, states)
    write_new(directory / REPORT, report_markdown(document))
    digests: dict[str, str] = {}
    for path in sorted(directory.iterdir()):
        digest = file_digest(path, path.stat().st_size)
        if digest is None:
            raise OutputError(f"{path.name!r} disappeared while the bundle was being written")
        digests[path.name] = digest
    return digests


def max_file_bytes(document: ReleaseDocument, name: str) -> int:
    """Return the largest size in bytes that a file of a bundle may have."""
    report = document.inference
    if name == GROUP_SAMPLES and not isinstance(document.groups, UnsetType):
        n_draws = int(document.spec["inference"]["samples_per_group"])  # of at most as many parameters as components
        return MAX_TEXT_BYTES + n_draws * (_MAX_COLUMN_BYTES + _MAX_DRAW_BYTES * len(document.groups.values))
    if name != report.samples_file:
        return MAX_TEXT_BYTES
    return max_samples_bytes(report.samples_format, list(document.posterior), report.samples)


def _verify(target: Path, digests: Mapping[str, str], document: ReleaseDocument) -> None:
    """Raise ``OutputError`` if a file on disk is missing or has another digest."""
    for name, expected in digests.items():
        try:
            digest = file_digest(target / name, max_file_bytes(document, name))
        except VerificationError:
            digest = None
        if target.is_symlink() or digest != expected:
            raise OutputError(
                f"{str(target)!r} exists and is not the bundle of this release ({name} differs or is missing)",
                hint="choose another --out to write this release again, free of charge",
            )
    try:
        sync(target.absolute().parent)  # the process that wrote the bundle may have been killed before this
    except OSError as error:
        raise OutputError(f"cannot sync the directory of {str(target)!r}: {error.strerror}") from None
