"""The options of inference from privatized statistics, with their defaults; a model may add options of its own."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from dpbayes_cli.core.noisy_observation import CountPrior
from dpbayes_cli.core.options import INFERENCE, Options, option


class InferenceOptions(Options, frozen=True, kw_only=True):
    """Options for inferring the posterior from privatized statistics; mechanisms that release draws do not use them."""

    method: Annotated[
        Literal["noise-aware", "chain", "naive"],
        option(INFERENCE, "method: noise-aware [default], chain or naive"),
    ] = "noise-aware"
    ess: Annotated[
        Annotated[int, Meta(ge=50, le=100_000)], option(INFERENCE, "effective sample size that chains must reach [400]")
    ] = 400
    samples: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)], option(INFERENCE, "posterior samples to write [4000]")
    ] = 4000


class GroupInference(Options, frozen=True, kw_only=True):
    """The options of models of groups."""

    pooling: Annotated[
        Literal["partial", "none"],
        option(
            INFERENCE,
            "partial: the groups' parameters have a common law, which is learned; none: each group has the stated "
            "prior alone [partial]",
        ),
    ] = "partial"
    spread: Annotated[
        Annotated[float, Meta(ge=0.01, le=100.0)],
        option(INFERENCE, "how much groups may differ a priori, as a multiple of the weak default [1]"),
    ] = 1.0
    samples: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)], option(INFERENCE, "posterior samples to write [4000]")
    ] = 4000
    samples_per_group: Annotated[
        Annotated[int, Meta(ge=0, le=1000)],
        option(INFERENCE, "posterior samples of each group to write to group_samples.parquet [0]"),
    ] = 0


_COUNT_PRIOR = option(
    INFERENCE,
    "prior of the number of valid records: mostly-valid (all n records are valid with probability 1/2, else log(1 + "
    "invalid records) is uniform), uniform, or for multivariate-normal perhaps-valid (uniform, but n is as probable as "
    "the numbers within one standard deviation of the noise together); always uniform if one person may have several "
    "records, or if numbers out of bounds are dropped [mostly-valid; perhaps-valid for multivariate-normal]",
)


class SumInference(InferenceOptions, frozen=True, kw_only=True):
    """The options of models that are inferred from sums of numbers."""

    count_prior: Annotated[Literal["mostly-valid", "uniform"], _COUNT_PRIOR] = "mostly-valid"


class VectorInference(InferenceOptions, frozen=True, kw_only=True):
    """The options of models whose noise can hide how many records are valid, so that the prior must be wide."""

    count_prior: Annotated[CountPrior, _COUNT_PRIOR] = "perhaps-valid"
