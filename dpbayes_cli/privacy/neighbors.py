"""Which pairs of data sets a guarantee compares."""

from __future__ import annotations

from enum import StrEnum


class Neighbors(StrEnum):
    """The neighbor relation of a guarantee.

    ``REPLACE_ONE``: neighbors differ in the content of one record; both have the same public number of records n.
    ``ADD_REMOVE``: one data set has one more record than the other; n is private, and nothing printed or written may
        depend on n.
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"
