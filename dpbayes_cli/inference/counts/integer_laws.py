"""Measures on consecutive integers: their convolutions, and draws of the terms of a sum given the sum.

A convolution is computed directly or, if that would be too slow, by the fast Fourier transform. The terms are drawn by
forward filtering, backward sampling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers

_MAX_DIRECT_PRODUCTS = 1 << 22
_CHUNK_ELEMENTS = 1 << 22
_TRIM_FLOOR = 1e-30
_FFT_ROUNDING = 1e-15
"""An upper bound on the error of a convolution by FFT, relative to the convolution's largest value."""


@dataclass(frozen=True)
class Law:
    """A measure on consecutive integers: that of low + i is exp(log_scale) * mass[i]; the largest mass[i] is 1."""

    low: int
    mass: Floats
    log_scale: float


def tilt_law(log_factor: Floats, low: int, tilt: float) -> Law:
    """Return the law with mass exp(log_factor + tilt * count) on consecutive counts, the first of which is ``low``."""
    log_mass = log_factor + tilt * (low + np.arange(len(log_factor)))
    return trim_law(low, np.exp(log_mass - log_mass.max()), float(log_mass.max()), _TRIM_FLOOR)


def trim_law(low: int, mass: Floats, log_scale: float, floor: float) -> Law:
    """Return a law with the largest mass scaled to one; masses below ``floor`` times the largest become zero."""
    largest = float(mass.max())
    (kept,) = np.nonzero(mass > floor * largest)
    first, last = int(kept[0]), int(kept[-1])
    mass = np.where(mass > floor * largest, mass / largest, 0.0)[first : last + 1]
    return Law(low + first, mass, log_scale + math.log(largest))


def convolve_laws(left: Law, right: Law, floor: float = _TRIM_FLOOR) -> Law:
    """Return the law of the sum of two independent terms; masses below ``floor`` times the largest become zero."""
    low, log_scale = left.low + right.low, left.log_scale + right.log_scale
    if len(left.mass) * len(right.mass) <= _MAX_DIRECT_PRODUCTS:
        return trim_law(low, np.convolve(left.mass, right.mass), log_scale, floor)
    size = len(left.mass) + len(right.mass) - 1
    padded = 1 << (size - 1).bit_length()
    spectrum = np.fft.rfft(left.mass, padded) * np.fft.rfft(right.mass, padded)
    return trim_law(low, np.fft.irfft(spectrum, padded)[:size], log_scale, max(floor, _FFT_ROUNDING))


def suffix_sums(factors: Sequence[Law], floor: float = _TRIM_FLOOR) -> list[Law]:
    """Return for each term the law of the sum of this term and all later ones; masses are cut at ``floor``."""
    suffixes = [factors[-1]]
    for factor in reversed(factors[:-1]):
        suffixes.append(convolve_laws(factor, suffixes[-1], floor))
    return suffixes[::-1]


def draw_given_totals(
    factors: Sequence[Law], suffixes: Sequence[Law], totals: Integers, rng: np.random.Generator
) -> Integers:
    """Draw the terms of sums given their totals, one term after the other, shape (n_draws, n_factors).

    ``suffixes`` is the result of ``suffix_sums``; ``totals`` has shape (n_draws,).
    """
    counts = np.empty((len(totals), len(factors)), dtype=np.int64)
    remainder = totals.astype(np.int64)
    for k, factor in enumerate(factors[:-1]):
        uniform = rng.random(len(remainder))
        draw = _draw_one_by_one if int(remainder.max() - remainder.min()) >= len(remainder) else _draw_by_remainder
        index = draw(factor, suffixes[k + 1], remainder, uniform)
        counts[:, k] = factor.low + np.clip(index, 0, len(factor.mass) - 1)
        remainder = remainder - counts[:, k]
    counts[:, -1] = remainder
    return counts


def _draw_one_by_one(factor: Law, after: Law, remainder: Integers, uniform: Floats) -> Integers:
    """Return drawn indices into ``factor.mass``, by a table with one row per draw."""
    index = np.empty(len(remainder), dtype=np.int64)
    n_rows = max(1, _CHUNK_ELEMENTS // len(factor.mass))
    for start in range(0, len(remainder), n_rows):
        part = slice(start, start + n_rows)
        cumulative = conditional_masses(factor, after, remainder[part])
        np.cumsum(cumulative, axis=1, out=cumulative)
        index[part] = np.count_nonzero(cumulative <= (uniform[part] * cumulative[:, -1])[:, None], axis=1)
    return index


def _draw_by_remainder(factor: Law, after: Law, remainder: Integers, uniform: Floats) -> Integers:
    """Return drawn indices into ``factor.mass``, by a table with one row per distinct remainder."""
    index = np.empty(len(remainder), dtype=np.int64)
    remainders, row = np.unique(remainder, return_inverse=True)
    n_rows = max(1, _CHUNK_ELEMENTS // len(factor.mass))
    for start in range(0, len(remainders), n_rows):
        chunk = remainders[start : start + n_rows]
        cumulative = np.cumsum(conditional_masses(factor, after, chunk), axis=1)
        cumulative /= cumulative[:, -1:]
        inside = (row >= start) & (row < start + n_rows)
        local = row[inside] - start
        flat = (cumulative + np.arange(len(chunk))[:, None]).ravel()
        index[inside] = np.searchsorted(flat, local + uniform[inside], side="right") - local * len(factor.mass)
    return index


def conditional_masses(factor: Law, after: Law, remainders: Integers) -> Floats:
    """Return the unnormalized law of a term given its sum with all later terms, one row for each value of the sum."""
    width, length = len(factor.mass), len(after.mass)
    padded = np.zeros(length + 2 * width)
    padded[width : width + length] = after.mass[::-1]
    # the larger this term, the smaller the sum of the later ones: a row is a window of the reversed law of that sum
    remainder = np.clip(remainders - factor.low - after.low, -1, length + width - 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)
    return np.asarray(factor.mass * windows[length + width - 1 - remainder])
