"""The cost of a Gaussian mechanism, stated in Gaussian DP, zCDP or (epsilon, delta)."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Protocol

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.options import Delta, Epsilon, Mu, Options, Rho
from dpbayes_cli.privacy.noisy_descent import mu_of_statement

BELOW_TARGET = 1.0 - 1e-10
"""Calibration aims at this fraction of a target cost, so that rounding costs up does not exceed the target."""


class MuOptions(Options, frozen=True, kw_only=True):
    """The cost in Gaussian DP, zCDP or (epsilon, delta)."""

    epsilon: Epsilon = None
    delta: Delta = None
    rho: Rho = None
    mu: Mu = None


class StatesMu(Protocol):
    """Options that state a cost which is converted to mu."""

    @property
    def epsilon(self) -> Decimal | None: ...
    @property
    def delta(self) -> Decimal | None: ...
    @property
    def rho(self) -> Decimal | None: ...
    @property
    def mu(self) -> Decimal | None: ...


def stated_mu(options: StatesMu) -> float:
    """Return the largest mu that the stated cost allows.

    Raises:
        SpecError: not exactly one of mu, rho and (epsilon, delta) is stated, or only one of epsilon and delta.
    """
    lacks_epsilon = options.delta is not None and options.epsilon is None
    if [options.mu, options.rho, options.epsilon].count(None) != 2 or lacks_epsilon:
        raise SpecError(
            "state one of: mu; rho; epsilon and delta",
            where="privacy",
            hint="--mu 0.5, --rho 0.1, or --eps 1 --delta 1e-6",
        )
    if options.mu is not None:
        return float(options.mu)
    if options.rho is not None:
        return math.sqrt(2.0 * float(options.rho))
    if options.epsilon is None or options.delta is None:
        raise SpecError(
            "missing: this mechanism has no pure epsilon, so it always needs a delta",
            where="privacy.delta",
            hint="--eps 1 --delta 1e-6, or --mu 0.5",
        )
    return mu_of_statement(float(options.epsilon), float(options.delta))
