"""Compute a posterior from a release request and its privatized statistics alone, so that any reader can repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from dpbayes_cli.base.numeric import Booleans, Floats, Integers
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model, NoisyStatistics
from dpbayes_cli.core.model_sections import StatesOverTime, section_of
from dpbayes_cli.core.noisy_observation import (
    NoisyGroups,
    NoisyObservation,
    NoisyTables,
    record_count,
    with_count_prior,
)
from dpbayes_cli.core.released import Payload
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.posterior import QUANTILES, Effort, Marginal, Posterior, interval_ends
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.spec.release_spec import ReleaseSpec

if TYPE_CHECKING:
    from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior, Pooling
    from dpbayes_cli.inference.valid_count import CountSummary


@dataclass(frozen=True)
class Analysis:
    """The posterior of a model's parameters, as samples and summaries."""

    model: Model  # the model, with what was found privately, if anything was
    marginals: tuple[Marginal, ...]  # the summary of each parameter
    samples: Floats  # shape (n_samples, n_parameters)
    predictive: dict[str, float]  # the posterior predictive probability of each level
    posterior: Posterior  # the full result of the inference
    drawn: bool = False  # whether the samples are released draws or estimates; further ones would cost budget
    estimates: bool = False  # whether the samples are point estimates instead of draws from a posterior
    chains: Floats | None = None  # the samples of Markov chains, shape (n_chains, n_samples_per_chain, n_parameters)
    groups: GroupedPosterior | None = None  # of each group; the samples are then of what the groups have in common
    group_draws: Floats | None = None  # joint draws of all groups, shape (n_draws, n_groups, n_group_parameters)
    counts: Floats | None = None  # for a network, the count of each cell of its tables, shape (n_parameters,)
    how_counted: str = ""  # for a network, how ``counts`` were computed from the noisy counts
    states: Floats | None = None  # for a hidden Markov model, probabilities, shape (n_sequences, n_steps, n_states)
    drawn_states: Integers | None = None  # of a hidden Markov model, shape (n_samples, n_sequences, n_steps)
    valid_records: CountSummary | None = None  # their number; None if what was released does not count them

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return self.model.parameters


def analyze(
    spec: ReleaseSpec,
    model: Model,
    mechanism: Mechanism,
    released: Payload,
    n_records: int | None,
    seed: int,
    *,
    more: int = 0,
) -> Analysis:
    """Infer the posterior of a model's parameters; too many samples for the memory are a ``SpecError``.

    Args:
        spec: the release request, which states the policy, the inference method and the number of samples.
        model: the model with its prior, and with what was found privately, if anything was.
        n_records: the public number of records; None if it is private.
        seed: the seed of the posterior samples; equal seeds give equal results.
        more: how far to continue Markov chains that are too short; see ``Effort``.
    """
    from dpbayes_cli.inference.solve import infer

    spec.check_samples(model)
    observation = mechanism.observation(model, spec.policy, released.values, released.noise, n_records, released.points)
    options = msgspec.structs.asdict(spec.inference_options)
    valid_records = _valid_records(spec, model, observation, n_records)
    if isinstance(observation, NoisyGroups):
        return replace(
            _analyze_groups(
                require_type(model, NoisyStatistics),
                replace(observation, spread=options.pop("spread")),
                seed,
                **options,
            ),
            valid_records=valid_records,
        )
    method, samples = options.pop("method"), options.pop("samples")
    observation = with_count_prior(observation, options.pop("count_prior", None))
    posterior = infer(observation, method, samples, np.random.default_rng(seed), Effort(more=more, **options))
    components = list(model.components)
    marginals = tuple(posterior.marginals[k] for k in components)
    if any(from_zero := model.can_be_hidden):
        draws = (posterior.draws if posterior.chains is None else posterior.chains)[..., components]
        marginals = _with_intervals_from_zero(marginals, draws.reshape(-1, len(components)), np.array(from_zero))
        note = "an interval of a variance that begins at 0 ends at the 90 % quantile"
        posterior = replace(posterior, method=f"{posterior.method}; {note}")
    counts, how_counted = _counts(observation)
    return Analysis(
        model,
        marginals,
        posterior.draws[:, components],
        model.predictive([marginal.mean for marginal in marginals]),
        posterior,
        chains=None if posterior.chains is None else posterior.chains[:, :, components],
        counts=counts,
        how_counted=how_counted,
        states=posterior.states,
        drawn_states=posterior.drawn_states,
        valid_records=valid_records,
    )


def _analyze_groups(
    model: NoisyStatistics, observation: NoisyGroups, seed: int, pooling: Pooling, samples: int, samples_per_group: int
) -> Analysis:
    """Infer the posterior of each group, and of what the groups have in common."""
    import numpy as np

    from dpbayes_cli.inference.groups.infer_groups import infer_groups
    from dpbayes_cli.inference.groups.without_noise import remaining_shares

    groups = infer_groups(observation, pooling, samples, np.random.default_rng(seed))
    draws = groups.draws
    means, sds = draws.mean(axis=0), draws.std(axis=0, ddof=1) if samples > 1 else np.full(draws.shape[1], np.nan)
    quantiles = np.quantile(draws, list(QUANTILES.values()), axis=0)
    exact, noisy = np.zeros_like(sds), np.zeros_like(sds)  # unknown, except for the means over pooled groups
    if pooling == "partial" and samples > 1 and len(observation.observed):
        shares = np.array(remaining_shares(groups, observation))
        exact[: len(shares)] = shares * sds[: len(shares)]
        noisy[: len(shares)] = np.sqrt(1.0 - shares**2) * sds[: len(shares)]
    marginals = tuple(
        Marginal(mean, sd, dict(zip(QUANTILES, ends, strict=True)), *parts)
        for mean, sd, ends, *parts in zip(
            *(each.tolist() for each in (means, sds, quantiles.T, exact, noisy)), strict=True
        )
    )
    posterior = Posterior(
        marginals, draws, groups.method, exact=False, monte_carlo=float(groups.monte_carlo), warnings=groups.warnings
    )
    # draws of the groups have a seed of their own, so that nothing else depends on their number
    own = np.random.default_rng([seed, samples_per_group])
    group_draws = groups.draw(samples_per_group, own) if samples_per_group else None
    predictive = model.predictive(means.tolist())
    return Analysis(model, marginals, draws, predictive, posterior, groups=groups, group_draws=group_draws)


def _valid_records(
    spec: ReleaseSpec, model: Model, observation: NoisyObservation, n_records: int | None
) -> CountSummary | None:
    """Return the posterior of the number of valid records; None if what was released does not count them.

    This is so if invalid cells count as stand-in values, and if groups with few records are not published.
    """
    from dpbayes_cli.inference.valid_count import count_valid_records

    if isinstance(observation, NoisyGroups) and observation.threshold is not None:
        return None
    if any(stand_in is not None for stand_in in (spec.policy.impute, *(column.impute for column in model.columns))):
        return None
    return count_valid_records(observation, record_count(spec.policy, n_records))


def _with_intervals_from_zero(
    marginals: tuple[Marginal, ...], draws: Floats, from_zero: Booleans
) -> tuple[Marginal, ...]:
    """Return summaries whose 90 % intervals begin at 0 where this is allowed and shorter."""
    low, high = interval_ends(draws, QUANTILES["q95"] - QUANTILES["q05"], from_zero)
    ends = zip(marginals, low.tolist(), high.tolist(), strict=True)
    return tuple(replace(each, quantiles={**each.quantiles, "q05": a, "q95": b}) for each, a, b in ends)


_CONSISTENT = {
    "full": "consistent: they are marginals of one non-negative table over all variables, and among such counts they "
    "are nearest to the noisy counts in L1",
    "junction-tree": "consistent: they are marginals of one non-negative table over all variables, and among such "
    "counts they are nearest to the noisy counts in L1; they were computed on the cliques of a junction tree",
    "local": "locally consistent: they are non-negative, and any two tables agree on the variables that they share; "
    "but the tables need not be marginals of one table over all variables",
    "independent": "computed as if the variables were independent, because the nearest consistent tables were not "
    "found",
}


def _counts(observation: NoisyObservation) -> tuple[Floats | None, str]:
    """Return the count of each cell of a network's tables, shape (n_cells,), and how the counts were computed."""
    if not isinstance(observation, NoisyTables):
        return None, ""
    tables, how = [table.observed for table in observation.tables], "the noisy counts as they were drawn"
    if observation.scope is not None:
        from dpbayes_cli.inference.tables.infer_tables import consistent_tables

        consistent = consistent_tables(observation, observation.scope)
        tables, how = list(consistent.tables), _CONSISTENT[consistent.how]
    return np.concatenate([table.ravel() for table in tables]), how


def describe_draws(
    model: Model, draws: list[list[float]], states: Sequence[Sequence[int]] = (), *, estimates: bool = False
) -> Analysis:
    """Summarize posterior draws or point estimates that were released, at least one; nothing is inferred.

    For estimates, only the mean is computed: their spread shows the randomness of the mechanism, not the uncertainty
    about the parameters. ``states`` is empty for models without hidden states.
    """
    samples = np.asarray(draws, dtype=np.float64)
    n_draws, n_parameters = samples.shape
    means = samples.mean(axis=0).tolist()
    sds, quantiles = np.full(n_parameters, np.nan), np.full((len(QUANTILES), n_parameters), np.nan)
    if n_draws > 1 and not estimates:
        sds = samples.std(axis=0, ddof=1)
        quantiles = np.quantile(samples, list(QUANTILES.values()), axis=0)
    marginals = tuple(
        Marginal(means[k], float(sds[k]), dict(zip(QUANTILES, quantiles[:, k].tolist(), strict=True)), 0.0, 0.0)
        for k in range(n_parameters)
    )
    how = (
        f"{n_draws} private estimate{'s' * (n_draws > 1)} of the posterior mode, with unknown uncertainty"
        if estimates
        else f"{n_draws} private posterior draws; the summary describes these draws, not the whole posterior"
    )
    drawn_states = _drawn_states(model, states)
    return Analysis(
        model,
        marginals,
        samples,
        {} if estimates else model.predictive(means),
        Posterior(marginals, samples, how, exact=True),
        drawn=True,
        estimates=estimates,
        states=None if drawn_states is None else _shares_of_states(model, drawn_states),
        drawn_states=drawn_states,
    )


def _drawn_states(model: Model, states: Sequence[Sequence[int]]) -> Integers | None:
    over_time = section_of(model.sections(), StatesOverTime)
    if over_time is None or not states:
        return None
    return np.asarray(states, dtype=np.int64).reshape(-1, *over_time.shape[:-1])


def _shares_of_states(model: Model, drawn: Integers) -> Floats:
    over_time = require_type(section_of(model.sections(), StatesOverTime), StatesOverTime)
    return np.asarray((drawn[..., None] == np.arange(over_time.states)).mean(axis=0))
