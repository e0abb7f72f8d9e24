"""Markov chains of latent sums and counts: against exact answers, by Geweke's joint test, and by calibration.

Geweke 2004, "Getting it right": parameters and noise variances are drawn from the prior, the release from its law given
them; then the sampler's own frozen kernel and new releases alternate. Where the kernel leaves the posterior invariant,
every chain stays in the joint law. Thousands of independent chains start in that law, so that what is compared are
independent draws, and no Monte-Carlo error has to be estimated. Each comparison fails without reason with probability
1e-6; seeds are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from dpbayes_cli.core.noisy_observation import NoisyCounts, NoisySums, RecordCount, RecordLaw
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.counts import lattice_chain
from dpbayes_cli.inference.counts.beta_mixture import beta_mixture
from dpbayes_cli.inference.counts.lattice_chain import LatticeChain
from dpbayes_cli.inference.diagnostics import ks_distance
from dpbayes_cli.inference.posterior import Effort
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.inference.sums.scale_mixture_gibbs import GibbsState, ScaleMixtureSampler
from dpbayes_cli.models.families.number_families import NumberLaw
from dpbayes_cli.models.gamma_exponential import GammaExponential
from dpbayes_cli.models.multivariate_normal import MultivariateNormal
from dpbayes_cli.models.normal import Normal
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.inference.sum_cells import (
    EPSILONS,
    FALSE_FAIL,
    SIZES,
    Cell,
    chain_ranks,
    dense_posterior,
    exact_ranks,
    models,
    simulate,
)
from tests.statistical import assert_follows, assert_not_uniform, assert_uniform, uniformity_p_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.core.columns import Outside

CLOSE = 0.01


def pooled(observation: NoisySums, observed: Floats, seed: int = 1, chains: int = 500) -> Floats:
    """Return sorted draws of the first coordinate, 80 of each chain."""
    sampler = ScaleMixtureSampler(observation, observed, chains, np.random.default_rng(seed))
    return np.sort(sampler.run(80)[0, :, :, 0].ravel())


def distance_to_exact(name: str, n: int, epsilon: str, chains: int) -> float:
    """Return the KS distance of the chains to the posterior of the exact likelihood, on a dense grid."""
    cell = simulate(models()[name], True, n, epsilon, 1)
    points, cumulative = dense_posterior(cell)
    return ks_distance(np.interp(pooled(cell.observation, cell.observed, chains=chains), points, cumulative[0]))


# --- against exact answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gamma-exponential", "normal-mean"])
def test_chains_have_the_exact_posterior_of_one_parameter(name: str) -> None:
    """KS <= 0.01; 30,000 independent draws exceed it with probability 0.005 (DKW); the seed is fixed."""
    assert distance_to_exact(name, 1000, "0.01", 500) <= CLOSE


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon"), [(1000, "0.1"), (1000, "1"), (100, "0.1"), (10, "0.01")])
@pytest.mark.parametrize("name", ["gamma-exponential", "normal-mean", "gamma-poisson", "beta-geometric"])
def test_chains_have_the_exact_posterior_in_other_cells(name: str, n: int, epsilon: str) -> None:
    """100,000 effective draws exceed 0.01 with probability below 1e-8 (DKW)."""
    assert distance_to_exact(name, n, epsilon, 2500) <= CLOSE


@dataclass(frozen=True)
class BernoulliRecords(RecordLaw):
    """A record that is one with probability theta ~ Beta(a, b); the coordinate is the logit of theta."""

    a: float = 10.0
    b: float = 10.0

    @property
    def dimension(self) -> int:
        return 1

    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        theta = rng.beta(self.a, self.b, size)
        return np.asarray(np.log(theta) - np.log1p(-theta))[:, None]

    def log_prior(self, points: Floats) -> Floats:
        x = points[..., 0]
        return np.asarray(self.a * x - (self.a + self.b) * np.logaddexp(0.0, x))

    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        theta = expit(points)
        return theta, (theta * (1.0 - theta))[..., None]

    def parameters(self, points: Floats) -> Floats:
        return expit(points)

    def complete_data_sd(self, points: Floats, n_records: Floats) -> Floats:
        raise NotImplementedError

    def draw_plug_in(self, observed: Floats, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        raise NotImplementedError


def binomial_distance(y: int = 340) -> float:
    """Return the KS distance of the sampler from the exact Beta mixture at n = 1000, epsilon = 0.01."""
    noise, total = DiscreteLaplace(100.0), RecordCount("known", 1000)
    mixture = beta_mixture(NoisyCounts((10.0, 10.0), (y, None), noise, total))
    draws = pooled(NoisySums(BernoulliRecords(), (y,), noise, total), np.array([[float(y)]]))
    return ks_distance(mixture.cdf_of(expit(draws)))


def test_chains_have_the_exact_posterior_of_a_binomial_count() -> None:
    """As above; the paper's sampler is 0.03 to 0.15 away in this cell."""
    assert binomial_distance() <= CLOSE


def test_variances_that_are_never_redrawn_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that treats Laplace noise as Gaussian passes Geweke's test, and is wrong."""
    monkeypatch.setattr(
        ScaleMixtureSampler, "_draw_variances", lambda self, noise: np.full(noise.shape, self._noise_variance)
    )
    assert binomial_distance(80) > 2 * CLOSE


def test_a_sum_that_does_not_learn_from_the_release_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Line 10 of the paper's Algorithm 2 as printed draws the variances given noise from its prior."""
    monkeypatch.setattr(ScaleMixtureSampler, "_draw_noise", _free_noise)
    assert binomial_distance(80) > 2 * CLOSE


@pytest.mark.slow
def test_the_lattice_chain_has_the_exact_posterior_of_a_binomial_count() -> None:
    """20,000 effective draws exceed 0.01 in 4 % of seeds, this one does not; the slow test below asks for 100,000."""
    observation = NoisyCounts((10.0, 10.0), (340, None), DiscreteLaplace(100.0), RecordCount("known", 1000))
    posterior = infer(observation, "chain", 20_000, np.random.default_rng(1), Effort(ess=15_000))
    assert posterior.warnings == ()
    assert posterior.diagnostics["ks_exact"] <= CLOSE


@pytest.mark.slow
def test_the_lattice_chain_has_the_exact_posterior_in_a_long_run() -> None:
    """False-fail below 1e-8 at 90,000 effective draws (DKW)."""
    observation = NoisyCounts((10.0, 10.0), (340, None), DiscreteLaplace(100.0), RecordCount("known", 1000))
    posterior = infer(observation, "chain", 120_000, np.random.default_rng(2), Effort(ess=100_000))
    assert posterior.diagnostics["ks_exact"] <= CLOSE


# --- Geweke's joint test ---------------------------------------------------------------------------------------------

JOINT_CHAINS = 2000
ALTERNATIONS = 12
GEWEKE = {
    "normal, Laplace, known": ("normal", False, True),
    "normal, Gaussian, known": ("normal", True, True),
    "normal, Laplace, at most": ("normal", False, False),
    "multivariate-normal, Laplace, known": ("multivariate-normal", False, True),
    "multivariate-normal, Gaussian, at most": ("multivariate-normal", True, False),
    "three columns, Laplace, at most: trajectories": ("three columns", False, False),
}


THREE = MultivariateNormal(tuple((name, -10.0, 10.0) for name in "abc"), (0.5, -0.3, 0.1), (0.6, 0.4, 0.5), 2.0, 12.0)
"""Nine coordinates: moved along trajectories."""


class Joint:
    """Many independent chains that start at the joint law, and alternate the sampler's kernel with new releases."""

    def __init__(self, case: str, n: int = 20, seed: int = 1, many: bool = False) -> None:
        name, gaussian, complete = GEWEKE[case]
        model = models().get(name, THREE)
        cell = simulate(model, complete, n, "0.5", 1, gaussian)
        self.rng = np.random.default_rng(seed)
        self.observation, self.law = cell.observation, cell.observation.law
        self.sampler = ScaleMixtureSampler(cell.observation, cell.observed, 8, self.rng)
        self.laplace = not gaussian
        chains = JOINT_CHAINS if many or self.law.dimension < 9 else JOINT_CHAINS // 4
        points = self.law.draw_prior(chains, self.rng)[None]
        if not complete:
            totals = self.rng.uniform(-0.5, n + 0.5, (1, chains, 1))
            points = np.concatenate([points, totals], axis=-1)
        shape = (*points.shape[:2], cell.observed.shape[1])
        variance = cell.observation.noise.variance
        variances = variance * self.rng.standard_exponential(shape) if self.laplace else np.full(shape, variance)
        self.sampler._adapt(points)
        self.sampler._factor *= 0.6  # a posterior's spread; any frozen proposal will do
        self.sampler._whitening /= 0.6
        self.release(points, variances)

    def release(self, points: Floats, variances: Floats) -> None:
        """Draw new releases given points and variances."""
        sampler = self.sampler
        coordinates, totals = sampler._parts(points)
        mean, covariance = self.law.moments(coordinates)
        totals = np.maximum(totals, 0.0)[..., None]
        root = np.linalg.cholesky(covariance + 1e-12 * np.eye(mean.shape[-1]) * self.observation.noise.variance)
        spread = (root @ self.rng.standard_normal((*mean.shape, 1)))[..., 0] * np.sqrt(totals)
        noise = np.sqrt(variances) * self.rng.standard_normal(mean.shape)
        sampler._observed = totals * mean + spread + noise
        sampler._state = sampler._state_at(points, variances)

    def whitened(self) -> Floats:
        """Return the releases, standardized given points and variances: standard normal in the joint law."""
        state = self.sampler._state
        residual, spread = self.sampler._residual(state.points)
        total = spread + (state.variances / self.observation.noise.variance)[..., None] * np.eye(spread.shape[-1])
        return np.asarray(np.linalg.solve(np.linalg.cholesky(total), residual[..., None])[0, ..., 0])

    def p_values(self) -> dict[str, float]:
        """Alternate; compare coordinates with the prior, variances and releases with their laws."""
        for i in range(ALTERNATIONS):
            self.sampler._sweep()
            if i + 1 < ALTERNATIONS:
                self.release(self.sampler._state.points, self.sampler._state.variances)
        state, by_name = self.sampler._state, {}
        fresh = self.law.draw_prior(100_000, self.rng)
        for k in range(self.law.dimension):
            by_name[f"coordinate {k}"] = float(
                stats.ks_2samp(state.points[0, :, k], fresh[:, k], method="asymp").pvalue
            )
        if state.points.shape[-1] > self.law.dimension:
            shares = (state.points[0, :, -1] + 0.5) / (self.observation.total.n + 1.0)
            by_name["number of records"] = uniformity_p_value(shares)
        whitened = self.whitened()
        for k in range(whitened.shape[1]):
            by_name[f"release {k}"] = float(stats.kstest(whitened[:, k], "norm").pvalue)
            if self.laplace:
                scaled = state.variances[0, :, k] / self.observation.noise.variance
                by_name[f"variance {k}"] = float(stats.kstest(scaled, "expon").pvalue)
                by_name[f"size and variance {k}"] = float(stats.spearmanr(np.abs(whitened[:, k]), scaled).pvalue)
        return by_name


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if "trajectories" in case else case for case in GEWEKE]
)
def test_the_kernel_keeps_the_joint_law(case: str) -> None:
    p_values = Joint(case).p_values()
    assert min(p_values.values()) >= FALSE_FAIL / len(p_values), p_values


@pytest.mark.slow
@pytest.mark.parametrize("case", ["normal, Laplace, at most", "three columns, Laplace, at most: trajectories"])
def test_the_kernel_moves(case: str) -> None:
    """A kernel that never moves would pass Geweke's test, so most chains must have moved in every part."""
    joint = Joint(case)
    before, variances = joint.sampler._state.points.copy(), joint.sampler._state.variances.copy()
    for _ in range(ALTERNATIONS):
        joint.sampler._sweep()
    after = joint.sampler._state
    assert float((after.points != before).any(axis=-1).mean()) > 0.9
    assert float((after.variances != variances).mean()) > 0.99


def _half_shape(self: ScaleMixtureSampler, noise: Floats) -> Floats:
    means = np.sqrt(2.0) / np.maximum(np.abs(noise), 1e-8)
    return np.asarray(self._noise_variance / np.maximum(self._rng.wald(means, 1.0), 1e-12))


def _from_the_prior(self: ScaleMixtureSampler, noise: Floats) -> Floats:
    return np.asarray(self._noise_variance * self._rng.standard_exponential(noise.shape))


_LEAPS = ScaleMixtureSampler._leaps
_NOISE = ScaleMixtureSampler._draw_noise


def _wrong_sign(self: ScaleMixtureSampler, points: Floats) -> tuple[Floats, Floats]:
    proposal, correction = _LEAPS(self, points)
    return proposal, -correction


def _free_noise(self: ScaleMixtureSampler, state: GibbsState) -> Floats:
    return np.asarray(np.sqrt(state.variances / self._noise_variance) * self._rng.normal(size=state.variances.shape))


BUGS: dict[str, tuple[str, Any]] = {
    "the shape of the inverse Gaussian law halved": ("_draw_variances", _half_shape),
    "variances drawn from their prior": ("_draw_variances", _from_the_prior),
    "the sum drawn without regard to the release": ("_draw_noise", _free_noise),
    "the wrong sign of a correction": ("_leaps", _wrong_sign),
}
TRAJECTORIES = "three columns, Laplace, at most: trajectories"


@pytest.mark.parametrize("bug", list(BUGS))
def test_a_planted_bug_leaves_the_joint_law(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    joint = Joint("normal, Laplace, known")
    method, wrong = BUGS[bug]
    monkeypatch.setattr(ScaleMixtureSampler, method, wrong)
    p_values = joint.p_values()
    assert min(p_values.values()) < FALSE_FAIL / len(p_values), p_values


@pytest.mark.slow
def test_a_trajectory_without_its_kinetic_energy_leaves_the_joint_law(monkeypatch: pytest.MonkeyPatch) -> None:
    joint = Joint(TRAJECTORIES, many=True)
    whole = ScaleMixtureSampler._trajectories
    monkeypatch.setattr(ScaleMixtureSampler, "_trajectories", lambda *a: (whole(*a)[0], 0.0))
    p_values = joint.p_values()
    assert min(p_values.values()) < FALSE_FAIL / len(p_values), p_values


class PerChain:
    """Observed counts that differ by chain, indexed by category as in ``LatticeChain``."""

    def __init__(self, values: Integers) -> None:
        self.values = values

    def __len__(self) -> int:
        return int(self.values.shape[1])

    def __getitem__(self, categories: Integers) -> Integers:
        return self.values[:, categories]


COUNTS = {
    "known": NoisyCounts((2.0, 3.0, 0.7), (4, 5, 2), DiscreteLaplace(3.0), RecordCount("known", 12)),
    "at most": NoisyCounts((2.0, 3.0, 0.7), (4, 5, 2), DiscreteLaplace(3.0), RecordCount("at-most", 12)),
    "Gaussian": NoisyCounts((2.0, 3.0, 0.7), (4, 5, 2), DiscreteGaussian(2.5), RecordCount("known", 12)),
}


def lattice_joint(case: str, monkeypatch: pytest.MonkeyPatch, seed: int = 1) -> tuple[Integers, Integers, NoisyCounts]:
    """Alternate sweeps of the lattice chain and new releases; return counts and noise before the last release."""
    observation, rng = COUNTS[case], np.random.default_rng(seed)
    monkeypatch.setattr(lattice_chain, "CHAINS", JOINT_CHAINS)
    monkeypatch.setattr(lattice_chain, "WARM_UP", 1)
    chain = LatticeChain(observation, rng)
    n = observation.total.n
    totals = np.full(JOINT_CHAINS, n)
    if observation.total.kind == "at-most":
        totals = rng.integers(0, n, JOINT_CHAINS, endpoint=True)
    theta = rng.dirichlet(observation.concentration, JOINT_CHAINS)
    counts = rng.multinomial(totals, theta)
    chain._state = np.column_stack([counts, n - totals]) if observation.total.kind == "at-most" else counts
    for _ in range(ALTERNATIONS):
        counts = chain._state[:, :3]
        observed = counts + observation.noise.simulate(rng, counts.shape)
        monkeypatch.setattr(chain, "_observed", PerChain(observed))
        chain._sweep()
    return chain._state[:, :3], observed - chain._state[:, :3], observation


def lattice_p_values(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if counts or noise do not follow their laws: two tests of three columns each, at 1e-6 / 6."""
    counts, noise, observation = lattice_joint(case, monkeypatch)
    n, each = observation.total.n, FALSE_FAIL / 6
    support = np.arange(n + 1)
    around = np.arange(-40, 41)
    for k, a in enumerate(observation.concentration):
        rest = sum(observation.concentration) - a
        totals = [n] if observation.total.kind == "known" else list(range(n + 1))
        masses = np.mean([stats.betabinom.pmf(support, m, a, rest) for m in totals], axis=0)
        assert_follows(counts[:, k], support, masses, each)
        assert_follows(noise[:, k], around, np.exp(observation.noise.log_pmf(around)), each)


@pytest.mark.parametrize("case", list(COUNTS))
def test_the_lattice_kernel_keeps_the_joint_law(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lattice_p_values(case, monkeypatch)


_PRIOR = LatticeChain._prior

LATTICE_BUGS: dict[str, tuple[str, Callable[..., Any]]] = {
    "a prior without its factorials": ("_prior", lambda self, k, counts: 0.8 * _PRIOR(self, k, counts)),
    "one half of a pair left out": (
        "_log_density",
        lambda self, counts, sums, left, right: self._factors(counts, left),
    ),
}


@pytest.mark.parametrize("bug", list(LATTICE_BUGS))
def test_a_planted_bug_leaves_the_joint_law_of_counts(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, wrong = LATTICE_BUGS[bug]
    monkeypatch.setattr(LatticeChain, method, wrong)
    with pytest.raises(AssertionError, match="do not follow"):
        lattice_p_values("known", monkeypatch)


# --- calibration -----------------------------------------------------------------------------------------------------

OF_CHAINS: list[tuple[str, Outside]] = [
    ("normal", "clamp"),
    ("normal", "drop"),
    ("multivariate-normal", "clamp"),
    ("gamma-exponential", "drop"),
    ("normal-mean", "drop"),
    ("gamma-poisson", "drop"),
    ("beta-geometric", "drop"),
]
OF_ONE = ["beta-geometric", "gamma-exponential", "gamma-poisson", "normal-mean"]
ALL = [(complete, n, epsilon) for complete in (True, False) for n in SIZES for epsilon in EPSILONS]
FAST = [("normal", False, 100, "0.1")]


def assert_calibrated(ranks: Floats) -> None:
    """Fail if the ranks of a parameter are not uniform; false-fail 1e-6 for all parameters together."""
    for column in ranks.reshape(len(ranks), -1).T:
        assert_uniform(column, FALSE_FAIL / (ranks.size // len(ranks)))


@pytest.mark.parametrize(("n", "epsilon"), [(10, "1"), (100, "0.1"), (1000, "0.01")])
@pytest.mark.parametrize("name", OF_ONE)
def test_exact_posteriors_are_calibrated(name: str, n: int, epsilon: str) -> None:
    assert_calibrated(exact_ranks(simulate(models()[name], True, n, epsilon)))


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize("name", OF_ONE)
def test_exact_posteriors_of_an_unknown_number_are_calibrated(name: str) -> None:
    """60 trials; beta-geometric codes 0..8 keep an even grid."""
    assert_calibrated(exact_ranks(simulate(models()[name], False, 10, "0.1", 60)))


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize(("complete", "n", "epsilon"), ALL)
@pytest.mark.parametrize("name", OF_ONE)
def test_exact_posteriors_are_calibrated_in_a_long_run(name: str, complete: bool, n: int, epsilon: str) -> None:
    """3,000 trials; 200 where the number of records is not known, which is slow."""
    trials = 3000 if complete else 200
    assert_calibrated(exact_ranks(simulate(models()[name], complete, n, epsilon, trials)))


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", OF_ONE)
def test_exact_posteriors_of_dropped_numbers_are_calibrated(name: str, n: int, epsilon: str) -> None:
    """300 trials with n records, some of them out of bounds."""
    assert_calibrated(exact_ranks(simulate(models("drop")[name], True, n, epsilon)))


@pytest.mark.parametrize(("name", "complete", "n", "epsilon"), FAST)
def test_chains_are_calibrated(name: str, complete: bool, n: int, epsilon: str) -> None:
    """60 trials; all cells, all policies and 1,000 trials are in the slow tests."""
    assert_calibrated(chain_ranks(simulate(models()[name], complete, n, epsilon, 60)))


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize(("complete", "n", "epsilon"), ALL)
@pytest.mark.parametrize(("name", "outside"), OF_CHAINS)
def test_chains_are_calibrated_in_every_cell(name: str, outside: Outside, complete: bool, n: int, epsilon: str) -> None:
    """1,000 trials."""
    assert_calibrated(chain_ranks(simulate(models(outside)[name], complete, n, epsilon, 1000)))


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize("rho", ["0.0001", "0.01", "1"])
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize(("name", "outside"), OF_CHAINS)
def test_chains_are_calibrated_under_gaussian_noise(name: str, outside: Outside, complete: bool, rho: str) -> None:
    assert_calibrated(chain_ranks(simulate(models(outside)[name], complete, 300, rho, gaussian=True)))


# --- planted miscalibrations -----------------------------------------------------------------------------------------


def thin(cell: Cell, factor: float) -> Cell:
    """Assume less noise than there was."""
    law = type(require_type(cell.observation.noise, DiscreteLaplace))
    return replace(cell, observation=replace(cell.observation, noise=law(cell.observation.noise.scale * factor)))


def test_assuming_a_third_of_the_noise_is_caught() -> None:
    of_one = simulate(models()["gamma-exponential"], True, 1000, "0.03", 400)
    assert_not_uniform(exact_ranks(thin(of_one, 1 / 3)), FALSE_FAIL)


@pytest.mark.slow
def test_chains_that_assume_a_third_of_the_noise_are_caught() -> None:
    of_two = simulate(models()["normal"], True, 1000, "0.05", 200)
    assert_not_uniform(chain_ranks(thin(of_two, 1 / 3))[:, 0], FALSE_FAIL)


_MOMENTS = NumberLaw.moments


def test_the_spread_of_the_number_of_dropped_records_left_out_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that may be dropped adds q (1 - q) mu mu' to the covariance; half of all times are beyond the bound."""
    cell = simulate(GammaExponential(0.12, 40.0, 7.0, "drop"), True, 1000, "5", 100)
    assert_uniform(chain_ranks(cell)[:, 0], FALSE_FAIL)

    def without(self: NumberLaw, points: Floats) -> tuple[Floats, Floats]:
        mean, covariance = _MOMENTS(self, points)
        inside = mean[..., 1] / self.column.steps
        given = mean / inside[..., None]
        spread = (inside * (1.0 - inside))[..., None, None] * given[..., :, None] * given[..., None, :]
        scale = self.column.steps**2
        return mean, np.asarray(covariance - spread + 1e-9 * scale * np.eye(2))

    monkeypatch.setattr(NumberLaw, "moments", without)
    assert_not_uniform(chain_ranks(cell)[:, 0], FALSE_FAIL)


def folded(ranks: Floats) -> Floats:
    """Return how far ranks are from the middle, uniform too: posteriors that are too wide show there first."""
    return np.asarray(2.0 * np.abs(ranks - 0.5))


def shared_noise_ranks(shared: bool) -> Floats:
    """Return folded ranks of the difference of the two components, 2 E[v] - E[v^2] of a scaled number."""
    cell = simulate(Normal(-3.0, 3.0, 0.0, 2.0, 2.5, 3.0), True, 1000, "0.1", 300, shared_noise=shared)

    def difference(parameters: Floats) -> Floats:
        standardized = parameters[..., 0] * np.sqrt(2.0 / parameters[..., 1])
        mean, _ = cell.observation.law.moments(np.stack([standardized, -np.log(parameters[..., 1])], axis=-1))
        return np.asarray(mean[..., :1] - mean[..., 1:])

    return folded(chain_ranks(cell, functional=difference)[:, 0])


@pytest.mark.slow
def test_one_noise_draw_for_all_components_is_caught() -> None:
    """A bug of the authors' code. Each parameter stays calibrated; a shared draw spoils their differences."""
    assert_uniform(shared_noise_ranks(False), FALSE_FAIL)
    assert_not_uniform(shared_noise_ranks(True), FALSE_FAIL)


def test_one_noise_draw_for_all_counts_is_caught() -> None:
    """The same for three categories, whose noisy counts add up to the known total plus three times the draw."""
    noise, rng, ranks = DiscreteLaplace(60.0), np.random.default_rng(5), np.empty((2, 150))
    for i in range(150):
        theta = rng.dirichlet((1.0, 1.0, 1.0))
        counts = rng.multinomial(1000, theta)
        for j, drawn in enumerate((noise.simulate(rng, 3), np.repeat(noise.simulate(rng, 1), 3))):
            observed = tuple(int(c) for c in counts + drawn)
            observation = NoisyCounts((1.0, 1.0, 1.0), observed, noise, RecordCount("known", 1000))
            draws = infer(observation, "noise-aware", 199, rng, Effort(summary_draws=199)).draws[:, 0]
            ranks[j, i] = (float((draws < theta[0]).sum()) + rng.random()) / 200.0
    assert_uniform(folded(ranks[0]), FALSE_FAIL)
    assert_not_uniform(folded(ranks[1]), FALSE_FAIL)


def correlation_p_value(noise: Integers) -> float:
    """Return the p-value of Spearman's rank correlation of two columns."""
    return float(stats.spearmanr(noise[:, 0], noise[:, 1]).pvalue)


@pytest.mark.parametrize("law", [DiscreteLaplace(30.0), DiscreteGaussian(30.0)])
def test_components_of_simulated_and_released_noise_are_independent(law: DiscreteLaplace | DiscreteGaussian) -> None:
    """By values and by sizes; the planted bug of one shared draw has correlation one. False-fail 4e-6 together."""
    simulated = law.simulate(np.random.default_rng(1), (4000, 2))
    released = np.array(law.release([0] * 4000)).reshape(-1, 2)
    for noise in (simulated, released):
        assert correlation_p_value(noise) >= FALSE_FAIL
        assert correlation_p_value(np.abs(noise)) >= FALSE_FAIL
    shared = np.repeat(simulated[:, :1], 2, axis=1)
    assert correlation_p_value(shared) < FALSE_FAIL
