"""The sampling section of a spec: the options of mechanisms that release draws."""

from dpbayes_cli.spec.option_sections import OptionsSection


class SamplingSection(OptionsSection, frozen=True, kw_only=True):
    """How a mechanism draws the posterior draws or estimates that it releases."""
