"""Figures as SVG or PNG, the same bytes for the same data: no date, no random ids, no pyplot state."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure.

    Args:
        width, height: in inches.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def svg_text(figure: Figure) -> str:
    """Return a figure as an SVG element, texts as texts, without XML prologue."""
    import io

    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dpbayes"}):
        sink = io.StringIO()
        figure.savefig(sink, format="svg", metadata={"Date": None, "Creator": None})
    text = sink.getvalue()
    return text[text.index("<svg") :]


def png_bytes(figure: Figure, comment: str) -> bytes:
    """Return a figure as a PNG file.

    Args:
        figure: the figure.
        comment: what its metadata say.
    """
    import io

    sink = io.BytesIO()
    figure.savefig(sink, format="png", dpi=150, metadata={"Software": None, "Comment": comment})
    return sink.getvalue()
