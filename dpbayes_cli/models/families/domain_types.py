"""Types of values that the domains of several models state."""

from typing import Annotated

from msgspec import Meta

from dpbayes_cli.core.section import YAML_SCALAR

MAX_BOUND = 1e12
Bound = Annotated[float, Meta(ge=-MAX_BOUND, le=MAX_BOUND)]
"""A finite number in a spec: a public bound, or a prior mean."""

StandIn = Annotated[
    Annotated[str, Meta(extra_json_schema=YAML_SCALAR)] | None,
    Meta(description="the public value that replaces an invalid cell; default: the rule on_invalid applies"),
]
"""The value of a column's key ``impute``."""
