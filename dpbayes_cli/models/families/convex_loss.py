"""The capabilities of models with a convex loss of a linear predictor."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.coefficient_law import CoefficientLaw, HasCoefficients
from dpbayes_cli.core.columns import AnyColumn, Column, NumericColumn, n_codes
from dpbayes_cli.core.design import Design, DesignRows
from dpbayes_cli.core.findings import Fact, Findings
from dpbayes_cli.core.losses import Loss, QuantileLoss
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.predicted import ClassProbabilities, ClassScores, NumberPrediction, Prediction
from dpbayes_cli.core.predictor import Predictor, fixed_target
from dpbayes_cli.core.section import Section, require_type
from dpbayes_cli.models.families.regression_domain import CLASS_SPEC, NUMBER_SPEC, NormalCoefficients
from dpbayes_cli.privacy.noisy_descent import Curvature

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats, Integers

_MAX_RESIDUAL, _RESIDUALS = 2.0, 4001
"""Simulated residuals are drawn from a grid with this largest value and this number of points."""
_ROOT_OF_SD = (0.02, 0.999)
"""The root of a simulated number's standard deviation, as a share of the largest one, is uniform between these."""
_MAX_ENTRIES = 1 << 22
"""Largest number of entries of the design matrix, or of predictions, that are in memory at once."""


@runtime_checkable
class ConvexLossDomain(Protocol):
    """The domain of a regression that states the loss of the linear predictor."""

    target: Any

    @property
    def design(self) -> Design:
        """The map from a record's features to a row."""

    @property
    def loss(self) -> Loss:
        """The loss of the linear predictor."""


@dataclass(frozen=True)
class CoefficientModel(Model, HasCoefficients):
    """A regression whose parameters are the coefficients of a design.

    Attributes:
        target: the column of the target.
        loss: the loss of the linear predictor.
    """

    has_probabilities: ClassVar[bool] = False
    """Whether the loss is a negative log (pseudo-)likelihood, so that a class has a probability."""
    counts_incomplete_records: ClassVar[bool] = True
    not_simulated: ClassVar[str] = "A convex loss defines no law of records, so data sets cannot be simulated."

    design: Design
    target: Column | NumericColumn
    loss: Loss
    prior: CoefficientLaw

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        parts = require_type(domain, ConvexLossDomain)
        return cls(parts.design, parts.target.target(), parts.loss, cls.coefficient_law(parts, prior))

    @classmethod
    def coefficient_law(cls, domain: ConvexLossDomain, prior: Section) -> CoefficientLaw:
        """Return the prior of the coefficients."""
        return CoefficientLaw.common(domain.design.width, require_type(prior, NormalCoefficients).precision)

    @property
    def columns(self) -> tuple[Column | NumericColumn, ...]:
        """The columns of the features, then the column of the target."""
        return DesignRows(self.design, self.target).columns

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.role for column in self.columns)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The coefficients of the scaled design, ``beta[name]``."""
        return tuple(f"beta[{name}]" for name in self.design.names)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return no prediction: it would depend on the features; see ``dpbayes predict``."""
        return {}

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        """Return the largest coefficient of a feature."""
        names = self.design.names
        features = range(int(self.design.intercept), len(names))
        k = max(features, key=lambda i: abs(estimates[i]))
        which = f"records with {names[k]}" if "=" in names[k] else f"a higher {names[k]}"
        coefficient = Fact(f"{self._effect(estimates[k] > 0)} for {which}, with a coefficient of about", k)
        target, count = self.target.role, len(self.design.features)
        topic = f"this release estimates how {target} depends on {count} column{'s' * (count != 1)}"
        return Findings((coefficient,), topic, n_effects=len(features))

    @abstractmethod
    def _effect(self, is_positive: bool) -> str:
        """Return what a coefficient means for the target, in words."""

    def prior_quantiles(self, levels: Floats) -> Floats:
        return self.prior.quantiles(levels)

    def simulated_records(self, parameters: Sequence[float], n_records: int, rng: np.random.Generator) -> Integers:
        import numpy as np

        features = self.simulated_features(n_records, rng)
        scores = np.asarray(self.design.rows(features) @ np.asarray(parameters))
        return np.column_stack([features, self.simulated_targets(scores, rng)])

    def simulated_features(self, n_records: int, rng: np.random.Generator) -> Integers:
        """Draw codes of independent features, shape (n_records, n_features).

        The law of each feature is drawn, too: the shares of texts uniformly; for numbers, a beta law between the bounds
        with any mean, and with any standard deviation that is possible at this mean, small ones more often.
        """
        import numpy as np

        return np.column_stack([_simulated_codes(column, n_records, rng) for column in self.columns[:-1]])

    def predicted_column(self, requested: str | None) -> int:
        """Return the index of the target, the last column."""
        return fixed_target(self.name, self.column_names, len(self.columns) - 1, requested)

    def predictor(self, column: int, draws: Floats) -> CoefficientPredictor:
        return CoefficientPredictor(self.columns, self.column_names, column, draws, self)

    def predicted(self, draws: Floats, x: Any) -> Floats:
        """Return the prediction of each draw for each row: a probability of class 1, a score, or a number.

        Args:
            draws: coefficients, shape (n_draws, width).
            x: rows of the design.

        Returns:
            Shape (n_rows, n_draws).
        """
        return self.mean(x @ draws.T)

    @abstractmethod
    def mean(self, t: Floats) -> Floats:
        """Convert linear predictors to predictions, elementwise."""


class ConvexLossModel(CoefficientModel):
    """A Gibbs posterior of a convex loss with bounded derivatives.

    The density of the posterior is proportional to exp(-beta * sum_i loss(x_i'w; y_i) - tau * |w|^2 / 2).
    """

    default_mechanism: ClassVar[str] = "gibbs-posterior"

    @property
    def precision(self) -> float:
        """The prior precision tau of every coefficient, for samplers of the Gibbs posterior.

        Raises:
            SpecError: the prior has no such precision.
        """
        if self.prior.tau is None:
            raise SpecError(
                "this mechanism needs independent normal priors with mean 0 and the same precision",
                where="prior",
                hint="state precision alone, or use noisy-newton",
            )
        return self.prior.tau

    def curvature(self, n_records: int, touched: int) -> Curvature:
        """Return bounds on gradients and Hessians of the summed loss of ``n_records`` records.

        Privacy: a row of the design has norm at most c, and the loss has first and second derivatives of at most
            ``slope_bound`` and ``curvature_bound``. Hence the gradient of one record's loss has norm at most
            slope_bound * c, its Hessian has norm at most curvature_bound * c^2, and the sum of n Hessians has norm at
            most n * curvature_bound * c^2. An invalid record adds nothing.
        Source: derived here.
        """
        c = self.design.row_norm
        return Curvature(self.loss.slope_bound * c, self.loss.curvature_bound * c * c * n_records, touched)


class ConvexClassModel(ConvexLossModel):
    """A model of a class; the linear predictor is positive for class 1."""

    first_spec: ClassVar[Mapping[str, str]] = CLASS_SPEC
    target: Column

    def _effect(self, is_positive: bool) -> str:
        return f"{self.target.role} = {self.target.levels[1]} seems {'more' if is_positive else 'less'} likely"

    def simulated_targets(self, scores: Floats, rng: np.random.Generator) -> Integers:
        import numpy as np

        if self.has_probabilities:
            probabilities = self.mean(scores)
        else:
            losses = [self.loss.value(scores, np.full(len(scores), float(y))) for y in (0, 1)]
            probabilities = 1.0 / (1.0 + np.exp(np.clip(losses[1] - losses[0], -700.0, 700.0)))
        return np.asarray(rng.random(len(scores)) < probabilities, dtype=np.int64)


class ConvexNumberModel(ConvexLossModel):
    """A model of a number; the linear predictor is the number scaled to [-1, 1]."""

    first_spec: ClassVar[Mapping[str, str]] = NUMBER_SPEC
    target: NumericColumn

    def _effect(self, is_positive: bool) -> str:
        return f"{self.target.role} seems {'higher' if is_positive else 'lower'}"

    def simulated_targets(self, scores: Floats, rng: np.random.Generator) -> Integers:
        import numpy as np

        residuals = np.linspace(-_MAX_RESIDUAL, _MAX_RESIDUAL, _RESIDUALS)
        losses = self.loss.value(residuals, np.zeros(_RESIDUALS))
        weights = np.exp(losses.min() - losses)
        drawn = rng.choice(residuals, len(scores), p=weights / weights.sum())
        shares = (np.clip(scores - drawn, -1.0, 1.0) + 1.0) / 2.0
        return np.asarray(np.rint(shares * self.target.steps), dtype=np.int64)

    def mean(self, t: Floats) -> Floats:
        """Convert scaled numbers to the units of the target."""
        low, high = self.target.lower, self.target.upper
        return (low + high) / 2.0 + (high - low) / 2.0 * t


@dataclass(frozen=True)
class CoefficientPredictor(Predictor):
    """Predicts the target of a record by the mean of the predictions of all released draws of the coefficients."""

    model: CoefficientModel

    @property
    def note(self) -> str:
        """A note that predictions have no intervals, or are not probabilities."""
        target, name = self.model.target, self.model.name
        if isinstance(target, NumericColumn):
            predicted = "a number" if self.level is None else f"the {self.level:g} quantile"
            return f"{name} predicts {predicted} without a predictive law, so it gives no interval"
        if not self.model.has_probabilities:
            return f"{name} predicts scores, not probabilities: a score above 0 means {target.levels[1]!r}"
        return ""

    @property
    def level(self) -> float | None:
        return self.model.loss.level if isinstance(self.model.loss, QuantileLoss) else None

    def predict(self, codes: Integers) -> Prediction:
        """Return predictions of the records whose features are all valid; see ``Predictor``."""
        import numpy as np

        features = codes[:, : self.target]
        valid = np.asarray((features >= 0).all(axis=1))
        features = np.where(valid[:, None], features, 0)
        size = max(1, _MAX_ENTRIES // max(self.model.design.width, len(self.draws)))
        starts = range(0, max(len(features), 1), size)
        blocks = [self.block(self.model.design.rows(features[i : i + size])) for i in starts]
        return blocks[0].joined(blocks[1:]).only_where(valid)

    def block(self, rows: Any) -> Prediction:
        """Return predictions for rows of the design."""
        import numpy as np

        mean = self.model.predicted(self.draws, rows).mean(axis=1)
        target = self.model.target
        if isinstance(target, NumericColumn):
            return NumberPrediction(mean)
        if self.model.has_probabilities:
            return ClassProbabilities(np.column_stack([1.0 - mean, mean]), target.levels)
        return ClassScores(mean, target.levels)


def _simulated_codes(column: AnyColumn, n_records: int, rng: np.random.Generator) -> Integers:
    import numpy as np

    k = n_codes(column)
    if not isinstance(column, NumericColumn):
        return rng.choice(k, n_records, p=rng.dirichlet(np.ones(k)))
    mean, share = rng.random(), rng.uniform(*_ROOT_OF_SD) ** 2
    weight = 1.0 / share**2 - 1.0
    return np.minimum((k * rng.beta(mean * weight, (1.0 - mean) * weight, n_records)).astype(np.int64), k - 1)
