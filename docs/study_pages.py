"""Write the pages of the studies from a run: ``python -m docs.study_pages RESULTS``.

RESULTS holds one directory for each study, as ``dpbayes experiment FILE --out RESULTS/NAME`` writes it. It may also
hold what the benchmarks printed::

    python -m pytest -m benchmark -n 0 -o junit_logging=system-out --junitxml=RESULTS/benchmarks.xml tests/benchmarks
    python -m tests.benchmarks.plan_and_audit_times --audit > RESULTS/plan-and-audit.txt

Nothing on these pages is typed by hand.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
import xml.etree.ElementTree as ET
from pathlib import Path

PAGES = Path(__file__).parent / "studies"
SOURCES = {
    "B": "Bernstein and Sheldon 2018",
    "F": "Foulds, Geumlek, Welling and Chaudhuri 2016",
    "G": "Geumlek, Song and Chaudhuri 2017",
    "Z": "Zhang, Rubinstein and Dimitrakakis 2016",
}


def claims(summary: str) -> list[list[str]]:
    """Return the rows of the table of claims of a study: whose, what, verdict, measured, why."""
    section = re.search(r"^## Claims\n(.*?)(?=^## |\Z)", summary, re.DOTALL | re.MULTILINE)
    rows = [line.strip("|").split("|") for line in (section[1] if section else "").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def wrap(page: str) -> str:
    """Return a page whose paragraphs and list items have lines of at most 110 characters."""
    lines: list[str] = []
    paragraph: list[str] = []
    in_code = False
    for line in [*page.splitlines(), ""]:
        in_code ^= line.startswith("```")
        is_whole = in_code or not line or line.startswith(("|", "#", "```", "!["))
        if paragraph and (is_whole or line.startswith("- ")):
            indent = "  " if paragraph[0].startswith("- ") else ""
            whole = " ".join(each.strip() for each in paragraph)
            lines += textwrap.wrap(whole, 110, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
            paragraph = []
        if is_whole:
            lines.append(line)
        else:
            paragraph.append(line)
    return "\n".join(lines)


def write_study(results: Path) -> None:
    """Write the page and the figures of a study."""
    name, summary = results.name, (results / "summary.md").read_text(encoding="utf-8")
    figures = PAGES / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    shown = ["", "## Figures", ""]
    for picture in sorted(results.glob("*.svg")):
        shutil.copyfile(picture, figures / f"{name}-{picture.name}")
        shown += [f"![{picture.stem}](figures/{name}-{picture.name})", ""]
    text = re.sub(r"\n## Figures\n\n(?:- .*\n)*", "\n", summary)
    text = re.sub(r"\]\((?!http)[^)]*\)", "]", text)  # links to files of the run
    run = f"Run it: `dpbayes experiment configs/experiments/{name}.yaml --out {name}`\n"
    title, _, rest = text.partition("\n")
    page = f"{title}\n\n{run}{rest.rstrip()}\n" + "\n".join(shown).rstrip()
    (PAGES / f"{name}.md").write_text(wrap(page), encoding="utf-8")


def gallery() -> str:
    """Return the page that lists the claims of all studies that have a page."""
    lines = [
        "# Gallery",
        "",
        "What the papers show in their figures, and what these studies find. Verdicts are computed by the studies: a",
        "claim that does not hold is reported, and is no failure. The output of a study is not private.",
        "",
        "| study | whose | what is shown | verdict | measured |",
        "|---|---|---|---|---|",
    ]
    for page in sorted(set(PAGES.glob("*.md")) - {PAGES / "index.md", PAGES / "benchmarks.md"}):
        for whose, what, verdict, measured, *_ in claims(page.read_text(encoding="utf-8")):
            lines.append(f"| [{page.stem}]({page.name}) | {whose} | {what} | {verdict} | {measured} |")
    lines += ["", *(f"- [{mark}]: {source}" for mark, source in SOURCES.items())]
    return "\n".join(lines) + "\n"


def write_benchmarks(results: Path) -> None:
    """Write the page of the benchmarks with those that were run; the others stay."""
    measured, page = results / "benchmarks.xml", PAGES / "benchmarks.md"
    if not measured.exists():
        return
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    blocks = {each.partition("\n")[0]: each.rstrip() for each in re.split(r"^## ", old, flags=re.MULTILINE)[1:]}
    about = (
        "Each block is what one benchmark printed. Times are seconds on two cores, which may have done other work at "
    )
    about += "the same time. The ratios within a block come from one run."
    head = "\n".join(["# Benchmarks", "", *textwrap.wrap(about, 110)])
    for case in ET.parse(measured).iter("testcase"):  # noqa: S314 - our own file
        name = case.attrib["name"].removeprefix("test_").replace("_", " ")
        lines_of = (case.findtext("system-out") or "").splitlines()
        printed = "\n".join(line for line in lines_of if not line.startswith("----")).strip("\n")
        if printed:
            title = f"{name[:1].upper()}{name[1:]}"
            blocks[title] = f"{title}\n\n```text\n{printed}\n```"
    table = results / "plan-and-audit.txt"
    if table.exists():
        shown = table.read_text(encoding="utf-8").strip("\n")
        about = (
            "CPU and wall seconds of a whole process: a plan for 1,000 records, and an audit with as many records as\n"
            "it makes up by default; > means that it was stopped after 120 s. The machine did other work at the same "
            "time."
        )
        blocks["`plan` and `audit`"] = f"`plan` and `audit`\n\n{about}\n\n```text\n{shown}\n```"
    page.write_text("\n\n## ".join([head, *blocks.values()]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_benchmarks(Path(sys.argv[1]))
    for summary in Path(sys.argv[1]).glob("*/summary.md"):
        write_study(summary.parent)
    (PAGES / "index.md").write_text(gallery(), encoding="utf-8")
