"""Notes and warnings before a result: how many records seem valid, and whether prior and posterior fit the bounds.

All are made from public values alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import UnsetType

from dpbayes_cli.base.numeric import float_text
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.document_parts import ValidRecords
from dpbayes_cli.bundle.report.digits import rounded
from dpbayes_cli.bundle.report.wording import has_units
from dpbayes_cli.bundle.stated_request import model_of
from dpbayes_cli.core.columns import Column, NumericColumn, RecordPolicy
from dpbayes_cli.core.model import Model, NoisyStatistics
from dpbayes_cli.privacy.lazy_numpy import np

FOR_CUSTODIANS = " `dpbayes check FILE`"
"""The sentences of a note or warning from here on are for readers who have the data."""
_WHERE = (
    f"{FOR_CUSTODIANS[1:]} shows the cells that cannot be read. Empty cells are invalid, too; to fill them: "
    "--on-invalid impute:VALUE."
)
_WORTH_A_NOTE = 0.95
_NOISE_SCALES = 7.0
"""A count that is below this number of noise scales may be zero: Laplace noise exceeds it with probability 0.0005."""
_FLAGS = {"success", "failure", "categories", "lower", "upper", "delimiter", "quote", "decimal", "thousands"}
"""The keys of a request that decide which cells are valid; each has a flag of the same name."""
_MAX_TEXTS = 4  # the largest number of valid texts that a warning lists
_PRIOR_DRAWS = 2000
_NEAR_SHARE = 0.05  # a mean is close to a bound if its interval is within this share of the range between the bounds
_MIN_PRIOR_SHARE = 0.01  # the smallest share of the prior inside the bounds that causes no warning


def validity_warning(document: ReleaseDocument) -> str:
    """Return a warning that many records seem invalid, computed from released values alone; empty if they do not.

    If the number of records is private, the warning says whether noise alone could explain the released counts.
    """
    valid, n_records = document.valid_records, document.n_records
    if not isinstance(valid, ValidRecords):
        return ""
    mean, low, high = _shown(valid, document.n_records)
    about = f"{mean} {{}} (90 % interval {low} to {high})"
    unseen, remedy = _unseen_text(document), _remedy(document)
    if n_records is None:
        if 2.0 * valid.q05 >= valid.q95:
            return unseen and f"note: the released counts do not show whether any record has {unseen}. {remedy}"
        return (
            "WARNING: noise alone could explain the released counts: perhaps almost no record is valid. There are "
            f"about {about.format('valid records')}. {remedy}"
        )
    is_clear = 2.0 * valid.q95 - valid.q05 < n_records  # else the noise hides whether all records are valid
    if 2.0 * valid.q95 >= n_records and not (is_clear and valid.q95 < _WORTH_A_NOTE * n_records):
        return unseen and f"note: the released counts do not show whether any record has {unseen}. {remedy}"
    records = f"of {n_records:,} records seem valid"
    if has_units(document):
        records = f"valid records are seen for {n_records:,} privacy units"
    is_note = not unseen and 2.0 * valid.q95 >= n_records
    kind, remedy = ("note: about", _WHERE) if is_note else ("WARNING: only about", remedy)
    none_has = f", perhaps none of them with {unseen}" if unseen else ""
    return f"{kind} {about.format(records)}{none_has}, and the result describes these alone. {remedy}"


def not_counted_text(document: ReleaseDocument) -> str:
    """Return a note if the released values do not count the valid records; empty if they do, or if this is unknown."""
    if document.valid_records is not None:
        return ""
    stand_in = str(document.spec.get("on_invalid", "")).partition("impute:")[2]
    counted = f"invalid cells counted as {stand_in!r}, and " if stand_in else ""
    return (
        f"note: {counted}this release does not say how many records were valid.{FOR_CUSTODIANS} counts "
        "them, for the custodian only."
    )


def records_valid_text(document: ReleaseDocument) -> str:
    """Return the number of valid records as the released counts show it; empty if they do not."""
    valid = document.valid_records
    if not isinstance(valid, ValidRecords):
        return ""
    mean, low, high = _shown(valid, document.n_records)
    return f"about {mean} records (90 % interval {low} to {high})"


def _shown(valid: ValidRecords, n_records: int | None) -> list[str]:
    """Return the mean and the ends of the interval as texts, rounded as the width of the interval allows.

    An upper end at the number of all records is not rounded, so that it does not seem to exclude it.
    """
    width = max(valid.q95 - valid.q05, 10.0)
    mean, low, high = (rounded(number, width) for number in (valid.mean, valid.q05, valid.q95))
    return [mean, low, f"{n_records:,}" if n_records is not None and valid.q95 >= n_records else high]


def _unseen_text(document: ReleaseDocument) -> str:
    """Return one of the two valid texts of a column, in quotes, if its count may be zero; else an empty text."""
    texts, counts = list(document.posterior_predictive), document.statistics
    if len(texts) != 2 or len(counts) != 2:
        return ""
    few, many = sorted((each.value / each.noise_scale, text) for each, text in zip(counts, texts, strict=True))
    if few[0] > _NOISE_SCALES or many[0] < 3.0 * _NOISE_SCALES:
        return ""
    return repr(few[1])


def _remedy(document: ReleaseDocument) -> str:
    """Return what the custodian can do about invalid records, with the valid texts that the request states."""
    texts = document.posterior_predictive
    is_listed = 1 < len(texts) == len(document.statistics) <= _MAX_TEXTS
    column = model_of(document).columns[0]
    described = (
        [column.described(code) for code in range(len(texts))] if is_listed and isinstance(column, Column) else []
    )
    between = ", or " if any("," in each for each in described) else " or "
    expected = f"Valid cells hold {between.join(described)}. " if is_listed else ""
    keys = ["groups"] if document.spec.get("by") else []
    stated = document.spec["domain"] | document.spec.get("source", {})
    bounds = set() if stated.get("out_of_bounds") == "drop" else {"lower", "upper"}  # else no number is invalid
    keys += [key for key in stated if key in _FLAGS and key not in bounds]
    flags = f"; these flags set what is valid: {', '.join(f'--{key}' for key in keys)}" if keys else ""
    encoding = (
        ""
        if str(document.spec).isascii()
        else " If the file is not UTF-8, cells with letters such as ä cannot be read."
    )
    where, dot, empty = _WHERE.partition(".")
    return f"{expected}{where}{flags}{dot}{empty}{encoding}"


def prior_outside_bounds(model: Model, policy: RecordPolicy) -> str:
    """Return a warning if, under the prior, the mean of a column is hardly ever inside its bounds; else an empty text.

    Parameters are drawn from the prior with a fixed seed. For a regression, the mean is that of the target if every
    feature is in the middle of its bounds.
    """
    columns = _columns(model)
    if not columns or not isinstance(model, NoisyStatistics):
        return ""
    rng = np.random.default_rng(0)
    inside: Counter[str] = Counter()
    for _ in range(_PRIOR_DRAWS):
        for name, is_inside in means_inside(model, model.simulated(policy, 1, rng)[0]).items():
            inside[name] += int(is_inside)
        if min(inside.values()) >= _MIN_PRIOR_SHARE * _PRIOR_DRAWS:
            return ""
    for name, count in inside.items():
        if count < _MIN_PRIOR_SHARE * _PRIOR_DRAWS:
            of_column = f" of {name}" if model.column_names else ""
            return (
                f"under the stated prior, the mean{of_column} is inside the bounds, {_range(columns[name])}, with a "
                "probability of less than 1 %: the posterior may follow the prior, not the data; the default prior "
                "fits the bounds"
            )
    return ""


def means_inside(model: Model, parameters: Sequence[float]) -> dict[str, bool]:
    """Return for each column of numbers whether its mean is inside the bounds; a regression has only the target."""
    columns = _columns(model)
    means = model.predictive(parameters) if columns else {}
    return {name: columns[name].lower <= mean <= columns[name].upper for name, mean in means.items()}


def left_bounds(document: ReleaseDocument) -> list[str]:
    """Return a warning for each column whose mean has a 90 % interval that leaves the public bounds or is near one.

    For a regression, the result is empty, because the mean of its target depends on several parameters at once.
    """
    model = model_of(document)
    columns, summaries = _columns(model), list(document.posterior.values())
    is_named = bool(model.column_names)
    if document.spec.get("by"):  # the first summary is that of the mean of all groups
        columns, summaries, is_named = _column_of_groups(model), summaries[:1], False
    if is_named and not all(f"mean[{name}]" in document.posterior for name in columns):
        return []
    ends: list[Sequence[float]] = [
        [end for end in (getattr(summary, name) for summary in summaries) if end is not None] for name in ("q05", "q95")
    ]
    if not columns or any(len(each) < len(summaries) for each in ends):
        return []
    low, high = (model.predictive(each) for each in ends)
    warnings = []
    for name in low:
        bounds = columns[name]
        of_column, near = f" of {name}" if is_named else "", _NEAR_SHARE * (bounds.upper - bounds.lower)
        if not all(bounds.lower <= end[name] <= bounds.upper for end in (low, high)):
            warnings.append(
                f"the 90 % interval of the mean{of_column} leaves the public bounds, {_range(bounds)}: the noise is "
                "too large, or the prior or the bounds do not fit the numbers"
            )
        elif low[name] > bounds.upper - near or (bounds.lower != 0.0 and high[name] < bounds.lower + near):
            warnings.append(
                f"the mean{of_column} is close to one of the public bounds, {_range(bounds)}: most numbers may be "
                "beyond them; check the bounds and their unit"
            )
    return warnings + _groups_left_bounds(document, *columns.values())


def _groups_left_bounds(document: ReleaseDocument, *bounds: NumericColumn) -> list[str]:
    """Return a warning if the mean of a group has a 90 % interval that leaves the public bounds."""
    if isinstance(document.extreme_groups, UnsetType) or len(bounds) != 1:
        return []
    means = [each for each in document.extreme_groups if each.parameter == "mean"]
    shown = [group for each in means for group in (*each.highest, *each.lowest)]
    beyond = [group.key for group in shown if group.q05 < bounds[0].lower or group.q95 > bounds[0].upper]
    if not beyond:
        return []
    have = f"{len(beyond)} of the {len(shown)} groups below {'have' if len(beyond) > 1 else 'has'}"
    return [
        f"{have} a 90 % interval that leaves the public bounds, {_range(bounds[0])}: the noise hides most of what the "
        "records tell. To use the stated prior for each group, at no cost: dpbayes infer BUNDLE --pooling none"
    ]


def _columns(model: Model) -> dict[str, NumericColumn]:
    """Return the columns of numbers by the keys of ``predictive``; empty for any other model."""
    numbers = [column for column in model.columns if isinstance(column, NumericColumn)]
    if len(numbers) < len(model.columns):
        return {}
    return {column.role: column for column in numbers} if model.column_names else {"mean": numbers[0]}


def _column_of_groups(model: Model) -> dict[str, NumericColumn]:
    """Return the column of numbers of groups by its key in ``predictive``; empty if groups have categories."""
    values = model.columns[-1]
    return {"mean": values} if isinstance(values, NumericColumn) else {}


def _range(column: NumericColumn) -> str:
    return f"{float_text(column.lower)} to {float_text(column.upper)}"
