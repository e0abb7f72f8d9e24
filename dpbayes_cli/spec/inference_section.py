"""The inference section of a spec: how the posterior is inferred from privatized statistics, at no privacy cost."""

from typing import Annotated, Literal

from msgspec import Meta

from dpbayes_cli.spec.flags import description_of
from dpbayes_cli.spec.option_sections import OptionsSection


class InferenceSection(OptionsSection, frozen=True, kw_only=True):
    """How the posterior is inferred; ``dpbayes infer`` can change it later at no privacy cost."""

    format: Annotated[Literal["parquet", "csv", "netcdf"], Meta(description=description_of("inference.format"))] = (
        "parquet"
    )
