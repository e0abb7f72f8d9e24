"""The line before a result that says how many records seem valid, if many may be invalid or this is unknown."""

from __future__ import annotations

from dpbayes_cli.bundle.document import ReleaseDocument, ValidRecords
from dpbayes_cli.bundle.report.digits import rounded
from dpbayes_cli.bundle.report.wording import has_units
from dpbayes_cli.bundle.stated_request import model_of
from dpbayes_cli.core.columns import Column

_WORTH_A_NOTE = 0.95
_NOISE_SCALES = 7.0
"""A count that is below this number of noise scales may be zero: Laplace noise exceeds it with probability 0.0005."""
_FLAGS = {
    *("success", "failure", "categories", "lower", "upper"),
    *("delimiter", "quote", "decimal", "thousands"),
}
"""The keys of a request that decide which cells are valid; each has a flag of the same name."""
_MAX_TEXTS = 4
"""The largest number of valid texts that a warning lists."""


def validity_warning(document: ReleaseDocument) -> str:
    """Return a warning that many records seem invalid, computed from released values alone; empty if they do not.

    If the number of records is private, the warning says whether noise alone could explain the released counts.
    """
    valid, n_records = document.valid_records, document.n_records
    if not isinstance(valid, ValidRecords):
        return ""
    mean, low, high = _shown(valid)
    about = f"{mean} {{}} (90 % interval {low} to {high})"
    if n_records is None:
        if 2.0 * valid.q05 >= valid.q95:
            return _unseen_text(document)
        return (
            "WARNING: noise alone could explain the released counts: perhaps almost no record is valid. There are "
            f"about {about.format('valid records')}. {_remedy(document)}"
        )
    is_clear = 2.0 * valid.q95 - valid.q05 < n_records  # else the noise hides whether all records are valid
    if 2.0 * valid.q95 >= n_records and not (is_clear and valid.q95 < _WORTH_A_NOTE * n_records):
        return _unseen_text(document)
    records = f"of {n_records:,} records seem valid"
    if has_units(document):
        records = f"valid records are seen for {n_records:,} privacy units"
    kind = "WARNING: only about" if 2.0 * valid.q95 < n_records else "note: about"
    return f"{kind} {about.format(records)}, and the result describes these alone. {_remedy(document)}"


def not_counted_text(document: ReleaseDocument) -> str:
    """Return a note if the released values do not count the valid records; empty if they do, or if this is unknown."""
    if document.valid_records is not None:
        return ""
    stand_in = str(document.spec.get("on_invalid", "")).partition("impute:")[2]
    counted = f"invalid cells counted as {stand_in!r}, and " if stand_in else ""
    return (
        f"note: {counted}this release does not say how many records were valid. `dpbayes check FILE` counts "
        "them, for the custodian only."
    )


def records_valid_text(document: ReleaseDocument) -> str:
    """Return the number of valid records as the released counts show it; empty if they do not."""
    valid = document.valid_records
    if not isinstance(valid, ValidRecords):
        return ""
    mean, low, high = _shown(valid)
    return f"about {mean} records (90 % interval {low} to {high})"


def _shown(valid: ValidRecords) -> list[str]:
    """Return the mean and the ends of the interval as texts, rounded as the width of the interval allows."""
    width = max(valid.q95 - valid.q05, 10.0)
    return [rounded(number, width) for number in (valid.mean, valid.q05, valid.q95)]


def _unseen_text(document: ReleaseDocument) -> str:
    """Return a note if a column has two valid texts and one of the counts may be zero; else an empty text."""
    texts, counts = list(document.posterior_predictive), document.statistics
    if len(texts) != 2 or len(counts) != 2:
        return ""
    few, many = sorted((each.value / each.noise_scale, text) for each, text in zip(counts, texts, strict=True))
    if few[0] > _NOISE_SCALES or many[0] < 3.0 * _NOISE_SCALES:
        return ""
    return f"note: the released counts do not show whether any record has {few[1]!r}. {_remedy(document)}"


def _remedy(document: ReleaseDocument) -> str:
    """Return what the custodian can do about invalid records, with the valid texts that the request states."""
    texts = document.posterior_predictive
    is_listed = 1 < len(texts) == len(document.statistics) <= _MAX_TEXTS
    column = model_of(document).columns[0]
    described = map(column.described, range(len(texts))) if is_listed and isinstance(column, Column) else ()
    expected = f"Valid cells hold {', or '.join(described)}. " if is_listed else ""
    stated = ", ".join(
        f"--{key}" for section in ("domain", "source") for key in document.spec.get(section, {}) if key in _FLAGS
    )
    return (
        f"{expected}`dpbayes check FILE` shows all other cells that are not empty; these flags set what is valid: "
        f"{stated}."
    )
