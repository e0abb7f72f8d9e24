"""What Bernstein and Sheldon 2018 say of their Figure 1, and what a calibration study measures of it."""

from __future__ import annotations

import math

from dpbayes_cli.experiments.calibration.cell import CalibrationCell
from dpbayes_cli.experiments.calibration.measures import INTERVAL, ks_band
from dpbayes_cli.experiments.calibration.study import CalibrationStudy
from dpbayes_cli.experiments.claims import Claim
from dpbayes_cli.experiments.store import FinishedCell
from dpbayes_cli.experiments.tables import Results

SOURCE = "[B] Figure 1"
FALSE_ALARM = 0.001
"""A correct posterior fails a claim with at most this probability."""
_SMALLER = 0.75
"""A KS distance has fallen if it is below this part of what it was."""
_CLAMPED = (
    "They see clamped records, as every release does, and are biased by them at any n. The paper's see unclamped ones, "
    "which is not private."
)
CLEAR = 3.0
"""A difference of so many standard errors is called one."""

_Own = list[tuple[CalibrationCell, FinishedCell]]


def claims(study: CalibrationStudy, results: Results[CalibrationCell]) -> list[Claim]:
    """Return the claims of Figure 1; see ``Kind.claims``."""
    by_method: dict[str, _Own] = {method: [] for method in study.methods}
    for cell, result in results:
        by_method[cell.method].append((cell, result))
    found = []
    if by_method.get("noise-aware"):
        found.append(_calibrated(study, by_method["noise-aware"], by_method.get("non-private", [])))
    if by_method.get("naive"):
        for name in study.cases:
            own = [(cell, result) for cell, result in by_method["naive"] if cell.name == name]
            found.append(_naive(study, name, own))
    if by_method.get("ops"):
        found.append(_ops(by_method["ops"]))
    if study.mmd and by_method.get("naive") and by_method.get("noise-aware"):
        found.append(_nearer(by_method["noise-aware"], by_method["naive"]))
    return found


def _measure(result: FinishedCell, name: str) -> float:
    value = result.measures[name]
    return float("nan") if value is None else value


def _most(own: _Own) -> float:
    return max(_measure(result, "ks") for _, result in own)


def _calibrated(study: CalibrationStudy, own: _Own, exact: _Own) -> Claim:
    """Uniform ranks: the number of cells above the 95 % band is binomial, and no p-value is tiny."""
    from scipy import stats

    band = ks_band(study.trials)
    above = sum(_measure(result, "ks") > band for _, result in own)
    allowed = int(stats.binom.ppf(1.0 - FALSE_ALARM / 2.0, len(own), 0.05))
    least = min(_measure(result, "ks_p_value") for _, result in own)
    beside = f" (non-private {_most(exact):.3f})" if exact else ""
    return Claim(
        SOURCE,
        "Noise-aware posteriors are as calibrated as non-private ones at every n and epsilon.",
        above <= allowed and least >= FALSE_ALARM / 2.0 / len(own),
        f"largest KS distance {_most(own):.3f}{beside}; {above} of {len(own)} cells above the 95 % band {band:.3f}, "
        f"{0.05 * len(own):.1f} expected; least p-value {least:.2g}",
        "" if study.mechanism == "laplace" else f"noise of `{study.mechanism}`",
    )


def _naive(study: CalibrationStudy, name: str, own: _Own) -> Claim:
    """Over-confident where the noise is large, and less so where n epsilon is."""
    ordered = sorted((cell.n_records * float(cell.epsilon), _measure(result, "ks")) for cell, result in own)
    (low, first), (high, last) = ordered[0], ordered[-1]
    falls, band = last < _SMALLER * first, ks_band(study.trials)
    return Claim(
        SOURCE,
        f"{name}: naive posteriors are too confident, and become calibrated only with n and epsilon.",
        first > ks_band(study.trials, 1.0 - FALSE_ALARM) and falls,
        f"KS distance {first:.3f} at n epsilon {low:g}, {last:.3f} at {high:g}; the band is {band:.3f}",
        "" if falls else _CLAMPED,
    )


def _ops(own: _Own) -> Claim:
    """Ranks crowd in the middle."""
    wide = [_measure(result, "coverage") for _, result in own]
    caught = sum(_measure(result, "ks_p_value") < FALSE_ALARM for _, result in own)
    return Claim(
        SOURCE,
        "Posterior samples are never calibrated: they are too dispersed.",
        caught == len(own) and min(wide) > INTERVAL,
        f"p-value below {FALSE_ALARM:g} in {caught} of {len(own)} cells; {INTERVAL:.0%} intervals hold the truth in "
        f"{min(wide):.1%} to {max(wide):.1%}",
    )


def _nearer(own: _Own, naive: _Own) -> Claim:
    """The distance to the non-private posterior, cell by cell."""
    others = {(cell.name, cell.n_records, cell.epsilon): result for cell, result in naive}
    away = {}
    for cell, result in own:
        other = others[cell.name, cell.n_records, cell.epsilon]
        value = _measure(result, "mmd_squared") - _measure(other, "mmd_squared")
        error = math.hypot(_measure(result, "mmd_squared_error"), _measure(other, "mmd_squared_error"))
        away[f"{cell.name} n {cell.n_records} epsilon {cell.epsilon}"] = value / error if error > 0.0 else 0.0
    worse = [place for place, z in away.items() if z > CLEAR]
    nearer = sum(z < -CLEAR for z in away.values())
    return Claim(
        SOURCE,
        "Noise-aware posteriors are at least as near to the non-private one as naive ones.",
        not worse,
        f"clearly nearer in {nearer} of {len(away)} cells, clearly further in {len(worse)}"
        + (f" ({', '.join(worse)})" if worse else ""),
        "The bounds of the exponential model are public and fixed here, so that naive posteriors see clamped records, "
        "and the comparison means something there too.",
    )
