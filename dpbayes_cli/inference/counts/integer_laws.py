"""Laws on consecutive integers: convolved, and drawn backwards given what they add up to.

Source: forward filtering, backward sampling; the fast Fourier transform where a direct convolution is too long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_DIRECT = 1 << 22
_CHUNK = 1 << 22
_TRIM = 1e-30
_ROUNDING = 1e-15
"""Errors of a fast convolution stay below this part of its largest value."""


@dataclass(frozen=True)
class Law:
    """A measure on consecutive integers, exp(log_scale) * mass[i] at low + i; the largest mass is one."""

    low: int
    mass: Floats
    log_scale: float


def tilted(log_factor: Floats, low: int, tilt: float) -> Law:
    """Return the law exp(log_factor + tilt * count), counts from ``low`` on."""
    log_mass = log_factor + tilt * (low + np.arange(len(log_factor)))
    return trimmed(low, np.exp(log_mass - log_mass.max()), float(log_mass.max()), _TRIM)


def trimmed(low: int, mass: Floats, log_scale: float, floor: float) -> Law:
    """Cut off and zero what is below a part of the largest mass, and scale the largest to one."""
    largest = float(mass.max())
    (kept,) = np.nonzero(mass > floor * largest)
    first, last = int(kept[0]), int(kept[-1])
    mass = np.where(mass > floor * largest, mass / largest, 0.0)[first : last + 1]
    return Law(low + first, mass, log_scale + math.log(largest))


def convolved(left: Law, right: Law, floor: float = _TRIM) -> Law:
    """Return the law of a sum, cut off where it is below a part of its largest mass."""
    low, log_scale = left.low + right.low, left.log_scale + right.log_scale
    if len(left.mass) * len(right.mass) <= _DIRECT:
        return trimmed(low, np.convolve(left.mass, right.mass), log_scale, floor)
    size = len(left.mass) + len(right.mass) - 1
    padded = 1 << (size - 1).bit_length()
    spectrum = np.fft.rfft(left.mass, padded) * np.fft.rfft(right.mass, padded)
    return trimmed(low, np.fft.irfft(spectrum, padded)[:size], log_scale, max(floor, _ROUNDING))


def suffixes_of(factors: Sequence[Law], floor: float = _TRIM) -> list[Law]:
    """Return for each k the law of what factors k and later add up to."""
    suffixes = [factors[-1]]
    for factor in reversed(factors[:-1]):
        suffixes.append(convolved(factor, suffixes[-1], floor))
    return suffixes[::-1]


def backward(factors: Sequence[Law], suffixes: Sequence[Law], totals: Integers, rng: np.random.Generator) -> Integers:
    """Draw the counts in turn, each given what is left of the total."""
    counts = np.empty((len(totals), len(factors)), dtype=np.int64)
    rest = totals.astype(np.int64)
    for k, factor in enumerate(factors[:-1]):
        uniform = rng.random(len(rest))
        alone = int(rest.max() - rest.min()) >= len(rest)
        drawn = (
            _each_row(factor, suffixes[k + 1], rest, uniform)
            if alone
            else _rows_shared(factor, suffixes[k + 1], rest, uniform)
        )
        counts[:, k] = factor.low + np.clip(drawn, 0, len(factor.mass) - 1)
        rest = rest - counts[:, k]
    counts[:, -1] = rest
    return counts


def _each_row(factor: Law, after: Law, rest: Integers, uniform: Floats) -> Integers:
    """Return the index of each count, by a table of one row a draw."""
    found = np.empty(len(rest), dtype=np.int64)
    step = max(1, _CHUNK // len(factor.mass))
    for start in range(0, len(rest), step):
        part = slice(start, start + step)
        cumulative = conditional(factor, after, rest[part])
        np.cumsum(cumulative, axis=1, out=cumulative)
        found[part] = np.count_nonzero(cumulative <= (uniform[part] * cumulative[:, -1])[:, None], axis=1)
    return found


def _rows_shared(factor: Law, after: Law, rest: Integers, uniform: Floats) -> Integers:
    """Return the index of each count, by a table whose rows draws with equal remainders share."""
    found = np.empty(len(rest), dtype=np.int64)
    remainders, row = np.unique(rest, return_inverse=True)
    step = max(1, _CHUNK // len(factor.mass))
    for start in range(0, len(remainders), step):
        chunk = remainders[start : start + step]
        cumulative = np.cumsum(conditional(factor, after, chunk), axis=1)
        cumulative /= cumulative[:, -1:]
        inside = (row >= start) & (row < start + step)
        local = row[inside] - start
        flat = (cumulative + np.arange(len(chunk))[:, None]).ravel()
        found[inside] = np.searchsorted(flat, local + uniform[inside], side="right") - local * len(factor.mass)
    return found


def conditional(factor: Law, after: Law, remainders: Integers) -> Floats:
    """Return the unnormalized law of one count given what it and all later counts add up to, one row a remainder."""
    width, length = len(factor.mass), len(after.mass)
    padded = np.zeros(length + 2 * width)
    padded[width : width + length] = after.mass[::-1]
    # What is left for the later counts falls as this one grows, so that a row is a window of the law read backwards.
    rest = np.clip(remainders - factor.low - after.low, -1, length + width - 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)
    return np.asarray(factor.mass * windows[length + width - 1 - rest])
