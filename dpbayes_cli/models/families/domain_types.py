"""Types of values that the domains of several models state."""

from typing import Annotated

from msgspec import Meta

from dpbayes_cli.core.section import YAML_SCALAR

MAX_BOUND = 1e12
Bound = Annotated[float, Meta(ge=-MAX_BOUND, le=MAX_BOUND)]
"""A public bound of a number, or the prior mean of a number."""

StandIn = Annotated[
    Annotated[str, Meta(extra_json_schema=YAML_SCALAR)] | None,
    Meta(description="the public stand-in for an invalid cell; default: on_invalid decides"),
]
"""The ``impute`` of a column."""
