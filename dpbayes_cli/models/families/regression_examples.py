"""What models of a class or a number given features show of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpbayes_cli.core.examples import Example

_FEATURES = {"x": {"lower": -1.0, "upper": 3.0}, "z": {"values": ["a", "b", "c"], "impute": "b"}}
_SPEC = {"features": "\nage: {lower: 18, upper: 100}\nsmoker: {values: [yes, no]}"}
CLASS_SPEC: Mapping[str, str] = {**_SPEC, "target.column": "ill", "target.values": "[no, yes]"}
"""What ``spec init`` writes of a model of classes."""
NUMBER_SPEC: Mapping[str, str] = {**_SPEC, "target.column": "days", "lower": "0", "upper": "100"}
"""What ``spec init`` writes of a model of a number."""


def classes(**more: Any) -> Example:
    """Return an example of two classes, with more keys of the domain."""
    return _example({"column": "y", "values": ["no", "yes"]}, more)


def numbers(**more: Any) -> Example:
    """Return an example of a number, with more keys of the domain."""
    return _example({"column": "y", "lower": -5.0, "upper": 5.0}, more)


def _example(target: Mapping[str, Any], more: Mapping[str, Any]) -> Example:
    """Return an example whose prior is strong enough for any draw; an invalid row adds nothing to a loss."""
    domain = {"target": target, "features": _FEATURES, **more}
    return Example(domain, {"precision": 1000.0}, complete=domain)
