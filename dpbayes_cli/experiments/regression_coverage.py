"""Claims about how often intervals of the coefficients of regressions contain the true ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dpbayes_cli.experiments.results import CLEAR, OURS, Claim, Result, Results, in_words

BETWEEN = 0.87, 0.93
"""The coverage that claims expect of 90 % intervals."""
NARROW, WIDE = "too narrow", "too wide"
"""The words of plans."""


def calibrated(name: str, own: Results, told: Sequence[Collection[str]], trials: int) -> Claim:
    """Return the claim that each point, and each average of points of which plans say the same, is calibrated.

    Args:
        told: for each point, what its plan says about the intervals.
        trials: the number of data sets of a point.
    """
    alike: dict[tuple[int, bool, bool], list[Result]] = {}
    for each, sides in zip(own, told, strict=True):
        alike.setdefault((each["features"], NARROW in sides, WIDE in sides), []).append(each)
    words: dict[bool, list[str]] = {False: [], True: []}
    wrong = set()
    for (_, is_narrow, is_wide), points in alike.items():
        for some in [points, *([each] for each in points if len(points) > 1)]:
            if side := _beyond(some, trials):
                is_told = is_narrow if side == NARROW else is_wide
                words[is_told].append(_in_words(some))
                wrong |= set() if is_told else {side}
    outside, expected = ("; ".join(words[is_told]) or "none" for is_told in (False, True))
    return Claim(
        OURS,
        f"{name}: intervals of `noise-aware` contain {BETWEEN[0]:.0%} to {BETWEEN[1]:.0%} of the true coefficients, up "
        f"to {CLEAR:g} standard errors, at each point and on average, unless plans say that they contain less or more.",
        not wrong,
        f"{_range(own)}; outside: {outside}; outside, as plans say: {expected}",
        f"There the intervals are {' or '.join(sorted(wrong))}." if wrong else "",
    )


def too_narrow(name: str, own: Results) -> Claim:
    """Return the claim that intervals contain too little at every point."""
    fine = [[each] for each in own if each.measure("coverage") > BETWEEN[0]]
    return Claim(
        OURS,
        f"{name}: intervals of `naive` contain less than {BETWEEN[0]:.0%} at every point.",
        not fine,
        f"{_range(own)}; not less: {'; '.join(map(_in_words, fine)) or 'none'}",
    )


def _average(points: Sequence[Result]) -> tuple[float, float]:
    """Return the average coverage, and its standard error."""
    coverages, errors = ([each.measure(name) for each in points] for name in ("coverage", "coverage_se"))
    return sum(coverages) / len(points), sum(error**2 for error in errors) ** 0.5 / len(points)


def _beyond(points: Sequence[Result], trials: int) -> str:
    """Return whether intervals are too narrow or too wide on average, up to some standard errors.

    The estimated error of a share near 1 is too small; it is at least that of as many independent intervals.
    """
    coverage, error = _average(points)
    limit = min(max(coverage, BETWEEN[0]), BETWEEN[1])
    intervals = trials * sum(each["features"] + 1 for each in points)
    if abs(coverage - limit) <= CLEAR * max(error, (limit * (1.0 - limit) / intervals) ** 0.5):
        return ""
    return NARROW if coverage < limit else WIDE


def _range(own: Results) -> str:
    average, error = _average(list(own))
    values = [each.measure("coverage") for each in own]
    return f"coverage {average:.3f} ± {error:.3f} on average, from {min(values):.3f} to {max(values):.3f}"


def _in_words(points: Sequence[Result]) -> str:
    first, (average, error) = points[0], _average(points)
    names = ("features", "n", "epsilon") if len(points) == 1 else ("features",)
    of_many = f", {len(points)} points" if len(points) > 1 else ""
    return f"{in_words({name: first[name] for name in names})}{of_many}: {average:.3f} ± {error:.3f}"
