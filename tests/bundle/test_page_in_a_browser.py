"""The page in headless Chromium: it asks for nothing, logs nothing, is accessible, fits a phone and prints."""

from __future__ import annotations

import http.server
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser, running, why_not
from tests.conftest import ROOT, SAMPLE_DATA, Cli

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

CONFIGS = ROOT / "configs" / "releases"
COIN = [str(SAMPLE_DATA / "relapse.csv"), "--model", "beta-bernoulli", "--on-invalid", "impute:0"]
RELEASES: dict[str, tuple[list[str], list[str]]] = {
    "laplace": (["--epsilon", "3"], [*COIN, "--eps", "1"]),
    "gaussian": (["--rho", "1"], [*COIN, "--mechanism", "gaussian", "--rho", "0.05"]),
    "rdp-direct": (
        ["--epsilon", "9", "--delta", "1e-6"],
        [*COIN, "--mechanism", "rdp-direct", "--prior", "alpha=10,beta=10"],
    ),
    "gdp": (
        ["--epsilon", "3", "--delta", "1e-6", "--gaussian"],
        ["--spec", str(CONFIGS / "adult-logistic-regression.yaml")],
    ),
    "several parameters": (["--epsilon", "3"], ["--spec", str(CONFIGS / "survey.yaml")]),
    "chains": (["--epsilon", "3"], ["--spec", str(CONFIGS / "clinic-age-private-bounds.yaml")]),
    "estimate": (["--epsilon", "3"], ["--spec", str(CONFIGS / "clinic-months-estimate.yaml")]),
    "private chain": (["--epsilon", "3"], ["--spec", str(CONFIGS / "clinic-classes.yaml")]),
    "network": (["--epsilon", "3"], ["--spec", str(CONFIGS / "adult-naive-bayes.yaml")]),
    "hmm": (["--epsilon", "9"], ["--spec", str(CONFIGS / "events-hmm.yaml")]),
}
LARGEST = 700_000
SCHEDULE = """
account: nights
epsilon: 3
delta: 1e-6
releases:
  - name: relapse
    times: 30
    spec: {{model: beta-bernoulli, on_invalid: "impute:0", privacy: {{epsilon: 0.04}}}}
    data: {data}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all pages."""
    with running() as browser:
        yield browser


def pictures_on_every_screen(browser: Browser, page: Path) -> list[int]:
    """Check a page on wide and narrow screens, light and dark; return the numbers of pictures."""
    pictures = []
    for width, dark in itertools.product((1200, 360), (False, True)):
        browser.open(page, width=width, dark=dark)
        background = browser.script("return getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") != dark
        assert browser.script("return document.documentElement.scrollWidth") <= width
        pictures.append(browser.script("return document.querySelectorAll('svg').length"))
        violations = [(rule["id"], [node["html"][:200] for node in rule.get("nodes", [])]) for rule in browser.axe()]
        assert violations == []
        assert (browser.logged, browser.requested) == ([], [page.absolute().as_uri()])
    return pictures


@pytest.mark.parametrize("name", RELEASES)
def test_a_page_on_every_screen(name: str, browser: Browser, dpbayes: Cli) -> None:
    budget, request = RELEASES[name]
    assert dpbayes("budget", "open", "account", *budget).code == 0
    dpbayes("release", *request, "--dataset", "account", "--out", "out").exits(0)
    assert dpbayes("report", "out", "--out", "page.html").code == 0
    page = Path("page.html")
    assert page.stat().st_size < LARGEST
    assert min(pictures_on_every_screen(browser, page)) >= 1
    printed = browser.pdf()
    assert printed.startswith(b"%PDF-")
    assert len(printed) > 20_000


def test_the_printed_page_is_light_and_unscrolled(browser: Browser, dpbayes: Cli) -> None:
    assert dpbayes("release", *COIN, "--eps", "1", "--out", "out").code == 0
    assert dpbayes("report", "out", "--out", "page.html").code == 0
    browser.open(Path("page.html"), dark=True)
    browser.cdp("Emulation.setEmulatedMedia", media="print")
    style = browser.script(
        "const of = (where, what) => getComputedStyle(document.querySelector(where))[what];"
        "return [of('body', 'backgroundColor'), of('nav', 'display'), of('.scroll', 'overflowX')]"
    )
    assert style == ["rgb(255, 255, 255)", "none", "visible"]


def test_the_index_of_a_schedule_on_every_screen(browser: Browser, dpbayes: Cli, place: Path) -> None:
    """The links are followed as a reader would; a page links a report of its own, or a text file."""
    (place / "nights.yaml").write_text(SCHEDULE.format(data=SAMPLE_DATA / "relapse.csv"))
    assert dpbayes("schedule", "open", "nights.yaml").code == 0
    for day in ("2026-11-22", "2026-11-23"):
        assert dpbayes("schedule", "run", "nights.yaml", "--date", day).code == 0
    assert dpbayes("report", "nights/relapse-1", "--out", "nights/relapse-1.html").code == 0
    assert dpbayes("report", "--index", "nights", "--out", "index.html").code == 0
    page = Path("index.html")
    assert pictures_on_every_screen(browser, page) == [1] * 4
    assert browser.script("return document.scripts.length") == 0
    links = browser.script("return [...document.querySelectorAll('tbody a')].map(a => decodeURI(a.pathname))")
    assert sorted(links) == [str(place / "nights" / each) for each in ("relapse-1.html", "relapse-2/report.md")]
    browser.open(page)
    browser.script("[...document.querySelectorAll('tbody a')].find(a => a.pathname.endsWith('.html')).click()")
    browser.wait("return document.readyState == 'complete' && location.pathname.endsWith('relapse-1.html')")
    assert browser.script("return document.querySelectorAll('svg').length") >= 1


class _Nothing(http.server.BaseHTTPRequestHandler):
    """A server that knows no file."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


def test_browser_checks_find_a_bad_page(browser: Browser, place: Path) -> None:
    """The checks fail on a page that fetches, logs an error, is too wide and is not accessible."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Nothing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/x.png"
        (place / "bad.html").write_text(
            f'<!DOCTYPE html><html><head><title>x</title></head><body><img src="{url}"><p style="width:2000px;'
            'color:#ddd;background:#fff">pale</p><script>console.error("no")</script></body></html>'
        )
        browser.open(place / "bad.html", width=360)
        server.shutdown()
    assert url in browser.requested
    assert any("no" in line for line in browser.logged)
    assert browser.script("return document.documentElement.scrollWidth") > 360
    assert {"image-alt", "color-contrast", "html-has-lang"} <= {rule["id"] for rule in browser.axe()}
