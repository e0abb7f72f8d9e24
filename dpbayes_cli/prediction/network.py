"""Predictions from networks of discrete variables: probabilities of the values of any variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.core.columns import AnyColumn
from dpbayes_cli.core.contracts import Model, expect
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteNetwork
from dpbayes_cli.prediction.forms import ClassProbabilities
from dpbayes_cli.prediction.predictor import Predictor

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers


@dataclass(frozen=True)
class NetworkPredictor(Predictor):
    """The posterior of a released network, as it predicts one of its variables; see ``Predictor``."""

    serves: ClassVar[type] = DiscreteNetwork

    model: DiscreteNetwork

    @classmethod
    def place(cls, model: Model, asked: str | None) -> int:
        """Return the index of the variable that is asked for, or else that the spec names."""
        network = expect(model, DiscreteNetwork)
        names = network.network.names
        if asked is None:
            if network.target is None:
                raise SpecError("no variable is named to be predicted", where="target", hint="--target NAME")
            return network.target
        if asked not in names:
            raise SpecError(f"there is no variable {asked!r}", where="target", hint=nearest(asked, names))
        return names.index(asked)

    @property
    def columns(self) -> tuple[AnyColumn, ...]:
        """The variables."""
        return self.model.variables

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.model.network.names

    def predict(self, codes: Integers) -> ClassProbabilities:
        """Return class probabilities, averaged over the posterior; see ``class_probabilities``."""
        import numpy as np

        from dpbayes_cli.inference.predictive.classify import class_probabilities

        network = self.model.network
        classes = network.levels[self.target]
        if not len(codes):
            return ClassProbabilities(np.empty((0, len(classes))), classes)
        return ClassProbabilities(class_probabilities(network, self.target, self.draws, codes), classes)
