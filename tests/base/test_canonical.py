"""Canonical JSON and digests, whose bytes never change."""

from __future__ import annotations

import pytest

from dpbayes_cli.base.canonical import canonical_json, digest


def test_canonical_json_has_fixed_bytes() -> None:
    document = {"b": [1, 0.1, True, None], "a": {"z": "\u00e9", "y": "\n"}}
    assert canonical_json(document) == b'{"a":{"y":"\\n","z":"\\u00e9"},"b":[1,0.1,true,null]}'


def test_digest_of_known_parts_never_changes() -> None:
    assert digest("test", b"ab", b"c") == "bcb805e0b668e3afb3ccd3ad5a2f59b36ba3e51b17a4671ec8294791055b5bfe"
    assert digest("test", b"ab", b"c") != digest("test", b"a", b"bc")
    assert digest("test", b"abc") != digest("other", b"abc")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_canonical_json_refuses_nan_and_infinity(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"x": value})
