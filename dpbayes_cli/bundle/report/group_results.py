"""What a result says about its groups: how many differ from the mean of all groups, and the groups that differ most."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UnsetType

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.document_parts import ExtremeGroup, ExtremeGroups
from dpbayes_cli.bundle.files import found_keys, keys_of
from dpbayes_cli.bundle.report.digits import percent, rounded
from dpbayes_cli.bundle.report.report_tables import ReportTable
from dpbayes_cli.bundle.stated_request import model_of
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.model import Model
from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior
from dpbayes_cli.privacy.lazy_numpy import np

MAX_LISTED = 2000
"""The page lists up to this many groups; its text can be searched in the browser."""
MOST_SHOWN = 10
"""A result names up to this many of the highest and of the lowest groups."""


def extreme_groups(
    keys: Sequence[str], parameters: Sequence[str], means: Sequence[float], groups: GroupedPosterior
) -> list[ExtremeGroups]:
    """Return, for each parameter, the groups whose 90 % intervals exclude the mean of all groups.

    Args:
        means: the estimated mean of each parameter over the groups.
    """
    found = []
    for k, (name, mean) in enumerate(zip(parameters, means, strict=True)):
        low, high = groups.quantiles[:, k, 0], groups.quantiles[:, k, 2]
        above, below = np.flatnonzero(low > mean), np.flatnonzero(high < mean)
        estimates = groups.means[:, k]
        highest = above[np.argsort(-estimates[above], kind="stable")][:MOST_SHOWN]
        lowest = below[np.argsort(estimates[below], kind="stable")][:MOST_SHOWN]
        rows = [
            [
                ExtremeGroup(
                    key=keys[g],
                    mean=float(estimates[g]),
                    q05=float(low[g]),
                    q95=float(high[g]),
                    records=float(groups.sizes[g, 0]),
                )
                for g in chosen.tolist()
            ]
            for chosen in (highest, lowest)
        ]
        found.append(
            ExtremeGroups(parameter=name, n_above=len(above), n_below=len(below), highest=rows[0], lowest=rows[1])
        )
    return found


def group_sentences(document: ReleaseDocument) -> list[str]:
    """Return how many groups are above and below the mean of all groups; empty if there are no groups.

    If the keys were found in the data, the first sentence says which groups are likely missing.
    """
    if isinstance(document.extreme_groups, UnsetType):
        return []
    n_groups, several = len(keys_of(document, document.spec)), len(document.extreme_groups) > 1
    sentences = []
    if found_keys(document) is not None:
        records = float(document.parameters.get("key_records", 0.0))
        found = f"The keys of {document.spec['by']['column']} were found in the data"
        about = f"with fewer than about {rounded(records, records)} records"
        if not n_groups:
            return [f"{found}, but no key has enough records to be published: a group {about} is likely missing."]
        sentences.append(f"{found}: a group {about} is likely missing.")
    for each in document.extreme_groups:
        of = f" of {each.parameter}" if several else ""
        rest = n_groups - each.n_above - each.n_below
        sentences.append(
            f"Of {n_groups:,} groups, {each.n_above:,} have a 90 % interval{of} above the mean of all groups and "
            f"{each.n_below:,} below it; the intervals of the other {rest:,} include it."
        )
    return sentences


def noisy_shares(document: ReleaseDocument, model: Model) -> Floats | None:
    """Return the share of each category by the noisy counts of a group alone, shape (n_groups, n_categories).

    A share is NaN if the noisy counts of its group add up to less than 1. The result is None if the groups' parameters
    are not shares.
    """
    if isinstance(document.groups, UnsetType) or not model.main_fact.is_share or len(model.columns[1:]) != 1:
        return None
    if isinstance(model.columns[1], NumericColumn):
        return None
    counts = np.array(document.groups.values, dtype=np.float64).reshape(-1, len(document.groups.components))
    totals = counts.sum(axis=1, keepdims=True)
    return np.asarray(np.where(totals >= 1.0, counts / np.maximum(totals, 1.0), np.nan))


def all_groups_table(document: ReleaseDocument, groups: GroupedPosterior) -> ReportTable:
    """Return a table of the groups in the order of their keys, cut to ``MAX_LISTED`` rows."""
    keys, names = keys_of(document, document.spec), model_of(document).group_parameters
    write = percent if model_of(document).main_fact.is_share else rounded
    columns = [document.spec["by"]["column"]]
    columns += (
        ["mean", "5 %", "95 %"] if len(names) == 1 else [f"{n}{end}" for n in names for end in ("", " 5 %", " 95 %")]
    )
    rows = []
    for g, key in enumerate(keys[:MAX_LISTED]):
        row = [key]
        for k in range(len(names)):
            low, high = groups.quantiles[g, k, 0], groups.quantiles[g, k, 2]
            row += [write(x, high - low) for x in (groups.means[g, k], low, high)]
        rows.append([*row, f"{groups.sizes[g, 0]:,.0f}"])
    return ReportTable("The groups", [*columns, "records"], rows, len(keys), "groups.parquet")


def extreme_tables(document: ReleaseDocument) -> list[ReportTable]:
    """Return a table of the groups that differ most from the mean, for each parameter for which there are any."""
    if isinstance(document.extreme_groups, UnsetType):
        return []
    write = percent if model_of(document).main_fact.is_share else rounded
    column, several = document.spec["by"]["column"], len(document.extreme_groups) > 1
    tables = []
    for each in document.extreme_groups:
        rows = [
            [
                group.key,
                *(write(x, group.q95 - group.q05) for x in (group.mean, group.q05, group.q95)),
                f"{group.records:,.0f}",
            ]
            for group in (*each.highest, *each.lowest[::-1])
        ]
        of = f" {each.parameter}" if several else " estimate"
        columns = [column, "mean" if not several else each.parameter, "5 %", "95 %", "records"]
        caption = f"Groups with the highest and the lowest{of}"
        if rows:
            tables.append(ReportTable(caption, columns, rows, len(rows), "groups.parquet"))
    return tables
