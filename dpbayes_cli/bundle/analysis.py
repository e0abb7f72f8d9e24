"""From a release request and its privatized statistics to a posterior; reads nothing else, so anyone can repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model, NoisyStatistics
from dpbayes_cli.core.model_sections import StatesOverTime, section_of
from dpbayes_cli.core.noisy_observation import NoisyObservation, NoisyTables
from dpbayes_cli.core.released import Payload
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.posterior import QUANTILES, Effort, Marginal, Posterior
from dpbayes_cli.spec.release_spec import ReleaseSpec

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


@dataclass(frozen=True)
class Analysis:
    """A posterior of the parameters that a model names.

    Attributes:
        model: the model, between the bounds that were released.
        parameters: the names of the parameters.
        marginals: one summary per parameter.
        samples: shape (n_samples, n_parameters).
        predictive: the posterior predictive probability of each level.
        posterior: the posterior of all components, with how it was computed.
        drawn: whether the samples themselves were released, so that there can be no more of them.
        estimates: whether the samples are point estimates instead of draws from a posterior.
        chains: every sample by its Markov chain, shape (n_chains, n_samples_per_chain, n_parameters); None if the
            samples are independent.
        counts: for a network, the count of each cell, shape (n_parameters,): as released, or made consistent; None for
            other models.
        counted: what the counts are, in words.
        states: for hidden Markov models, the probability of each state, shape (n_sequences, n_steps, n_states); None
            for other models.
    """

    model: Model
    parameters: tuple[str, ...]
    marginals: tuple[Marginal, ...]
    samples: Floats
    predictive: dict[str, float]
    posterior: Posterior
    drawn: bool = False
    estimates: bool = False
    chains: Floats | None = None
    counts: Floats | None = None
    counted: str = ""
    states: Floats | None = None


def analyze(
    spec: ReleaseSpec, model: Model, mechanism: Mechanism, released: Payload, n_records: int | None, seed: int
) -> Analysis:
    """Infer the posterior of a model's parameters.

    Args:
        spec: the release request: policy, method and number of samples.
        model: the model with its prior, between the bounds that were released.
        mechanism: the mechanism that privatized the statistics.
        released: the privatized statistics and the law of their noise.
        n_records: the public number of records; None if it is private.
        seed: the seed of the sampling; equal seeds give equal results.
    """
    import numpy as np

    from dpbayes_cli.inference.solve import infer

    model = require_type(model, NoisyStatistics)
    spec.check_samples(model)
    observation = mechanism.observation(model, spec.policy, released.values, released.noise, n_records)
    rng = np.random.default_rng(seed)
    options = msgspec.structs.asdict(spec.inference_options)
    method, samples = options.pop("method"), options.pop("samples")
    posterior = infer(observation, method, samples, rng, Effort(**options))
    marginals = tuple(posterior.marginals[k] for k in model.components)
    predictive = model.predictive([marginal.mean for marginal in marginals])
    components = list(model.components)
    chains = None if posterior.chains is None else posterior.chains[:, :, components]
    counts, counted = _counts(observation)
    return Analysis(
        model,
        model.parameters,
        marginals,
        posterior.draws[:, components],
        predictive,
        posterior,
        chains=chains,
        counts=counts,
        counted=counted,
        states=posterior.states,
    )


_CONSISTENT = {
    "full": "consistent: marginals of one non-negative table over all variables, the nearest in L1",
    "junction-tree": "consistent: marginals of one non-negative table over all variables, the nearest in L1, found "
    "over the cliques of a junction tree",
    "local": "locally consistent: non-negative tables, any two of which agree on the variables that they share; "
    "there may be no one table over all variables with these marginals",
    "independent": "products of the shares of each variable by itself; the nearest consistent tables were not found",
}


def _counts(observation: NoisyObservation) -> tuple[Floats | None, str]:
    """Return the count of each cell of a network, and what these counts are, in words."""
    import numpy as np

    if not isinstance(observation, NoisyTables):
        return None, ""
    noisy = [table.observed for table in observation.tables]
    if observation.scope is None:
        return np.concatenate([table.ravel() for table in noisy]), "noisy counts, as drawn"
    from dpbayes_cli.inference.tables.infer_tables import consistent_tables

    consistent = consistent_tables(observation, observation.scope)
    return np.concatenate([table.ravel() for table in consistent.tables]), _CONSISTENT[consistent.how]


def describe_draws(
    model: Model, draws: list[list[float]], states: Sequence[Sequence[int]] = (), *, estimates: bool = False
) -> Analysis:
    """Summarize posterior draws or point estimates that were released; nothing is inferred.

    Estimates have a mean, but no width and no predictive probabilities: their spread comes from privacy alone.

    Args:
        model: the model whose parameters were drawn.
        draws: one list of parameters per draw, at least one.
        states: the hidden states of each draw; empty for models without hidden states.
        estimates: whether the draws are point estimates.
    """
    import numpy as np

    samples = np.asarray(draws, dtype=np.float64)
    spread = len(samples) > 1 and not estimates
    means = samples.mean(axis=0)
    sds = samples.std(axis=0, ddof=1) if spread else np.full_like(means, np.nan)
    quantiles = np.quantile(samples, list(QUANTILES.values()), axis=0) if spread else np.full((3, len(means)), np.nan)
    marginals = tuple(
        Marginal(
            float(means[k]), float(sds[k]), {name: float(quantiles[i, k]) for i, name in enumerate(QUANTILES)}, 0.0, 0.0
        )
        for k in range(len(means))
    )
    how = (
        f"{len(samples)} private estimate{'s' * (len(samples) > 1)} of the posterior mode, whose uncertainty is unknown"
        if estimates
        else f"{len(samples)} private posterior draws; the summary describes these draws, not the whole posterior"
    )
    posterior = Posterior(marginals, samples, how, exact=True)
    predictive = {} if estimates else model.predictive(means.tolist())
    return Analysis(
        model,
        model.parameters,
        marginals,
        samples,
        predictive,
        posterior,
        drawn=True,
        estimates=estimates,
        states=_shares_of_states(model, states),
    )


def _shares_of_states(model: Model, states: Sequence[Sequence[int]]) -> Floats | None:
    """Return the share of the draws in which each sequence is in each state at each step."""
    import numpy as np

    over_time = section_of(model.sections(), StatesOverTime)
    if over_time is None or not states:
        return None
    drawn = np.asarray(states, dtype=np.int64).reshape(-1, *over_time.shape[:-1], 1)
    return np.asarray((drawn == np.arange(over_time.states)).mean(axis=0))
