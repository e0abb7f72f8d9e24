"""The privacy losses of exact laws, against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpbayes_cli.audit.laws import RENYI_ORDERS, AddedNoise, Choices, privacy_loss
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace


def test_a_privacy_loss_has_both_directions() -> None:
    """Two laws on two outcomes, in closed form, and two draws: the losses add up in each direction separately."""
    p, q = np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]])
    one, other = (Choices("a coin", np.log(masses), None) for masses in (p, q))
    loss = one.loss(other)
    assert [loss.up, loss.down] == pytest.approx([np.log(5.0), np.log(1.8)])
    assert loss.spread == pytest.approx(np.log(9.0))
    at_two = [np.log((p**2 / q).sum()), np.log((q**2 / p).sum())]
    two = RENYI_ORDERS.index(2.0)
    assert loss.renyi[:, two] == pytest.approx(at_two)
    there_and_back = privacy_loss([one, other], [other, one])
    assert there_and_back is not None
    assert there_and_back.renyi[:, two] == pytest.approx([sum(at_two)] * 2)
    assert replace(one, times=2).loss(replace(other, times=2)).spread == pytest.approx(2.0 * np.log(9.0))
    assert privacy_loss([one], [one, one]) is None


@pytest.mark.parametrize("law", [DiscreteLaplace(3.0), DiscreteGaussian(3.0), DiscreteGaussian(5000.0)])
def test_the_privacy_loss_of_noise_is_exact(law: DiscreteLaplace | DiscreteGaussian) -> None:
    loss = AddedNoise(law, (0, 0)).loss(AddedNoise(law, (2, -1)))
    if isinstance(law, DiscreteLaplace):
        assert loss.up == loss.down == pytest.approx(1.0)
    else:
        low = [order for order in RENYI_ORDERS if order <= 32]  # larger ones look farther out than masses are known
        assert loss.renyi[0, : len(low)] == pytest.approx(np.array(low) * 5.0 / (2.0 * law.scale**2), rel=1e-6)
