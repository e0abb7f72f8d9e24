"""Advice for a file that a release cannot read: flags to state, or shell commands to run."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dpbayes_cli.base.cell_grammar import POINT, NumberMarks, normal_cell, parse_number
from dpbayes_cli.bundle.report.digits import rounded
from dpbayes_cli.check.column_profile import ColumnProfile, mean_and_variance
from dpbayes_cli.check.file_layout import UTF16, FileLayout, guess_marks
from dpbayes_cli.check.suggested_spec import kind_of, success_and_failure, suggested_model
from dpbayes_cli.core.columns import AnyColumn, Column, NumericColumn
from dpbayes_cli.core.findings import share_beyond
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.section import require_type
from dpbayes_cli.sources.file_mistakes import name_of_copy
from dpbayes_cli.spec.release_spec import build_spec

if TYPE_CHECKING:
    from dpbayes_cli.check.file_table import Table
    from dpbayes_cli.spec.option_sections import UnitSection

_YEARS = {
    r"\d{4}-\d{1,2}-\d{1,2}.*": r"s/([0-9]{4})-[0-9]{1,2}-[0-9]{1,2}/\1/g",
    r"\d{1,2}[./]\d{1,2}[./]\d{4}.*": r"s:[0-9]{1,2}[./][0-9]{1,2}[./]([0-9]{4}):\1:g",
}
"""For each pattern of dates, the sed script that keeps the year."""
_WITH_UNIT = re.compile(r"[^\w.+-]?\s*[+-]?\d+(?:\.\d+)?\s*[^\d\s].*")
_NO_BREAK = re.compile("[\xa0\u202f]")
_MUCH_MORE = 1.5
"""If the variance of the numbers is at least this many times that of the model, the check says so."""

_SMALL_PART = 0.6
"""If the numbers of a feature fill less of the range between the bounds, the check says so."""
_HUGE = 1e12
"""No bound may be larger."""
_MUCH_LESS = 0.97
"""If clamping leaves less than this share of the variance, the check says so."""
_MUCH_BEYOND = 0.02
"""If more than this share of a normal law is beyond the bounds, the check does not advise one."""
_MANY_EQUAL = 5
"""A number beyond the bounds that is at least so frequent may stand for a missing value."""
_ANY_LAW = "; for the mean of numbers of any law: --model normal --lower LOWER --upper UPPER --out-of-bounds recorded"
DROPPED = "a release drops these records, unless --on-invalid impute:VALUE"
_FEW_TEXTS = 20
"""The advice lists all texts of a column if there are at most this many."""


def conversion(layout: FileLayout, path: Path) -> str:
    """Return the shell command that makes a file readable; empty if a release can read it as it is."""
    file, copy = shlex.quote(str(path)), partial(name_of_copy, str(path))
    unpack = f"gzip -dc {file} | " if path.suffix.lower() == ".gz" else ""
    if not layout.is_utf8:
        code = "utf-16" if layout.encoding == UTF16 else "cp1252"
        return f"{unpack}iconv -f {code} -t utf-8 {'' if unpack else file + ' '}> {copy('utf8')}"
    if layout.skipped:
        return f"{unpack}tail -n +{layout.skipped + 1} {'' if unpack else file + ' '}> {copy('table')}"
    return ""


def marks_remedy(marks: NumberMarks) -> str:
    """Return the flags that state the decimal and thousands marks."""
    flags = [f"--decimal {marks.decimal}"] * (marks.decimal != ".")
    flags += [f"--thousands {'space' if marks.thousands == ' ' else shell(marks.thousands)}"] * bool(marks.thousands)
    doubt = "; if 1,234 is less than 2 here: --decimal ," if marks == NumberMarks(".", ",") else ""
    return f"numbers are not written with a plain decimal point: {' '.join(flags)}{doubt}"


def level_remedies(
    column: Column,
    profile: ColumnProfile,
    invalid: Sequence[tuple[str, int]],
    flags: Sequence[str],
    path: Path,
    all_texts: Callable[[], Sequence[str]],
    quote_flag: Callable[[str], str],
) -> Iterable[str]:
    """Yield the flags that make the most common texts of a column its levels.

    Args:
        column: the column's domain.
        profile: the profile of the column.
        invalid: the most common texts that are not levels.
        flags: the keys of the domain that have flags; empty for a model of several columns.
        path: the file.
        all_texts: a function that returns all texts of the column.
        quote_flag: a function that returns the flags for a quote character.
    """
    if quoted := next(
        (text[0] for text, _ in invalid if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"`"), ""
    ):
        yield f"texts are in quotes: {quote_flag(quoted)}"
        return
    texts = [text for text, _ in profile.commonest]
    valid = {normal_cell(text): code for text, code in column.texts.items()}
    seen = {valid.get(normal_cell(text)) for text in texts}
    if None not in seen:
        return
    if column.spellings and len(seen) > len(column.levels):
        if "success" in flags:
            other = next(text for text in texts if normal_cell(text) not in valid)
            yield (
                f"texts such as {other!r} are neither of the two: their records are dropped, and the result is about "
                f"the others; for the share of each text: {_categories_flags(profile, all_texts)}"
            )
        return
    if remedy := case_remedy(profile, path):
        yield f"texts {remedy}"
        return
    by_case = {text.casefold(): text for text in texts}
    levels = [by_case.get(level.casefold(), "") for level in column.levels]
    is_clear = True
    if "success" in flags and len(levels) == len(texts) == 2 and not all(levels):
        *levels, is_clear = success_and_failure(profile)
    if "success" in flags and len(texts) > 2:
        yield f"the column has more than two texts: {_categories_flags(profile, all_texts)}"
    elif "success" in flags and len(texts) == 2:
        first, second = map(shell, levels)
        choice = f"--success {first} --failure {second}"
        yield (
            f"the two texts of the column: {choice}"
            if is_clear
            else f"decide which text you count: {choice} or --success {second} --failure {first}"
        )
    elif "categories" in flags and len(categories := all_texts()) <= len(column.levels):
        yield f"the texts of the column: --categories {shell(','.join(categories))}"
    else:
        for level, text in zip(column.levels, levels, strict=False):
            if text and text != level:
                yield f"{text!r} is not {level!r}: state the text with the same upper and lower case"


def _categories_flags(profile: ColumnProfile, all_texts: Callable[[], Sequence[str]]) -> str:
    categories = all_texts() if profile.distinct <= _FEW_TEXTS else []
    return f"--model dirichlet-categorical --categories {shell(','.join(categories)) if categories else 'A,B,C'}"


def case_remedy(profile: ColumnProfile, path: Path) -> str:
    """Return what to do if common texts of a column differ in upper and lower case alone; empty if none do."""
    if len({text.casefold() for text, _ in profile.commonest}) == len(profile.commonest):
        return ""
    lower = f"tr '[:upper:]' '[:lower:]' < {shlex.quote(str(path))} > {name_of_copy(str(path), 'lower')}"
    return f"differ in upper and lower case alone; write all in lower case: {lower}"


def number_remedy(
    column: AnyColumn, texts: Sequence[str], path: Path, quote_flag: Callable[[str], str], text: str
) -> str:
    """Return a flag or a command that makes a text readable as a number; empty if none is known.

    Args:
        column: the column's domain.
        texts: the most common texts that are not numbers.
        path: the file.
        quote_flag: a function that returns the flags for a quote character.
        text: one of these texts.
    """
    file, copy = shlex.quote(str(path)), partial(name_of_copy, str(path))
    inner = text.strip("'\"`")
    if inner != text and len(text) > 1:
        return f"numbers are in quotes: {quote_flag(text[0])}"
    marks = guess_marks(texts)
    tried = {marks, guess_marks([text])} - {POINT}
    if marks != POINT and any(parse_number(text, marks=each) is not None for each in tried):
        return marks_remedy(marks)
    for dates, script in _YEARS.items():
        if re.fullmatch(dates, text):
            year = f"sed -E '{script}' {file} > {copy('years')}"
            return f"dates are not numbers; compute a number, such as an age, or keep the year: {year}"
    if _NO_BREAK.search(text):
        removed = f"sed 's/\\xc2\\xa0//g; s/\\xe2\\x80\\xaf//g' {file} > {copy('numbers')}"
        return f"numbers hold no-break spaces; remove them: {removed}"
    if isinstance(column, NumericColumn) and column.integers and parse_number(text) is not None:
        return f"{text} is not a whole number, and the model reads whole numbers only"
    if _WITH_UNIT.fullmatch(text):
        return "numbers have a symbol or a unit beside them: remove it from the column"
    if isinstance(column, NumericColumn) and column.integers:
        return "the model reads whole numbers only"
    return ""


def shell(text: str) -> str:
    """Return a text quoted for the shell; a tab becomes the word ``tab``."""
    if text in {"\t", "'"}:
        return {"\t": "tab", "'": '"\'"'}[text]
    return shlex.quote(text)


def keys_advice(n_keys: int, n_published: int, least: float, unit: UnitSection | None) -> str:
    """Return a sentence about how many of the keys in the data have enough records."""
    enough = f"{n_published:,} of {n_keys:,} keys have at least {rounded(least, least)} valid records"
    if unit is None:
        return f"{enough}; a release publishes about these, and leaves out the others"
    kept = "one record" if unit.max_contributions == 1 else f"{unit.max_contributions} records"
    return f"{enough}; a release keeps up to {kept} of each {unit.column}, so it publishes about these, or fewer"


def about_empty(empty: int, invalid: int, on_invalid: str) -> str:
    """Return a sentence about the empty cells of a column and what a release does with them.

    Args:
        empty, invalid: how many cells are empty, and how many are invalid.
        on_invalid: what the release does with invalid cells; ``none`` for keys of groups.
    """
    which = "all are empty" if empty == invalid else f"{empty} of these cells are empty"
    if on_invalid == "none":
        return f"{which}: these records count in no group"
    if on_invalid == "drop":
        return f"{which}: {DROPPED}"
    return f"{which}: --on-invalid {on_invalid} fills them"


def about_spread(model: Model, column: NumericColumn, moments: tuple[float, float] | None) -> Iterable[str]:
    """Yield a sentence if numbers of this mean and variance do not suit the model.

    Args:
        model: the model.
        column: the bounds of the numbers.
        moments: their mean and variance; None if they are too few.
    """
    if moments is None:
        return
    model, (mean, variance) = getattr(model, "base", model), moments  # groups have the model of one group
    beyond = share_beyond(mean, variance, column.lower, column.upper)
    expected = model.variance_at(mean)
    if expected is None and variance > 0.0 and beyond > _MUCH_BEYOND and getattr(model, "out_of_bounds", "") == "clamp":
        yield (
            "many numbers are near a bound, and a normal law does not fit them: with their mean and spread, it would "
            f"have {100 * beyond:.0f} % of its numbers beyond the bounds, and the result would be off; for "
            "numbers of any law: --out-of-bounds recorded"
        )
    if expected is not None and variance > _MUCH_MORE * expected > 0.0:
        times = math.sqrt(variance / expected)
        yield (
            f"the variance of the numbers is {variance:.3g}; {model.name} takes it to be {expected:.3g}, so its "
            f"intervals are up to {times:.1f} times too narrow{_ANY_LAW}"
        )


def about_law(table: Table, profile: ColumnProfile) -> list[str]:
    """Return a sentence if the numbers of a column do not suit the model that a check would suggest for them.

    Args:
        table: the file.
        profile: the profile of the column.
    """
    bounds = {"counts": {"upper": profile.highest}, "numbers": {"lower": profile.lowest, "upper": profile.highest}}
    kind = kind_of(profile)
    if kind not in bounds or profile.lowest == profile.highest or _is_huge(profile):
        return []
    request = {"model": suggested_model(profile), "domain": bounds[kind], "privacy": {"epsilon": "1"}}
    model, index = build_spec(request).build_model(), table.names.index(profile.name)
    column = require_type(model.columns[0], NumericColumn)
    marks = table.marks(profile.name, POINT if table.layout is None else table.layout.marks)
    moments = mean_and_variance(table.scan(), index, column, marks)
    return list(about_spread(model, column, moments))


def about_feature(model: Model, column: NumericColumn, profile: ColumnProfile) -> list[str]:
    """Return a sentence if texts, or closer bounds, would suit a feature of numbers better."""
    if "{values" not in model.first_spec.get("features", ""):
        return []
    if profile.distinct == 2:
        texts = ", ".join(f'"{text}"' for text in sorted(text for text, _ in profile.commonest))
        return [f"it holds two values: {{values: [{texts}]}} suits it better than bounds"]
    if profile.highest - profile.lowest < _SMALL_PART * (column.upper - column.lower):
        return ["the bounds are far from the numbers; if public knowledge allows closer ones, intervals are narrower"]
    return []


def _is_huge(profile: ColumnProfile) -> bool:
    return max(-profile.lowest, profile.highest) > _HUGE


def _widened(column: NumericColumn, profile: ColumnProfile) -> NumericColumn:
    return replace(column, lower=min(column.lower, profile.lowest), upper=max(column.upper, profile.highest))


def beyond_bounds(
    column: NumericColumn,
    profile: ColumnProfile,
    beyond: tuple[int, int, float, int],
    moments: Callable[[NumericColumn], tuple[float, float] | None],
) -> list[str]:
    """Return sentences about the numbers below and above the bounds of a column.

    Args:
        beyond: how many there are; see ``count_beyond``.
        moments: a function that returns the mean and the variance of the numbers after clamping.
    """
    below, above, commonest, count = beyond
    if not below + above:
        return []
    treated = "moved to the nearer bound" if column.outside == "clamp" else "dropped with their records"
    sentences = [
        f"the numbers are from {profile.lowest:g} to {profile.highest:g}; {below} below {column.lower:g} and "
        f"{above} above {column.upper:g} are {treated}"
    ]
    if 2 * (below + above) > profile.numbers:
        sentences.append("most numbers are beyond the bounds: these may be in another unit than the numbers")
    if column.outside != "clamp":
        return sentences
    clamped, recorded = moments(column), None if _is_huge(profile) else moments(_widened(column, profile))
    if count >= max(_MANY_EQUAL, (below + above) / 2.0):
        sentences.append(
            f"{count} of these are {commonest:g}; if it stands for a missing value, replace it by an empty cell; as a "
            "number, it would make the result wrong"
        )
    elif clamped and recorded and clamped[1] < _MUCH_LESS * recorded[1]:
        after, before = (f"mean {m:.4g} and standard deviation {math.sqrt(v):.4g}" for m, v in (clamped, recorded))
        sentences.append(
            f"then all numbers have {after}, but as recorded {before}; if you want to know the latter, state wider "
            "bounds, which need more noise"
        )
    return sentences
