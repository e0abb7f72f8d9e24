"""The first sentence of a result of groups: the groups with the highest and the lowest estimate."""

from __future__ import annotations

from msgspec import UnsetType

from dpbayes_cli.base.cell_grammar import make_visible
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.document_parts import ExtremeGroup
from dpbayes_cli.bundle.files import GroupKey, keys_of
from dpbayes_cli.bundle.report.digits import percent, rounded
from dpbayes_cli.bundle.stated_request import model_of


def extremes_sentence(document: ReleaseDocument) -> str:
    """Return a sentence with the highest and the lowest of the listed groups; empty if groups have several parameters.

    A document lists all groups if they are few, more only if they differ clearly from their mean.
    """
    extremes = document.extreme_groups
    if isinstance(extremes, UnsetType) or len(extremes) != 1:
        return ""
    extreme, n_groups = extremes[0], len(keys_of(document, document.spec))
    listed = [*extreme.highest, *extreme.lowest[::-1]]
    if len(listed) < 2:
        return ""
    write = percent if model_of(document).main_fact.is_share else rounded

    def stated(group: ExtremeGroup, interval: str) -> str:
        mean, low, high = (write(x, group.q95 - group.q05) for x in (group.mean, group.q05, group.q95))
        return f"{make_visible(group.key)}, about {mean} ({interval}{low} to {high})"

    column = key_text(document.spec["by"]["column"])
    clear = extreme.n_above + extreme.n_below
    of = f"Of the {n_groups:,} groups by {column}" + (
        "" if len(listed) == n_groups else f", {clear:,} differ clearly from the mean of all; of these"
    )
    return f"{of}, the highest estimate is that of {stated(listed[0], '90 % interval ')}, and the lowest that of " + (
        f"{stated(listed[-1], '')}."
    )


def key_text(key: GroupKey) -> str:
    """Return the key of a group, or the two keys of a group and of the larger group that it belongs to."""
    return key if isinstance(key, str) else ", ".join(key)
