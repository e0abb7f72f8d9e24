"""A headless Chromium, driven over the WebDriver protocol by the standard library alone."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.conftest import ROOT

AXE = "node_modules/axe-core/axe.min.js"
_SWITCHES = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
_LONG = 120.0


def axe_path() -> Path | None:
    """Where axe-core is: in the environment, as ``npm install --prefix .venv axe-core`` puts it, or as stated."""
    stated = os.environ.get("DPBAYES_AXE")
    places = [Path(stated)] if stated else [Path(sys.prefix) / AXE, ROOT / ".venv" / AXE, ROOT / AXE]
    return next((path for path in places if path.is_file()), None)


def why_not() -> str:
    """Why pages cannot be tested here, or nothing."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if axe_path() is None:
        missing.append("axe-core")
    return f"{', '.join(missing)} not installed; see Tests and measurements in the README" if missing else ""


class Browser:
    """One session; everything that a page logs or asks of the network since ``open`` is kept."""

    def __init__(self, session: str) -> None:
        self._session = session
        self.logged: list[str] = []
        self.requested: list[str] = []

    def open(self, path: Path, *, width: int = 1200, dark: bool = False) -> None:
        """Show a file, on a screen of a width and in a color scheme; forget what an earlier page did."""
        _call("POST", f"{self._session}/url", {"url": "about:blank"})
        self._logs()
        self.logged, self.requested = [], []
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.cdp("Emulation.setEmulatedMedia", media="", features=features)
        _call("POST", f"{self._session}/url", {"url": path.absolute().as_uri()})
        self._logs()

    def script(self, source: str, *arguments: Any) -> Any:
        """Run a function body in the page, as its console would; the policy of the page does not bind it."""
        return _call("POST", f"{self._session}/execute/sync", {"script": source, "args": list(arguments)})

    def wait(self, source: str) -> None:
        """Wait until a function body returns true in the page, e.g. after a click."""
        until = time.monotonic() + 30
        while not self.script(source):
            assert time.monotonic() < until, f"never true: {source}"
            time.sleep(0.05)

    def axe(self) -> list[dict[str, Any]]:
        """What axe-core finds wrong with the page as it is shown: rule by rule, with the elements."""
        path = axe_path()
        assert path is not None
        self.script(path.read_text(encoding="utf-8"))
        source = (
            "const done = arguments[0]; axe.run().then(r => done(r.violations)).catch(e => done([{id: String(e)}]));"
        )
        violations: list[dict[str, Any]] = _call(
            "POST", f"{self._session}/execute/async", {"script": source, "args": []}
        )
        return violations

    def pdf(self) -> bytes:
        """The page as it would be printed."""
        return base64.b64decode(self.cdp("Page.printToPDF", printBackground=False)["data"])

    def screenshot(self) -> bytes:
        """The whole page as a PNG."""
        return base64.b64decode(self.cdp("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def cdp(self, command: str, **parameters: Any) -> Any:
        """Ask the browser itself."""
        return _call("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _logs(self) -> None:
        """Take in what was logged since."""
        self.logged += [entry["message"] for entry in _call("POST", f"{self._session}/se/log", {"type": "browser"})]
        for entry in _call("POST", f"{self._session}/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])


@contextmanager
def running() -> Iterator[Browser]:
    """Run a browser of one's own, with a profile that is thrown away."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(address)
            wanted = {
                "goog:chromeOptions": {"args": [*_SWITCHES, f"--user-data-dir={profile}"]},
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
                "timeouts": {"script": 60_000},
            }
            opened = _call("POST", f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})
            session = f"{address}/session/{opened['sessionId']}"
            try:
                _call("POST", f"{session}/url", {"url": "about:blank"})  # leaves the browser's own first page
                yield Browser(session)
            finally:
                with suppress(OSError):
                    _call("DELETE", session)
        finally:
            driver.terminate()
            driver.wait(30)


def _wait(address: str) -> None:
    until = time.monotonic() + 30
    while True:
        with suppress(OSError):
            if _call("GET", f"{address}/status")["ready"]:
                return
        assert time.monotonic() < until, "chromedriver does not answer"
        time.sleep(0.05)


def _call(method: str, url: str, content: Any = None) -> Any:
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=_LONG) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(error.read().decode()[:2000]) from None
