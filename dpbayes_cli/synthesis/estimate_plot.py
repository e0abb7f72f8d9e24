"""A plot of the estimates of an analysis: a point and an interval in each row."""

from __future__ import annotations

from dpbayes_cli.base.figures import new_figure, png_bytes, svg_text
from dpbayes_cli.synthesis.analysis_result import Analyzed


def plot_bytes(result: Analyzed, suffix: str) -> bytes:
    """Return the plot as the bytes of a file with this suffix, ``.svg`` or ``.png``."""
    summary, count = result.summary(), len(result.names)
    figure = new_figure(7.0, 1.2 + 0.3 * count)
    panel = figure.subplots()
    rows = range(count, 0, -1)
    panel.hlines(rows, summary["low"], summary["high"], color="C0")
    panel.plot(summary["median"], rows, "o", color="C0", markersize=5)
    panel.set_yticks(rows, [name.replace("$", r"\$") for name in result.names])
    panel.set_ylim(0.4, count + 0.6)
    if min(summary["low"]) < 0.0 < max(summary["high"]):
        panel.axvline(0.0, color="0.7", linewidth=0.8)
    panel.set_title(result.title.replace("$", r"\$"), fontsize=10, wrap=True)
    panel.set_xlabel(f"posterior median and {100 * result.interval:g} % interval")
    comment = f"release {result.release_id}"
    return svg_text(figure).encode("utf-8") if suffix == ".svg" else png_bytes(figure, comment)
