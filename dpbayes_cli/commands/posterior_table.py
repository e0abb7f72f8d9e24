"""The posterior as lines of text, for the commands that print one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpbayes_cli.bundle.document import ParameterSummary

_MANY = 20


def posterior_lines(
    posterior: Mapping[str, ParameterSummary], warnings: Sequence[str], head: str = "posterior"
) -> list[str]:
    """Return a table of the posterior (``head`` says if it is of something else), and its warnings."""
    width = max(9, *(len(name) for name in list(posterior)[:_MANY]))
    lines = [f"{head:{width}} {'mean':>9} {'sd':>9} {'5 %':>9} {'median':>9} {'95 %':>9}"]
    for name, p in list(posterior.items())[:_MANY]:
        sd = f"{'-':>9}" if p.sd is None else f"{p.sd:9.3g}"
        quantiles = (f"{'-':>9}" if q is None else f"{q:9.4g}" for q in (p.q05, p.q50, p.q95))
        lines.append(" ".join([f"{name:{width}} {p.mean:9.4g}", sd, *quantiles]))
    if len(posterior) > _MANY:
        lines.append(f"... and {len(posterior) - _MANY} more in release.json")
    return [*lines, *(f"WARNING: {warning}" for warning in warnings)]
