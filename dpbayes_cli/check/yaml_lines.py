"""Write the lines of a suggested spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpbayes_cli.spec.public_reasons import REASON

_WIDTH = 78


def yaml_lines(tree: Mapping[str, Any], indent: str = "") -> list[str]:
    """Return a mapping of texts that are YAML as lines; values that need a reason stand on one line, if it is short."""
    lines = []
    for key, value in tree.items():
        line = f"{indent}{key}: {_on_one_line(value)}".rstrip()
        has_comment = isinstance(value, Mapping) and "#" in line
        if not isinstance(value, Mapping) or (REASON in line and len(line) <= _WIDTH and not has_comment):
            lines.append(line)
        else:
            lines += [f"{indent}{key}:", *yaml_lines(value, indent + "  ")]
    return lines


def _on_one_line(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    return "{" + ", ".join(f"{key}: {_on_one_line(each)}" for key, each in value.items()) + "}"
