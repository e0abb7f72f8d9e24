"""What the documentation says is what the program does: set-up, examples, links, commands, exit codes, lengths."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from dpbayes_cli.base.errors import DpbayesError
from dpbayes_cli.main import COMMANDS
from tests.conftest import ROOT
from tests.tools.doc_examples import PAGES, blocks, prepare, printed, run_python

README = (ROOT / "README.md").read_text(encoding="utf-8")
PROSE = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def words(text: str) -> list[str]:
    """The words of a text in no order, with everything that differs from run to run and host to host made alike.

    Messages and result share a terminal in no fixed order, and lines with numbers may break elsewhere.
    """
    for pattern, stand_in in [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
        (r"\b[0-9a-f]{64}\b", "HASH"),
        (r"(?m)^tree [^,]+(?:,[^,]+)*?, found privately", "TREE"),
        (r"[<>]=?50K\b", "CLASS"),  # a prediction may change with the noise
        (r"\S*ledger\.sqlite", "PATH"),
        (r"that\s+of\s+[^.]+?,\s+about", "that of GROUP, about"),
        (r"-?\d+(?:\.\d+)?(?:e-\d+)?", "NUMBER"),
    ]:
        text = re.sub(pattern, stand_in, text)
    return sorted(text.split())


@pytest.mark.parametrize("page", ["README.md", *(pytest.param(page, marks=pytest.mark.slow) for page in PAGES[1:])])
def test_the_examples_of_a_page_are_what_the_program_prints(page: str, tmp_path: Path) -> None:
    """To write them again: python -m tests.tools.doc_examples.

    Which effect a result names, and which warnings there are, can depend on the noise: one of three runs must agree.
    """
    for k in range(3):
        place = tmp_path / str(k)
        place.mkdir()
        environment = prepare(place)
        runs = list(printed(page, place, environment))
        wrong = {command.text: now for command, now in runs if words(now) != words(command.output)}
        if not wrong:
            break
    assert wrong == {}
    if blocks(page, "python"):
        run_python(page, place, environment)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nbclient") is None, reason="pip install '.[docs]'")
def test_the_notebook_runs(tmp_path: Path) -> None:
    import nbclient
    import nbformat

    prepare(tmp_path)
    notebook = nbformat.read(ROOT / "docs/tutorials/first-release.ipynb", 4)  # type: ignore[no-untyped-call, unused-ignore]
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_ci_runs_the_test_command_of_the_readme() -> None:
    setup = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)
    assert len(setup) == 2
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    install, test = setup[1].rsplit(" && ", 1)
    assert {f"{install} ||", test} <= set(script.read_text().splitlines())


def test_the_readme_is_short() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 110
    assert len(README.split()) <= 1300


def test_no_line_of_prose_is_long() -> None:
    long = []
    for path in PROSE:
        in_code = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            in_code ^= line.startswith("```")
            if len(line) > 110 and not in_code and not line.startswith(("|", "#")):
                long.append(f"{path.relative_to(ROOT)}:{number}")
    assert long == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for path in PROSE:
        text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            if not (path.parent / target).exists():
                broken.append(f"{path.relative_to(ROOT)}: {target}")
    assert broken == []


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(str(path.relative_to(ROOT / "docs")) for path in PROSE[1:])


def test_the_gallery_lists_the_claims_of_the_pages() -> None:
    """``python -m docs.study_pages RESULTS`` writes it after the pages."""
    from docs.study_pages import gallery

    assert (ROOT / "docs" / "studies" / "index.md").read_text(encoding="utf-8") == gallery()


def test_no_command_of_the_documentation_is_unknown() -> None:
    named = set()
    for path in PROSE:
        text = path.read_text(encoding="utf-8")
        code = re.findall(r"^```(?:sh|console|text)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
        named |= {*re.findall(r"`dpbayes ([a-z]+)", text)}
        named |= {name for block in code for name in re.findall(r"(?:\$ |^|bin/)dpbayes ([a-z]+)", block, re.MULTILINE)}
    assert named <= set(COMMANDS)


def test_every_exit_code_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    listed = {int(code) for code in re.findall(r"^\| (\d+) \| ", page, re.MULTILINE)}
    kinds = [DpbayesError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    assert listed == {0, 1, 2, 130, 141, 143} | {kind.exit_code for kind in kinds}


def test_the_citation_names_the_version() -> None:
    from dpbayes_cli import __version__

    assert yaml.safe_load((ROOT / "docs" / "CITATION.cff").read_text())["version"] == __version__


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="pip install '.[docs]'")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "-f", "docs/mkdocs.yml", "--strict", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
