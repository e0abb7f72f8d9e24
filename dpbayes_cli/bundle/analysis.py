"""From a question and its privatized statistics to a posterior. Reads nothing else, so that it can be done again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.contracts import LatentCounts, Payload, expect
from dpbayes_cli.inference.posterior import Marginal, Posterior
from dpbayes_cli.spec.release_spec import ReleaseSpec

if TYPE_CHECKING:
    from dpbayes_cli.numeric import Floats


@dataclass(frozen=True)
class Analysis:
    """A posterior in the model's own terms.

    Attributes:
        parameters: the names of the parameters.
        marginals: one summary a parameter.
        samples: shape (n_samples, n_parameters).
        predictive: the posterior predictive probability of each level.
        posterior: the posterior of all categories, with how it was computed.
    """

    parameters: tuple[str, ...]
    marginals: tuple[Marginal, ...]
    samples: Floats
    predictive: dict[str, float]
    posterior: Posterior


def analyse(spec: ReleaseSpec, released: Payload, n_records: int | None, seed: int) -> Analysis:
    """Infer the posterior of a model's parameters.

    Args:
        spec: the question: model, prior, policy, method and number of samples.
        released: the privatized statistics with the law of their noise.
        n_records: the public number of records; None where it is private.
        seed: of the sampling; equal seeds give equal results.
    """
    import numpy as np

    from dpbayes_cli.inference.solve import infer

    model = expect(spec.build_model(), LatentCounts)
    problem = model.noisy_counts(spec.policy, released.values, released.noise, n_records)
    rng = np.random.default_rng(seed)
    posterior = infer(problem, spec.inference.method, spec.inference.samples, rng)
    marginals = tuple(posterior.marginals[k] for k in model.categories)
    predictive = model.predictive([marginal.mean for marginal in marginals])
    samples = posterior.draws[:, list(model.categories)]
    return Analysis(model.parameters, marginals, samples, predictive, posterior)
