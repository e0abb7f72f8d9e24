"""Examples and first specs of models that predict a class or a number from features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpbayes_cli.core.examples import Example

_FEATURES = {"x": {"lower": -1.0, "upper": 3.0}, "z": {"values": ["a", "b", "c"], "impute": "b"}}
_SPEC = {"features": "\nage: {lower: 18, upper: 100}\nsmoker: {values: [yes, no]}"}
CLASS_SPEC: Mapping[str, str] = {**_SPEC, "target.column": "ill", "target.values": "[no, yes]"}
"""What ``spec init`` writes for a model of classes."""
NUMBER_SPEC: Mapping[str, str] = {**_SPEC, "target.column": "days", "lower": "0", "upper": "100"}
"""What ``spec init`` writes for a model of a number."""


def class_example(**more: Any) -> Example:
    """Return an example with a target of two classes, with more keys of the domain."""
    return _example({"column": "y", "values": ["no", "yes"]}, more)


def number_example(**more: Any) -> Example:
    """Return an example with a target that is a number, with more keys of the domain."""
    return _example({"column": "y", "lower": -5.0, "upper": 5.0}, more)


def _example(target: Mapping[str, Any], more: Mapping[str, Any]) -> Example:
    domain = {"target": target, "features": _FEATURES, **more}
    return Example(domain, {"precision": 1000.0}, complete=domain)  # strong enough for draws; invalid rows add no loss
