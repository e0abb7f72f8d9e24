"""The guarantee of several releases together in Python."""

from __future__ import annotations

from dpbayes_cli.api.released import ReleasedBundle
from dpbayes_cli.api.request import PlannedRequest
from dpbayes_cli.base.numeric import Number, as_decimal
from dpbayes_cli.privacy.composition import compose as compose_guarantees
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import PureDP


def compose(*parts: Guarantee | PlannedRequest | ReleasedBundle | Number) -> Guarantee:
    """Return the guarantee of several releases together; all of them must have been fixed in advance.

    >>> request = dpb.plan(dpb.models.BetaBernoulli(), dpb.mechanisms.Laplace(epsilon="0.5"))
    >>> str(dpb.compose(request, request, 0.25).epsilon)
    '1.25'

    Args:
        parts: guarantees, planned requests, releases, or numbers; a number is the epsilon of pure DP.

    Raises:
        SpecError: an epsilon is outside 1e-12 to 1000, or the cost of a request depends on the number of records.
        ValueError: a part is not a number.

    Privacy: see ``Composition``; a ledger is needed for releases that are chosen adaptively.
    Source: Dwork, Rothblum and Vadhan 2010; Mironov 2017.
    """
    return compose_guarantees(map(_guarantee_of, parts))


def _guarantee_of(part: Guarantee | PlannedRequest | ReleasedBundle | Number) -> Guarantee:
    if isinstance(part, Guarantee):
        return part
    if isinstance(part, PlannedRequest):
        return part.guarantee()
    if isinstance(part, ReleasedBundle):
        return part.guarantee
    return PureDP(as_decimal(part))
