"""Hidden Markov models: the likelihood of held-out records given a release of the other records, by epsilon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate, product
from typing import Annotated, Any, ClassVar, Literal, cast

import msgspec
import numpy as np
from msgspec import Meta, field

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Integers
from dpbayes_cli.core.noisy_observation import NoisyCounts, RecordCount
from dpbayes_cli.core.section import Section
from dpbayes_cli.core.statistic_values import count_cells
from dpbayes_cli.experiments.file_records import POLICY, check_stand_ins, file_digest, read_codes
from dpbayes_cli.experiments.hmm_chains import HmmPrediction, HmmTrial, run_chain, state_shares
from dpbayes_cli.experiments.plots import Plot
from dpbayes_cli.experiments.results import OURS, Claim, Comparison, GridPoint, PointOutcome, Results
from dpbayes_cli.experiments.study import SimulatedStudy, build_model_sections, errors_at, plan_release
from dpbayes_cli.experiments.truncated_draws import least_entry, row_range
from dpbayes_cli.inference.dirichlet_rows import draw_theta
from dpbayes_cli.inference.posterior import Effort
from dpbayes_cli.inference.posterior import Method as Inference
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.models.hmm import Hmm
from dpbayes_cli.privacy.noise import NoiseLaw
from dpbayes_cli.spec.release_spec import build_spec

Method = Literal["non-private", "laplace", "laplace-naive", "ops", "gibbs"]

SOURCE = "[F] Figures 3-7"
MODEL = "hmm"
_EFFORT = Effort(summary_draws=1 << 10, ess=100.0, mcmc_sweeps=80)
"""With these 80 sweeps, log-likelihoods on ``sample_data/events.csv.gz`` agree to four digits with those of 200."""
_NOISE = "At small epsilon, noise of scale 2 * (number of features) / epsilon makes plug-in counts useless."
_PAID = "At the smallest epsilons plug-in counts predict as badly as `gibbs`."
_BEHIND = "the chain `gibbs`, which pays for every update, predicts worse than"
_COMPARISONS = (
    Comparison(SOURCE, "laplace-naive", "ops", "plug-in noisy counts predict better than one posterior draw", _NOISE,
               never=-1, some=1),
    Comparison(OURS, "laplace", "ops", "noise-aware inference predicts better than one posterior draw",
               never=-1, some=1),
    Comparison(OURS, "laplace", "laplace-naive", "noise-aware inference predicts better than plug-in counts",
               never=-1, some=1),
    Comparison(SOURCE, "laplace-naive", "gibbs", f"{_BEHIND} `laplace-naive`", _PAID, never=-1, some=1),
    Comparison(SOURCE, "ops", "gibbs", f"{_BEHIND} `ops`", _PAID, never=-1, some=1),
)  # fmt: skip


class HmmCase(Section, frozen=True, kw_only=True):
    """A file of records with public domains; each record belongs to one sequence and one time step."""

    records: Annotated[str, Meta(description="path of the file, relative to the study file")]
    domain: Annotated[dict[str, Any], Meta(description="domain of the model, without the number of states")]
    prior: dict[str, Any] = field(default_factory=dict)

    def model(self, states: int) -> Hmm:
        document = {"model": MODEL, "domain": {**self.domain, "states": states}, "prior": self.prior}
        return cast(Hmm, build_spec(document).build_model())


class HiddenMarkovModels(SimulatedStudy, frozen=True, kw_only=True):
    """The likelihood of held-out records of a hidden Markov model, given a release of the other records.

    In each trial a random set of cells is held out; a cell is one time step of one sequence. The records of held-out
    cells are removed, so that the noisy counts of these cells are pure noise. With one hidden state the model is naive
    Bayes, and noisy counts of all records together are released.

    - `non-private`: the posterior of exact counts.
    - `laplace`: noise-aware inference from counts with discrete Laplace noise.
    - `laplace-naive`: plug-in inference from the same release, as in the paper: negative counts become zero, and all
      counts are treated as exact.
    - `ops` (**idealized**): one draw of the posterior under a power of the likelihood, with emission probabilities of
      at least `least_share`. An exact draw would be epsilon-DP. Here the draw is the last point of a chain of
      `converged` sweeps in floats. The first half of the chain uses higher powers, which a release could not afford.
    - `gibbs`: the last point of the chain of the mechanism `gibbs`, in floats. The chain starts from the prior, and
      pays for every update of its `sweeps` sweeps. The emission probabilities of a feature with V values are at least
      min(0.1, 0.5 / V).

    Source: Foulds et al. 2016, sec. 5 and Fig. 6.
    """

    study: Literal["hmm"]
    trials: Annotated[int, Meta(ge=2, le=1_000, description="number of trials; each holds out different cells")] = 10
    draws: Annotated[int, Meta(ge=2, le=10_000)] = 200
    held_out: Annotated[float, Meta(gt=0, lt=1, description="share of the cells that are held out")] = 0.1
    states: Annotated[tuple[Annotated[int, Meta(ge=1, le=50)], ...], Meta(min_length=1)] = (2, 1)
    least_share: Annotated[float, Meta(gt=0, lt=0.5, description="for ops: public bound on emissions")] = 0.01
    converged: Annotated[int, Meta(ge=2, le=100_000, description="for ops: number of sweeps")] = 500
    sweeps: Annotated[int, Meta(ge=2, le=100_000, description="for gibbs only: number of sweeps")] = 200
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    cases: Annotated[dict[str, HmmCase], Meta(min_length=1)]

    files = ("records",)
    columns = ("case", "states", "epsilon", "method")
    measures = ("power", "log_likelihood", "log_likelihood_se")
    by_trial = ("log_likelihood", "n_test")
    shown = ("case", "states", "epsilon", "method", "power", "log_likelihood", "log_likelihood_se")
    plots: ClassVar = {
        "log-likelihood": Plot("Log-likelihood of a held-out record", "log_likelihood", "epsilon", ("case", "states"),
                               across="non-private"),
        "shortfall": Plot("Loss of log-likelihood by privacy", "log_likelihood", "epsilon", ("case", "states"),
                          short_of="non-private", scales="log symlog"),
    }  # fmt: skip
    compared = tuple((each, "non-private", "log_likelihood") for each in ("laplace", "laplace-naive", "ops", "gibbs"))
    legend = (
        "Log-likelihoods are natural logarithms; the standard error of the mean over trials follows each. All trials "
        "split the same records, in different ways; methods are compared trial by trial."
    )

    @classmethod
    def complete_case(cls, case: HmmCase, place: str) -> HmmCase:
        if "states" in case.domain:
            message = "a case must not have the key states: the study gives the number of hidden states"
            raise SpecError(message, where=f"{place}.domain.states")
        domain, prior = build_model_sections(place, MODEL, {**case.domain, "states": 1}, case.prior)
        del domain["states"]
        domain["features"] = dict(sorted(domain["features"].items()))
        return msgspec.structs.replace(case, domain=domain, prior=prior)

    def grid(self) -> list[GridPoint]:
        grid = []
        for name, case in self.cases.items():
            self._check_case(name, case)
            contents = {"contents": file_digest(case.records), "held_out": self.held_out, "seed": self.seed}
            prices = list(self.prices_and_methods(self.epsilon, self.methods, "non-private"))
            for states, (epsilon, method) in product(self.states, prices):
                keys = {"ops": ("least_share", "converged"), "gibbs": ("sweeps",)}.get(method, ("draws",))
                own = {key: getattr(self, key) for key in keys}
                place = {"states": states, "epsilon": epsilon, "method": method}
                own |= {**place, "prior": msgspec.to_builtins(case.prior), "trials": self.trials}
                grid.append(self.point({"case": name, **place}, {"domain": case.domain, **contents}, own))
        return grid

    def _check_case(self, name: str, case: HmmCase) -> None:
        model = case.model(1)
        check_stand_ins(model.columns, f"cases.{name}.domain")
        if self.least_share * max(model.sizes) >= 1.0:
            message = f"{max(model.sizes)} values of a feature cannot all have the probability {self.least_share:g}"
            raise SpecError(message, where="least_share")
        for epsilon in self.epsilon if "laplace" in self.methods else ():
            with errors_at(f"cases.{name}", f" (epsilon {epsilon})", ""):
                _noise_laws(case.model(self.states[0]), epsilon)

    def trials_of(self, point: GridPoint) -> list[HmmTrial]:
        """Return the trials of a point; a larger number of trials leaves the first ones unchanged."""
        case = self.cases[point.case]
        counts = _counts(case.records, case.model(1))
        shape = counts[0].shape[:2]
        n = round(self.held_out * shape[0] * shape[1])
        trials = []
        for seed in point.data_seed().spawn(self.trials):
            held = np.zeros(shape, dtype=bool)
            held.ravel()[np.random.default_rng(seed).permutation(held.size)[:n]] = True
            train = tuple(np.where(held[:, :, None], 0, each) for each in counts)
            trials.append(HmmTrial(train, held, tuple(each[held] for each in counts)))
        if any(not trial.n_train or not trial.n_test for trial in trials):
            raise SpecError("a trial has no record to learn from, or no record to predict", where=f"cases.{point.case}")
        return trials

    def run(self, point: GridPoint) -> PointOutcome:
        trials = self.trials_of(point)
        pairs = zip(trials, self.predictions(point, trials), strict=True)
        values = np.array([trial.log_likelihood(prediction) for trial, prediction in pairs])
        measured = {"log_likelihood": values, "n_test": np.array([float(trial.n_test) for trial in trials])}
        return PointOutcome.averaged(measured, ("log_likelihood",), power=self.power_of(point))

    def power_of(self, point: GridPoint) -> float | None:
        """Return the power of the likelihood; None for methods whose posterior is not tempered."""
        sizes = self.cases[point.case].model(point["states"]).sizes
        updates = {"ops": 1, "gibbs": 2 * self.sweeps}.get(point["method"])
        ranges = sum(map(row_range, sizes, self._least(point, sizes)))
        return None if updates is None else min(1.0, point.epsilon / (2.0 * updates * ranges))

    def _least(self, point: GridPoint, sizes: Sequence[int]) -> list[float]:
        return [least_entry(size) if point["method"] == "gibbs" else self.least_share for size in sizes]

    def predictions(self, point: GridPoint, trials: Sequence[HmmTrial]) -> list[HmmPrediction]:
        """Return the parameters and states by which each trial predicts."""
        model, power = self.cases[point.case].model(point["states"]), self.power_of(point)
        if power is not None:
            return self._chain_ends(point, model, trials, power)
        laws = [None] * len(model.sizes) if point["epsilon"] is None else _noise_laws(model, point["epsilon"])
        released = point.noise_seed(epsilon=point["epsilon"], one=model.states == 1)
        seeds = zip(released.spawn(len(trials)), point.inference_seed().spawn(len(trials)), strict=True)
        predictions = []
        for trial, (noise, own) in zip(trials, seeds, strict=True):
            exact = trial.train if model.states > 1 else tuple(each.sum(axis=(0, 1)) for each in trial.train)
            rng, pairs = np.random.default_rng(noise), zip(exact, laws, strict=True)
            counts = tuple(each if law is None else each + law.simulate(rng, each.shape) for each, law in pairs)
            method: Inference = "naive" if point["method"] == "laplace-naive" else "noise-aware"
            predictions.append(self._inferred(model, trial, counts, laws, method, np.random.default_rng(own)))
        return predictions

    def _inferred(
        self, model: Hmm, trial: HmmTrial, counts: tuple[Integers, ...], laws: Sequence[NoiseLaw | None],
        method: Inference, rng: np.random.Generator,
    ) -> HmmPrediction:  # fmt: skip
        """Infer from the counts of each feature; its law in ``laws`` is None if its counts are exact."""
        if model.states > 1:
            posterior = infer(model.observed(counts, tuple(laws), complete=True), method, self.draws, rng, _EFFORT)
            return HmmPrediction(model.split(posterior.draws)[0], np.asarray(posterior.states)[None])
        emissions = []
        for each, law in zip(counts, laws, strict=True):
            prior = (model.emission,) * len(each)
            if law is None:
                emissions.append(draw_theta(np.tile(each, (self.draws, 1)), prior, rng)[:, None])
            else:
                observation = NoisyCounts(prior, tuple(each.tolist()), law, RecordCount("known", trial.n_train))
                emissions.append(infer(observation, method, self.draws, rng, _EFFORT).draws[:, None])
        return HmmPrediction(emissions, np.ones((1, *trial.held.shape, 1)))

    def _chain_ends(
        self, point: GridPoint, model: Hmm, trials: Sequence[HmmTrial], power: float
    ) -> list[HmmPrediction]:
        """Run one chain per trial, and return its last point as the prediction.

        ``ops`` begins with higher powers of the likelihood. At the final power, a chain from random states would keep
        all cells in one hidden state for thousands of sweeps. ``gibbs`` releases all points, but an average over them
        would be a mixture, which makes cells dependent just as hidden states do.
        """
        as_released, half = point["method"] == "gibbs", self.converged / 2.0
        powers = [power ** min(1.0, i / half) for i in range(self.converged)] if model.states > 1 else [power]
        powers = [power] * self.sweeps if as_released else powers
        counts = tuple(np.stack(each) for each in zip(*(trial.train for trial in trials), strict=True))
        rng = np.random.default_rng(point.inference_seed())
        last = run_chain(model, counts, powers, self._least(point, model.sizes), rng, as_released=as_released)
        shares = state_shares(last.states, last.transition, last.initial)
        ones = [slice(i, i + 1) for i in range(len(trials))]
        return [HmmPrediction([each[one] for each in last.emissions], shares[one]) for one in ones]

    def claims(self, results: Results) -> Iterator[Claim]:
        for name, states, comparison in product(self.cases, self.states, _COMPARISONS):
            if states > 1 or comparison.second != "gibbs":
                at = f"{name}, {states} states" if states > 1 else f"{name}, naive Bayes"
                yield from comparison.claims(at, results.where(case=name, states=states), "log_likelihood")


def _noise_laws(model: Hmm, epsilon: str) -> list[NoiseLaw]:
    (step,) = plan_release("laplace", model, POLICY, None, epsilon=Decimal(epsilon)).steps
    firsts = accumulate((part.size for part in step.statistic.parts[:-1]), initial=0)
    return [step.noise.at(first) for first in firsts]


@lru_cache(maxsize=4)
def _counts(path: str, model: Hmm) -> tuple[Integers, ...]:
    """Return, for each feature, the counts of its values in every cell, shape (n_sequences, n_steps, n_values)."""
    codes = read_codes(path, model.columns)
    flat = np.array(count_cells(model.statistic(POLICY), model.column_names, codes), dtype=np.int64)
    sizes = [model.shape[0] * model.shape[1] * size for size in model.sizes]
    parts = np.split(flat, np.cumsum(sizes)[:-1])
    return tuple(part.reshape(*model.shape, -1) for part in parts)
