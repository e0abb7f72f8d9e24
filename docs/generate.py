"""Write the pages of the documentation that follow from the code: ``python -m docs.generate``."""

from __future__ import annotations

from pathlib import Path

from docs.admitted_releases import budgets_page
from docs.error_messages import errors_page
from docs.man_pages import manuals
from docs.reference_pages import PAGES as REFERENCE

DOCS = Path(__file__).parent
GENERATED = {"reference/errors.md": errors_page, "explanation/budgets.md": budgets_page, **REFERENCE}
PAGES = {DOCS / place: make for place, make in GENERATED.items()}


def contents() -> dict[Path, str]:
    """Return the text of every generated file."""
    pages = {place: make() for place, make in PAGES.items()}
    return pages | {DOCS / "man" / name: text for name, text in manuals().items()}


if __name__ == "__main__":
    for place, text in contents().items():
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")
