"""The posterior as a table of text, for the commands that print one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpbayes_cli.bundle.document import ParameterSummary

_MAX_PARAMETERS = 20


def posterior_lines(
    posterior: Mapping[str, ParameterSummary], warnings: Sequence[str], head: str = "posterior"
) -> list[str]:
    """Return the lines of a table of the posterior, and its warnings; ``head`` titles the first column."""
    width = max(9, *(len(name) for name in list(posterior)[:_MAX_PARAMETERS]))
    lines = [f"{head:{width}} {'mean':>9} {'sd':>9} {'5 %':>9} {'median':>9} {'95 %':>9}"]
    for name, p in list(posterior.items())[:_MAX_PARAMETERS]:
        sd = f"{'-':>9}" if p.sd is None else f"{p.sd:9.3g}"
        quantiles = (f"{'-':>9}" if q is None else f"{q:9.4g}" for q in (p.q05, p.q50, p.q95))
        lines.append(" ".join([f"{name:{width}} {p.mean:9.4g}", sd, *quantiles]))
    if len(posterior) > _MAX_PARAMETERS:
        lines.append(f"... and {len(posterior) - _MAX_PARAMETERS} more in release.json")
    return [*lines, *(f"WARNING: {warning}" for warning in warnings)]
