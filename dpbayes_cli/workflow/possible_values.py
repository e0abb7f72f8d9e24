"""Check whether released values are possible: whether any data and noise lead to them."""

from __future__ import annotations

import itertools
import math

import msgspec

from dpbayes_cli.base.cell_grammar import is_publishable_key, normal_cell
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.files import found_keys
from dpbayes_cli.bundle.read import Bundle
from dpbayes_cli.core.derivatives import DerivativeRows
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.privacy.key_threshold import KeyThreshold
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.step_law import StepLaw
from dpbayes_cli.workflow.statistic_limits import limits_of, limits_of_group

_IMPOSSIBLE_NATS = 80.0
"""Noise that is less than e^-80 times as likely as zero noise counts as impossible. The probability that any of a
million statistics has such noise is below 1e-27."""
_SHOWN = 20
"""Up to this many impossible numbers of groups are named."""


def check_values(bundle: Bundle, plan: Plan, checked: list[str], unchecked: list[str], findings: list[str]) -> None:
    """Check that some data and some noise give each released value, or say why this cannot be checked.

    Args:
        checked, unchecked, findings: the lists to which the result is added; see ``Verification``.
    """
    document = bundle.document
    if document.draws:
        possible = [_is_possible(plan.final_step.law, values) for values in document.draws]
        if False in possible:
            findings.append("draws: some are impossible under their law")
        elif None in possible:
            unchecked.append("whether the draws are possible under their law: it is only known that they are finite")
        else:
            checked.append("the draws are possible under their law")
        return
    statistic, law = plan.final_step.statistic, plan.final_step.noise
    n_records = document.n_records
    most = math.inf if n_records is None else float(n_records * bundle.spec.policy.contributions)
    if not isinstance(document.groups, msgspec.UnsetType):
        components, keys, radius = document.groups.components, bundle.model.group_keys, law.radius(_IMPOSSIBLE_NATS)
        limits_by_component = limits_of_group(components, bundle.model, most)
        values = enumerate(zip(document.groups.values, itertools.cycle(limits_by_component), strict=False))
        wrong = [i for i, (value, (low, high)) in values if not low - radius <= value <= high + radius]
        for i in wrong[:_SHOWN]:
            name = f"{components[i % len(components)]}[{keys[i // len(components)]}]"
            findings.append(f"groups: {name} is impossible: no data and noise lead to it")
        checked.append("the released numbers of each group are possible: some records and some noise give them")
        if plan.threshold is not None:
            _check_keys(document, plan.threshold, checked, findings)
        return
    rows = plan.final_step.rows
    if isinstance(rows, DerivativeRows):
        limits = rows.limits(most, len(statistic.names))
    else:
        limits = limits_of(statistic, bundle.model, most)
    laws = [law.at(i) for i in range(len(document.statistics))]
    radii = {each: each.radius(_IMPOSSIBLE_NATS) for each in dict.fromkeys(laws)}
    for released, each, (low, high) in zip(document.statistics, laws, limits, strict=True):
        radius = radii[each]
        if not low - radius <= released.value <= high + radius:
            findings.append(f"statistics: {released.name} is impossible: no data and noise lead to it")
    checked.append("each released number is possible: there are data and noise that lead to it")


def _check_keys(document: ReleaseDocument, threshold: KeyThreshold, checked: list[str], findings: list[str]) -> None:
    """Check that the published keys are keys, are sorted, and pass the threshold."""
    keys, groups = list(found_keys(document) or ()), document.groups
    counts = [] if isinstance(groups, msgspec.UnsetType) else groups.values
    n_passing = len(threshold.passes(np.array(counts, dtype=np.int64).reshape(len(keys), -1))) if keys else 0
    if n_passing < len(keys):
        findings.append("groups: a key is published although its noisy number of records is below the threshold")
    if keys != sorted(set(keys)) or not all(is_publishable_key(key) and normal_cell(key) == key for key in keys):
        findings.append("groups: the keys are not sorted, or one of them is no key")
    checked.append(f"each published key reaches the threshold of {threshold.records:.6g} records")


def _is_possible(law: StepLaw, values: list[float]) -> bool | None:
    """Return whether a draw is possible under its law; None if its values are finite and the law cannot tell."""
    return law.is_possible(values) if all(math.isfinite(value) for value in values) else False
