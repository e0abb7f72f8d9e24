"""Write the type stubs of ``models`` and ``mechanisms``: ``python -m tests.tools.write_stubs``."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import dpbayes_cli

PACKAGE = Path(dpbayes_cli.__file__).parent
KINDS = {"models": "ModelChoice", "mechanisms": "MechanismChoice"}
"""The packages whose functions choose something, and what each function returns."""


def stub(package: str) -> str:
    """Return the stub of a package, with one function for each model or mechanism."""
    module, kind = import_module(f"dpbayes_cli.{package}"), KINDS[package]
    functions = []
    for name in dir(module):
        arguments = [f"{each}: Any = None" for each in inspect.signature(getattr(module, name)).parameters]
        functions.append(f"def {name}({', '.join(['*', *arguments] if arguments else [])}) -> {kind}: ...")
    text = "\n".join(["from typing import Any", "", f"from dpbayes_cli.core.choice import {kind}", "", *functions, ""])
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(PACKAGE / package / "__init__.pyi"), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=PACKAGE).stdout


if __name__ == "__main__":
    for package in KINDS:
        (PACKAGE / package / "__init__.pyi").write_text(stub(package), encoding="utf-8")
