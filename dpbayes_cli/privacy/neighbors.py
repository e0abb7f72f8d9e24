"""Which pairs of data sets a guarantee speaks about."""

from __future__ import annotations

from enum import StrEnum


class Neighbors(StrEnum):
    """The neighbor relation of a guarantee.

    ``REPLACE_ONE``: neighbors differ in the content of one record; the number of records n is the same in both,
    and public.
    ``ADD_REMOVE``: one record more or fewer; n is private and nothing printed or written may depend on it.
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"
