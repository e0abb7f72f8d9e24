"""Figures as SVG or PNG, with the same bytes for the same data: no date, no random IDs, no pyplot state."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure; ``width`` and ``height`` are in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def svg_text(figure: Figure) -> str:
    """Return a figure as an SVG element, without an XML prologue; its texts are text elements, not paths."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dpbayes"}):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def png_bytes(figure: Figure, comment: str) -> bytes:
    """Return the bytes of a figure as a PNG file, with a comment in its metadata."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None, "Comment": comment})
    return buffer.getvalue()
