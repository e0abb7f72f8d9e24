from __future__ import annotations

from dpbayes_cli.bundle.report.cut_text import cut_text, ems_of
from tests.bundle.pictures import HOSTILE


def test_a_cut_text_keeps_its_ends_and_fits() -> None:
    assert cut_text("short", 10.0) == "short"
    for name in (*HOSTILE, "occupation number 17", "W" * 99, "日本語" * 20):
        cut = cut_text(name, 8.0)
        assert ems_of(cut) <= 8.0
        assert cut == name or "…" in cut
    assert cut_text("occupation number 17", 8.0).endswith("17")
    assert cut_text("occupation number 17", 8.0).startswith("occ")


def test_widths_are_no_less_than_those_of_the_widest_common_font() -> None:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font, measure = FontProperties(family="DejaVu Sans", size=100), TextToPath()
    for code in (*range(0x20, 0x7F), *range(0xA1, 0x100), *range(0x410, 0x450), 0x2014, 0x2026):
        width = measure.get_text_width_height_descent(chr(code), font, ismath=False)[0]
        assert ems_of(chr(code)) >= width / 100 - 0.01, chr(code)
