"""Predictions from networks of discrete variables: the probabilities of any variable's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.core.predicted import ClassProbabilities
from dpbayes_cli.core.predictor import Predictor
from dpbayes_cli.privacy.dag import Network

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers


@dataclass(frozen=True)
class NetworkPredictor(Predictor):
    """Predicts one variable of a network from its released posterior; see ``Predictor``."""

    network: Network

    def predict(self, codes: Integers) -> ClassProbabilities:
        """Return class probabilities, averaged over the posterior; see ``class_probabilities``."""
        import numpy as np

        from dpbayes_cli.inference.predictive.classify import class_probabilities

        classes = self.network.levels[self.target]
        if not len(codes):
            return ClassProbabilities(np.empty((0, len(classes))), classes)
        return ClassProbabilities(class_probabilities(self.network, self.target, self.draws, codes), classes)
