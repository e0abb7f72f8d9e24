"""The inference section of a spec: what is made of the privatized statistics; free."""

from typing import Annotated, Literal

from msgspec import Meta

from dpbayes_cli.spec.flags import said
from dpbayes_cli.spec.option_sections import OptionsSection


class InferenceSection(OptionsSection, frozen=True, kw_only=True):
    """What is made of the privatized statistics; free, and open to change later with ``dpbayes infer``."""

    format: Annotated[Literal["parquet", "csv", "netcdf"], Meta(description=said("inference.format"))] = "parquet"
