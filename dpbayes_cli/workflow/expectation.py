"""The summary of simulated releases of one request."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.workflow.simulated_releases import Simulation, Trials

_CONFIDENCE = 0.9
NARROWER = 0.9
"""An interval that is wider than this share of the prior's interval is no better than the prior."""
_BETTER = 0.01
"""Predictions are no better than guessing if they improve its score by less than this fraction."""


@dataclass(frozen=True)
class Estimated:
    """A median over simulated releases with its 90 % confidence interval; fewer than 5 releases give less confidence.

    Attributes:
        median: the median.
        low, high: the ends of the interval, which are order statistics of the simulated releases.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Floats) -> Self:
        """Return the median of the values of simulated releases, shape (n_trials,)."""
        median, low, high = quantile_with_interval(values, 0.5)
        return cls(median, low, min(high, float(values.max())))


def quantile_with_interval(values: Floats, share: float) -> tuple[float, float, float]:
    """Return a quantile of simulated values, and the ends of its 90 % confidence interval.

    The upper end is infinite if even the largest value may be too small. Values may be infinite.

    Args:
        values: the values, shape (n_trials,).
        share: the share of values that are at most the quantile.
    """
    import numpy as np
    from scipy.special import bdtr

    n, ordered = len(values), np.sort(values)
    at_most = bdtr(np.arange(n), n, share)
    outside = (1.0 - _CONFIDENCE) / 2.0
    around = ordered[math.ceil(share * n) - 1], ordered[math.floor(share * n)]
    below = max(int((at_most < outside).sum()) - 1, 0)
    above = int((1.0 - at_most >= outside).sum())
    return float(sum(around)) / 2.0, float(ordered[below]), float(ordered[above]) if above < n else math.inf


@dataclass(frozen=True)
class ExpectedInterval:
    """The expected width of the 90 % interval of one parameter.

    Attributes:
        width: the width with privacy.
        width_9_in_10: the width that nine in ten simulated releases do not exceed.
        nonprivate_width: the width without privacy.
        prior_width: the width of the prior's interval, or None.
        sd: the root mean square standard deviation with privacy.
    """

    width: Estimated
    width_9_in_10: float
    nonprivate_width: float
    prior_width: float | None
    sd: float

    @property
    def is_worthless(self) -> bool:
        """Whether the interval is no narrower than that of the prior."""
        return self.prior_width is not None and self.width.median > NARROWER * self.prior_width

    @property
    def is_surely_worthless(self) -> bool:
        """Whether even the low end of its width is no narrower than the interval of the prior."""
        return self.prior_width is not None and self.width.low > NARROWER * self.prior_width


@dataclass(frozen=True)
class ExpectedPredictions:
    """The expected quality of predictions for new records.

    Attributes:
        measure: the share of records whose class is predicted correctly, the mean absolute error of a predicted number,
            or the mean pinball loss of a predicted quantile.
        score: the score with privacy.
        nonprivate_score: the score without privacy.
        guessing_score: the score of a constant prediction: the most common class, or a quantile of the targets.
    """

    measure: Literal["accuracy", "mean absolute error", "mean pinball loss"]
    score: Estimated
    nonprivate_score: float
    guessing_score: float

    @property
    def is_worthless(self) -> bool:
        """Whether the predictions are no better than guessing."""
        if self.measure == "accuracy":
            return self.score.median < self.guessing_score + _BETTER
        return self.score.median > self.guessing_score * (1.0 - _BETTER)


@dataclass(frozen=True)
class Expectation:
    """A summary of simulated releases of one request.

    The parameters are drawn from the prior such that means are inside the bounds, and the data from the model.
    Posterior draws are released from a distribution that is wider than the posterior without privacy. A point estimate
    has no posterior, and for large epsilon the spread of the estimate vanishes, however few the records are. For
    estimates, ``posterior_sd`` is therefore their distance from the true parameter, which tends to the width of the
    posterior for large epsilon.

    Attributes:
        n_records: the number of records, all of them valid.
        trials: the number of simulated releases.
        noise_scale: the scale of the noise on integers; None if no noise is added. If the scale depends on private
            bounds, this is its largest value.
        posterior_sd: the posterior standard deviation of the first parameter, as a root mean square over the simulated
            releases. For posterior draws, it is the standard deviation of the draws. For point estimates, it is the
            distance from the true parameter. For a network, the mean also covers the first parameter of each table row.
        nonprivate_sd: the root mean square standard deviation of the same parameters in the posterior without privacy.
        inflation: ``posterior_sd / nonprivate_sd``.
        coverage: for each inference method, the share of 90 % intervals that hold the true parameter; None if no
            posterior is inferred.
        sd_of: whether ``posterior_sd`` is the width of a posterior or the error of an estimate.
        main: the parameter that sentences are about.
        intervals: the expected interval of each parameter, or of the first 20 parameters and ``main``.
        predictions: the expected quality of predictions; None if the model predicts nothing or this is not simulated.
        effect_error: the median over data sets of the root mean square error of a regression's estimated effects: of
            the coefficients of numbers, and of differences of those of texts. None for other models.
        nonprivate_effect_error: the same without privacy.
    """

    n_records: int
    trials: int
    noise_scale: float | None
    posterior_sd: float
    nonprivate_sd: float
    inflation: float
    coverage: dict[str, float] | None
    sd_of: Literal["posterior", "estimate"]
    main: str
    intervals: dict[str, ExpectedInterval]
    predictions: ExpectedPredictions | None
    effect_error: float | None = None
    nonprivate_effect_error: float | None = None

    @classmethod
    def of(cls, simulation: Simulation, trials: Trials) -> Self:
        """Return the summary of simulated releases."""
        from dpbayes_cli.workflow.simulated_releases import root_mean_square

        law, heads = simulation.planned.plan.final_step.law, simulation.heads
        sd, plain = (root_mean_square(values[:, heads]) for values in (trials.sd, trials.plain_sd))
        prior = dict(zip(simulation.model.parameters, simulation.prior_widths().tolist(), strict=True))
        intervals = {
            name: ExpectedInterval(
                Estimated.of(trials.width[:, i]),
                quantile_with_interval(trials.width[:, i], 0.9)[0],
                Estimated.of(trials.plain_width[:, i]).median,
                None if math.isnan(prior[name]) else prior[name],
                root_mean_square(trials.sd[:, i]),
            )
            for i, name in enumerate(simulation.names)
            if name in simulation.listed
        }
        return cls(
            simulation.n_records,
            len(trials),
            simulation.planned.plan.final_step.noise.scale if law.adds_noise else None,
            sd,
            plain,
            sd / plain,
            {method: float(each.mean()) for method, each in trials.covered.items()} or None,
            simulation.sd_of,
            simulation.main,
            intervals,
            _predictions(simulation, trials.scores),
            *(Estimated.of(each).median ** 0.5 for each in trials.errors.T if len(trials.errors)),
        )


def _predictions(simulation: Simulation, scores: Floats) -> ExpectedPredictions | None:
    from dpbayes_cli.core.columns import NumericColumn

    if not len(scores):
        return None
    model = simulation.model
    target, measure = model.predicted_column(None), "accuracy"
    if isinstance(model.columns[target], NumericColumn):
        level = model.predictor(target, scores[:1]).level
        measure = "mean absolute error" if level is None else "mean pinball loss"
    private, plain, guessing = (Estimated.of(column) for column in scores.T)
    return ExpectedPredictions(measure, private, plain.median, guessing.median)  # type: ignore[arg-type]
