"""A value that was read from the data is used only with a reason in words, and no reason replaces another."""

from __future__ import annotations

from typing import Any

import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.spec.public_reasons import with_reasons_apart


def unsure(reason: object, value: object = 9) -> dict[str, object]:
    return {"value": value, "public_reason": reason}


@pytest.mark.parametrize(
    "reason", [None, "", "NULL", "null", "~", "None", "n/a", "false", "0", ".", "TODO", "todo: TBD", "\u200b", "123"]
)
def test_a_placeholder_is_no_reason(reason: str | None) -> None:
    for stated in ({"domain": {"upper": unsure(reason)}}, {"public_reasons": {"domain.upper": reason}}):
        with pytest.raises(SpecError, match=r"no public reason: domain\.upper"):
            with_reasons_apart(stated)


@pytest.mark.parametrize(
    "reason", ["the protocol", "None of the forms has more boxes", "ICD-10", "\u7814\u7a76\u65b9\u6848"]
)
def test_a_word_is_a_reason(reason: str) -> None:
    apart = with_reasons_apart({"domain": {"upper": unsure(reason)}})
    assert apart == {"domain": {"upper": 9}, "public_reasons": {"domain.upper": reason}}


def test_no_reason_replaces_another() -> None:
    """The names of columns may hold dots, so that two places could have the same name."""
    columns = {"a": {"values": unsure(None)}, "a.values": unsure("the protocol")}
    with pytest.raises(SpecError, match=r"(?m)no public reason: domain\.a\.values$"):
        with_reasons_apart({"domain": columns})
    columns["a"] = {"values": unsure("the law")}
    reasons: dict[str, Any] = with_reasons_apart({"domain": columns})["public_reasons"]
    assert reasons == {"domain.a.values": "the law", 'domain."a.values"': "the protocol"}
    with pytest.raises(SpecError, match="no public reason"):
        with_reasons_apart({"domain": columns, "public_reasons": {"domain.a.values": None}})
    with pytest.raises(SpecError, match="a second reason"):
        with_reasons_apart({"domain": columns, "public_reasons": {"domain.a.values": "the census"}})
    with pytest.raises(SpecError, match="expected a mapping"):
        with_reasons_apart({"public_reasons": [None]})
