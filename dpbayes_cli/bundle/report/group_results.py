"""What a result says about its groups: how many differ from the mean of all groups, and the groups that differ most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UnsetType

from dpbayes_cli.base.cell_grammar import make_visible
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.document_parts import ExtremeGroup, ExtremeGroups
from dpbayes_cli.bundle.files import GroupKey, found_keys, keys_of
from dpbayes_cli.bundle.group_table import larger_names
from dpbayes_cli.bundle.report.all_records import overall_sentences
from dpbayes_cli.bundle.report.digits import percent, rounded
from dpbayes_cli.bundle.report.group_headline import key_text
from dpbayes_cli.bundle.report.report_tables import ReportTable
from dpbayes_cli.bundle.report.wording import is_pooled
from dpbayes_cli.bundle.stated_request import model_of
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.model import Model
from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior, LargerSummary
from dpbayes_cli.privacy.lazy_numpy import np

MAX_LISTED = 2000
"""The page lists up to this many groups; its text can be searched in the browser."""
MOST_SHOWN = 10
"""A result names up to this many of the highest and of the lowest groups, and all groups if there are no more."""


def extreme_groups(
    keys: Sequence[GroupKey],
    parameters: Sequence[str],
    groups: GroupedPosterior | LargerSummary,
    records: Floats,
) -> list[ExtremeGroups]:
    """Return, for each parameter, the groups whose 90 % intervals exclude the mean of all groups, or all if few.

    The mean is that of the estimates: the mean of the law of groups is uncertain if there are few.

    Args:
        groups: the groups, or the larger groups.
        records: the estimated number of records of each, shape (n_groups,).
    """
    extremes = []
    for k, name in enumerate(parameters):
        low, high = groups.quantiles[:, k, 0], groups.quantiles[:, k, 2]
        mean = groups.means[:, k].mean() if len(keys) else 0.0
        above, below, estimates = low > mean, high < mean, groups.means[:, k]
        listed = (estimates >= mean, estimates < mean) if len(keys) <= MOST_SHOWN else (above, below)
        orders = (np.argsort(sign * estimates, kind="stable") for sign in (-1.0, 1.0))
        highest, lowest = (order[chosen[order]][:MOST_SHOWN] for order, chosen in zip(orders, listed, strict=True))
        rows = [
            [
                ExtremeGroup(
                    key=key_text(keys[g]),
                    mean=float(estimates[g]),
                    q05=float(low[g]),
                    q95=float(high[g]),
                    records=float(records[g]),
                )
                for g in chosen.tolist()
            ]
            for chosen in (highest, lowest)
        ]
        extremes.append(
            ExtremeGroups(
                parameter=name, n_above=int(above.sum()), n_below=int(below.sum()), highest=rows[0], lowest=rows[1]
            )
        )
    return extremes


def group_sentences(document: ReleaseDocument) -> list[str]:
    """Return what holds over all records, and how many groups are above and below their mean; empty without groups.

    If the keys were found in the data, the first sentence says which groups are likely missing.
    """
    keys, sentences = keys_of(document, document.spec), list[str]()
    if isinstance(document.extreme_groups, UnsetType):
        return []
    if found_keys(document) is not None:
        records = float(document.parameters.get("key_records", 0.0))
        origin = f"The keys of {document.spec['by']['column']} were found in the data"
        about = f"with fewer than about {rounded(records, records)} records"
        if not keys:
            return [f"{origin}, but no key has enough records to be published: a group {about} is likely missing."]
        sentences.append(f"{origin}: a group {about} is likely missing.")
    else:
        sentences += overall_sentences(document)
    sentences += _sentences(document.extreme_groups, len(keys), "groups", "90 % interval")
    if is_pooled(document):
        sentences.append(
            "Estimates, above all of small groups, are drawn toward the mean of the groups; each group alone, at no "
            "cost: dpbayes infer BUNDLE --pooling none"
        )
    if not isinstance(document.extreme_larger_groups, UnsetType):
        n_larger = len(larger_names(keys)[0])
        sentences += _sentences(document.extreme_larger_groups, n_larger, "larger groups", "90 % interval of the mean")
    return sentences


def _sentences(extreme: Sequence[ExtremeGroups], n_groups: int, what: str, interval: str) -> Iterator[str]:
    for each in extreme:
        of = f" of {each.parameter}" if len(extreme) > 1 else ""
        rest = n_groups - each.n_above - each.n_below
        verb = "has" if each.n_above == 1 else "have"
        others = f"intervals of the other {rest:,} include it" if rest != 1 else "interval of the other one includes it"
        yield (
            f"Of {n_groups:,} {what}, {each.n_above:,} {verb} a {interval}{of} above the mean of all groups and "
            f"{each.n_below:,} below it; the {others}."
        )


def about_files(document: ReleaseDocument) -> str:
    """Return a sentence about the files with all results of groups."""
    text = "`groups.parquet` holds the posterior of every group"
    if isinstance(document.extreme_larger_groups, UnsetType):
        return f"{text}; `dpbayes predict` prints it as CSV."
    return f"{text}. `larger_groups.parquet` holds that of the mean of every larger group."


def noisy_shares(document: ReleaseDocument, model: Model) -> Floats | None:
    """Return the share of each category by the noisy counts of a group alone, shape (n_groups, n_categories).

    A share is NaN if the noisy counts of its group add up to less than 1. The result is None if the groups' parameters
    are not shares.
    """
    if isinstance(document.groups, UnsetType) or not model.main_fact.is_share:
        return None
    if isinstance(model.columns[-1], NumericColumn):
        return None
    counts = np.array(document.groups.values, dtype=np.float64).reshape(-1, len(document.groups.components))
    totals = counts.sum(axis=1, keepdims=True)
    return np.asarray(np.where(totals >= 1.0, counts / np.maximum(totals, 1.0), np.nan))


def all_groups_table(document: ReleaseDocument, groups: GroupedPosterior) -> ReportTable:
    """Return a table of the groups in the order of their keys, cut to ``MAX_LISTED`` rows.

    With larger groups, each of them is followed by its groups.
    """
    keys, model = keys_of(document, document.spec), model_of(document)
    names, column = model.group_parameters, document.spec["by"]["column"]
    write = percent if model.main_fact.is_share else rounded
    heads = [column] if isinstance(column, str) else list(column[::-1])
    heads += (
        ["mean", "5 %", "95 %"] if len(names) == 1 else [f"{n}{end}" for n in names for end in ("", " 5 %", " 95 %")]
    )

    def row(cells: list[str], of: GroupedPosterior | LargerSummary, g: int, records: float) -> list[str]:
        cells = [*map(make_visible, cells)]
        for k in range(len(names)):
            low, high = of.quantiles[g, k, 0], of.quantiles[g, k, 2]
            cells += [write(x, high - low) for x in (of.means[g, k], low, high)]
        return [*cells, f"{records:,.0f}"]

    rows, sizes = [], groups.sizes[:, 0]
    if isinstance(column, str):
        rows = [row([key_text(key)], groups, g, sizes[g]) for g, key in enumerate(keys[:MAX_LISTED])]
        return ReportTable("The groups", [*heads, "records"], rows, len(keys), "groups.parquet")
    larger, index = larger_names(keys)
    for s, name in enumerate(larger):
        members = np.flatnonzero(index == s)
        if groups.larger is not None:
            rows.append(row([name, "(mean)"], groups.larger, s, sizes[members].sum()))
        rows += [row([name, keys[g][0]], groups, g, sizes[g]) for g in members.tolist()]
        if len(rows) >= MAX_LISTED:
            break
    n_rows = len(keys) + (0 if groups.larger is None else len(larger))
    return ReportTable("The groups", [*heads, "records"], rows[:MAX_LISTED], n_rows, "groups.parquet")


def extreme_tables(document: ReleaseDocument) -> list[ReportTable]:
    """Return a table of the groups that differ most from the mean, for each parameter for which there are any.

    Tables of larger groups come first.
    """
    column, tables = document.spec["by"]["column"] if document.spec.get("by") else "", list[ReportTable]()
    keys = keys_of(document, document.spec)
    if not isinstance(document.extreme_larger_groups, UnsetType):
        n_larger, file = len(larger_names(keys)[0]), "larger_groups.parquet"
        tables += _tables(document, document.extreme_larger_groups, column[1], "Larger groups", "mean", n_larger, file)
    if not isinstance(document.extreme_groups, UnsetType):
        own = key_text(column)
        tables += _tables(document, document.extreme_groups, own, "Groups", "estimate", len(keys), "groups.parquet")
    return tables


def _tables(
    document: ReleaseDocument,
    extreme: Sequence[ExtremeGroups],
    column: str,
    what: str,
    estimate: str,
    n_groups: int,
    file: str,
) -> Iterator[ReportTable]:
    write = percent if model_of(document).main_fact.is_share else rounded
    for each in extreme:
        rows = [
            [
                make_visible(group.key),
                *(write(x, group.q95 - group.q05) for x in (group.mean, group.q05, group.q95)),
                f"{group.records:,.0f}",
            ]
            for group in (*each.highest, *each.lowest[::-1])
        ]
        is_all = len(rows) == n_groups
        if not is_all:
            outside = f"{what.lower()} whose intervals exclude the mean"
            is_cut = each.n_above + each.n_below > len(rows)
            what_is_listed = f"The highest and the lowest of the {outside}" if is_cut else outside.capitalize()
        else:
            what_is_listed = what
        caption = f"{what_is_listed}, by {each.parameter if len(extreme) > 1 else estimate}"
        columns = [column, each.parameter if len(extreme) > 1 else "mean", "5 %", "95 %", "records"]
        if rows:
            yield ReportTable(caption, columns, rows, len(rows), "" if is_all else file)
