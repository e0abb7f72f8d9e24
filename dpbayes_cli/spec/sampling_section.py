"""The sampling section of a spec: how a mechanism draws, with the options that it reads."""

from dpbayes_cli.spec.option_sections import OptionsSection


class SamplingSection(OptionsSection, frozen=True, kw_only=True):
    """How a mechanism that releases posterior draws or estimates draws them."""
