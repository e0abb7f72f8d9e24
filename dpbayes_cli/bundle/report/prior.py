"""The prior of a release beside its posterior: intervals for tables, and densities for plots."""

from __future__ import annotations

from collections.abc import Sequence

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.core.model import Model
from dpbayes_cli.privacy.lazy_numpy import np

_POINTS = 400


def prior_ends(document: ReleaseDocument, model: Model, tails: Sequence[float]) -> dict[str, list[float]]:
    """Return, for each parameter whose prior is known, the quantiles of the prior at two levels from 0 to 1.

    If draws or estimates were released, no parameter has an entry, because their mechanism may restrict the prior.
    """
    quantiles = None if document.draws else model.prior_quantiles(np.asarray(tails))
    if quantiles is None:
        return {}
    named = zip(model.parameters, quantiles, strict=True)
    return {name: ends.tolist() for name, ends in named if np.isfinite(ends).all()}


def prior_densities(document: ReleaseDocument, model: Model) -> dict[str, tuple[Floats, Floats]]:
    """Return points and prior densities by parameter, each of shape (n_points,); ``prior_ends`` says for which."""
    if document.draws:
        return {}
    levels = np.linspace(0.0, 1.0, _POINTS + 2)[1:-1]
    quantiles = model.prior_quantiles(levels)
    densities = {}
    for name, q in zip(model.parameters, () if quantiles is None else quantiles, strict=quantiles is not None):
        steps = np.diff(q)
        if np.isfinite(q).all() and (steps > 0).all():
            densities[name] = (q[:-1] + steps / 2.0, np.diff(levels) / steps)
    return densities
