"""Hidden Markov models: how likely held-out records are under what was released of the others, against epsilon.

With one state there are no sequences: what is released then are the counts of all records together, and naive Bayes is
learned from them. With more, what is released are the counts of every cell, zeros with noise for cells held out.

Source: Foulds et al. 2016, sec. 5 and Fig. 6.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

import msgspec
import numpy as np
from msgspec import Meta, field

from dpbayes_cli.base.canonical import canonical_json
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.core.noisy_observation import NoisyCounts, RecordCount
from dpbayes_cli.core.options import EpsilonOptions
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.core.section import Section
from dpbayes_cli.core.statistic import count_cells
from dpbayes_cli.experiments.claims import OURS, Claim, difference_claims
from dpbayes_cli.experiments.file_records import POLICY, absolute, file_digest, read_codes
from dpbayes_cli.experiments.hmm_chains import HmmTrial, chain_power, draw_power, record_range, run_chain, state_shares
from dpbayes_cli.experiments.plots import Plot, Style
from dpbayes_cli.experiments.point import GridPoint
from dpbayes_cli.experiments.restricted_rows import least_entry
from dpbayes_cli.experiments.results import PointOutcome, Results, averaged
from dpbayes_cli.experiments.study import SimulatedStudy, build_model_sections, message_of, prices_and_methods
from dpbayes_cli.inference.dirichlet_rows import draw_theta
from dpbayes_cli.inference.posterior import Effort
from dpbayes_cli.inference.posterior import Method as Inference
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.spec.release_spec import build_spec

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.models.hmm import Hmm
    from dpbayes_cli.privacy.noise import NoiseLaw

Method = Literal["non-private", "laplace", "laplace-naive", "ops", "gibbs"]

SOURCE = "[F] Figures 3-7"
MODEL = "hmm"
_EFFORT = Effort(summary_draws=1 << 10, ess=100.0, mcmc_sweeps=80)
"""Enough to predict by: on the log of events 200 sweeps gave the same log-likelihoods to four digits."""
_CLEAR = 3.0
"""A difference of this many standard errors is called clear."""
_NOISE = (
    "With one count a cell and noise of scale 2 features / epsilon, plug-in counts are far off at "
    "small epsilon; and the sampler is idealized: no released chain draws it."
)
_PAID = "At the smallest epsilons plug-in counts are as far off as the chain."
_BEHIND = "a chain that pays for every update predicts worse than"
_SAID: tuple[tuple[str, str, Method, Method, str], ...] = (
    (SOURCE, "Laplace noise beats one posterior sample", "laplace-naive", "ops", _NOISE),
    (OURS, "read with its noise, Laplace noise beats one posterior sample", "laplace", "ops", ""),
    (OURS, "counts read with their noise predict better than plug-in counts", "laplace", "laplace-naive", ""),
    (SOURCE, f"{_BEHIND} `laplace-naive`", "laplace-naive", "gibbs", _PAID),
    (SOURCE, f"{_BEHIND} `ops`", "ops", "gibbs", _PAID),
)
"""Source, claim, the method that is better somewhere and worse nowhere, the other method, why the claim may fail."""
_STYLES = {
    "laplace": Style("tab:blue", "o"),
    "laplace-naive": Style("tab:orange", "s", "--"),
    "ops": Style("tab:green", "d", ":"),
    "gibbs": Style("tab:red", "v", "-."),
}


class HmmCase(Section, frozen=True, kw_only=True):
    """Records of sequences and time steps, all with public values."""

    records: Annotated[str, Meta(description="the file, relative to the study")]
    domain: Annotated[dict[str, Any], Meta(description="that of the model, but for the number of states")]
    prior: dict[str, Any] = field(default_factory=dict)

    def model(self, states: int) -> Hmm:
        """Return the model with so many states."""
        document = {"model": MODEL, "domain": {**self.domain, "states": states}, "prior": self.prior}
        return cast("Hmm", build_spec(document).build_model())


class HiddenMarkovModels(SimulatedStudy, frozen=True, kw_only=True):
    """A grid of cases x numbers of states x epsilon x methods; in each trial other cells are held out.

    A cell is a sequence at a time step. All states, prices and methods of a case see the same trials.
    """

    study: Literal["hmm"]
    trials: Annotated[int, Meta(ge=2, le=1_000, description="how many times cells are held out")] = 10
    draws: Annotated[int, Meta(ge=2, le=10_000, description="posterior draws over which a prediction is averaged")] = (
        200
    )
    held_out: Annotated[float, Meta(gt=0, lt=1, description="share of the cells that are predicted")] = 0.1
    states: Annotated[tuple[Annotated[int, Meta(ge=1, le=50)], ...], Meta(min_length=1)] = (2, 1)
    least_share: Annotated[
        float, Meta(gt=0, lt=0.5, description="for ops: the public lower limit on the probability of a value")
    ] = 0.01
    converged: Annotated[int, Meta(ge=2, le=100_000, description="sweeps after which ops takes its draw")] = 500
    sweeps: Annotated[int, Meta(ge=2, le=100_000, description="sweeps that gibbs pays for")] = 200
    methods: Annotated[tuple[Method, ...], Meta(min_length=1, description="the methods that predict")]
    cases: Annotated[dict[str, HmmCase], Meta(min_length=1)]

    columns: ClassVar = ("case", "states", "epsilon", "method")
    measures: ClassVar = ("power", "log_likelihood", "log_likelihood_se")
    by_trial: ClassVar = ("log_likelihood", "n_test")
    shown: ClassVar = ("case", "states", "epsilon", "method", "power", "log_likelihood", "log_likelihood_se")
    plots: ClassVar = {
        "log-likelihood": Plot("Log-likelihood of held-out records; bars: two standard errors", "log_likelihood",
                               "log-likelihood of a held-out record", _STYLES, panels=("case", "states"),
                               across=("non-private", "non-private")),
        "shortfall": Plot("Log-likelihood that is lost by privacy; bars: two standard errors",
                          "log_likelihood", "shortfall of the log-likelihood", _STYLES, panels=("case", "states"),
                          across=("non-private", "non-private"), short_of="non-private", scales="log symlog"),
    }  # fmt: skip
    compared: ClassVar = tuple((method, "non-private", "log_likelihood") for method in _STYLES)
    about: ClassVar = (
        "How likely records are that were held out, under what was released of the others by a hidden Markov model. In "
        "each trial other pairs of a sequence and a time step are held out: their records are removed, and what is "
        "released of them is noise alone. With one state the model is naive Bayes, and counts of all records together "
        "are released.\n\n"
        "- `non-private`: the posterior of exact counts.\n"
        "- `laplace`: counts with discrete Laplace noise, and the posterior that knows the noise.\n"
        "- `laplace-naive`: the same release; negative counts become zero and the rest is plugged in as exact, as in "
        "the paper.\n"
        "- `ops`: **idealized**: one draw of the posterior under a power of the likelihood with emissions of at least "
        "`least_share`, epsilon-DP only if it were exact. It is the end of a chain of `converged` sweeps in floats, of "
        "which the first half has more of the likelihood, as no release could.\n"
        "- `gibbs`: the mechanism's chain in floats: `sweeps` sweeps from the prior on, each update paid for, "
        "emissions of at least min(0.1, 0.5 / values) as there; its last point predicts. With one state every sweep is "
        "an independent draw, of which one would do: that is `ops`."
    )
    legend: ClassVar = (
        "Log-likelihoods are natural logarithms, plus or minus one standard error of the mean over trials, which are "
        "splits of the same records. A difference is called one from three standard errors on, trial by trial."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_distinct("states")

    @classmethod
    def complete_case(cls, case: HmmCase, place: str, base: Path) -> HmmCase:
        if "states" in case.domain:
            raise SpecError(
                "a case must not state the number of hidden states; the study states it under states",
                where=f"{place}.domain.states",
            )
        domain, prior = build_model_sections(place, MODEL, {**case.domain, "states": 1}, case.prior)
        del domain["states"]
        domain["features"] = dict(sorted(domain["features"].items()))
        return msgspec.structs.replace(case, records=absolute(base, case.records), domain=domain, prior=prior)

    def grid(self) -> list[GridPoint]:
        found = []
        for name, case in self.cases.items():
            self._check_case(name, case)
            contents = {"contents": file_digest(case.records), "held_out": self.held_out, "seed": self.seed}
            data = {"domain": case.domain, **contents}
            for states in self.states:
                for epsilon, method in prices_and_methods(self.epsilon, self.methods, "non-private"):
                    own: dict[str, Any] = {"draws": self.draws}
                    if method == "ops":
                        own = {"least_share": self.least_share, "converged": self.converged}
                    elif method == "gibbs":
                        own = {"sweeps": self.sweeps}
                    place = {"states": states, "epsilon": epsilon, "method": method}
                    own |= {**place, "prior": msgspec.to_builtins(case.prior), "trials": self.trials}
                    found.append(self.point({"case": name, **place}, data, own))
        return found

    def _check_case(self, name: str, case: HmmCase) -> None:
        """Refuse records that may be incomplete, features with too many values, and what cannot be priced."""
        model = case.model(1)
        for column in model.columns:
            if column.impute is None:
                raise SpecError(
                    f"{column.role}: this study needs a public stand-in for cells that hold no valid value",
                    where=f"cases.{name}.domain",
                    hint="impute: VALUE, for every column: the number of records is then public",
                )
        if self.least_share * max(model.sizes) >= 1.0:
            message = f"{max(model.sizes)} values of a feature cannot all have a share of {self.least_share:g}"
            raise SpecError(message, where="least_share")
        for epsilon in self.epsilon if "laplace" in self.methods else ():
            try:
                _noise_laws(case.model(self.states[0]), epsilon)
            except SpecError as error:
                raise SpecError(f"{message_of(error)} (epsilon {epsilon})", where=f"cases.{name}") from None

    def trials_of(self, point: GridPoint) -> list[HmmTrial]:
        """Return the trials of a point; more begin with the same.

        Raises:
            SpecError: what is held out leaves nothing to learn from, or nothing to predict.
            SourceError: the file cannot be read.
        """
        counts = _counts(canonical_json(msgspec.to_builtins(self.cases[point.case])))
        shape = counts[0].shape[:2]
        n = round(self.held_out * shape[0] * shape[1])
        found = []
        for seed in point.data_seed().spawn(self.trials):
            held = np.zeros(shape, dtype=bool)
            held.ravel()[np.random.default_rng(seed).permutation(held.size)[:n]] = True
            train = tuple(np.where(held[:, :, None], 0, each) for each in counts)
            found.append(HmmTrial(train, held, tuple(each[held] for each in counts)))
        if any(not trial.n_train or not trial.n_test for trial in found):
            raise SpecError("nothing to learn from, or nothing to predict", where=f"cases.{point.case}")
        return found

    def run(self, point: GridPoint) -> PointOutcome:
        """Predict what is held out in every trial: the log-likelihood of a record."""
        trials = self.trials_of(point)
        pairs = zip(trials, self.predictions(point, trials), strict=True)
        values = np.array([trial.log_likelihood(*prediction) for trial, prediction in pairs])
        n_test = np.array([float(trial.n_test) for trial in trials])
        return averaged({"log_likelihood": values, "n_test": n_test}, ("log_likelihood",), power=self.power_of(point))

    def power_of(self, point: GridPoint) -> float | None:
        """Return the power of the likelihood, None if the method has none."""
        sizes = self.cases[point.case].model(point["states"]).sizes
        if point["method"] == "ops":
            return draw_power(point.epsilon, sizes, self._least(point, sizes))
        if point["method"] == "gibbs":
            return chain_power(point.epsilon, sizes, self._least(point, sizes), self.sweeps)
        return None

    def _least(self, point: GridPoint, sizes: Sequence[int]) -> list[float]:
        """Return the public least probability of a value of each feature: the study's, or that of the mechanism."""
        return [least_entry(size) if point["method"] == "gibbs" else self.least_share for size in sizes]

    def predictions(self, point: GridPoint, trials: Sequence[HmmTrial]) -> list[tuple[Sequence[Floats], Floats]]:
        """Return what each trial predicts by: emissions and states; see ``HmmTrial.log_likelihood``."""
        model, power = self.cases[point.case].model(point["states"]), self.power_of(point)
        if power is not None:
            return self._walked(point, model, trials, power)
        laws: Sequence[NoiseLaw | None] = [None] * len(model.sizes)
        if point["epsilon"] is not None:
            laws = _noise_laws(model, point["epsilon"])
        method: Inference = "naive" if point["method"] == "laplace-naive" else "noise-aware"
        released = point.noise_seed(epsilon=point["epsilon"], one=model.states == 1)
        seeds = zip(released.spawn(len(trials)), point.inference_seed().spawn(len(trials)), strict=True)
        return [
            self._inferred(model, trial, laws, method, *map(np.random.default_rng, pair))
            for trial, pair in zip(trials, seeds, strict=True)
        ]

    def _inferred(
        self,
        model: Hmm,
        trial: HmmTrial,
        laws: Sequence[NoiseLaw | None],
        method: Inference,
        noise: np.random.Generator,
        rng: np.random.Generator,
    ) -> tuple[Sequence[Floats], Floats]:
        """Infer from counts: exact ones, or those of a simulated release."""
        exact = trial.train if model.states > 1 else tuple(each.sum(axis=(0, 1)) for each in trial.train)
        counts = tuple(
            each if law is None else each + law.simulate(noise, each.shape)
            for each, law in zip(exact, laws, strict=True)
        )
        if model.states > 1:
            posterior = infer(model.observed(counts, tuple(laws), complete=True), method, self.draws, rng, _EFFORT)
            return model.split(posterior.draws)[0], np.asarray(posterior.states)[None]
        emissions = []
        for each, law in zip(counts, laws, strict=True):
            prior = (model.emission,) * len(each)
            if law is None:
                emissions.append(draw_theta(np.tile(each, (self.draws, 1)), prior, rng)[:, None])
            else:
                observation = NoisyCounts(prior, tuple(each.tolist()), law, RecordCount("known", trial.n_train))
                emissions.append(infer(observation, method, self.draws, rng, _EFFORT).draws[:, None])
        return emissions, np.ones((1, *trial.held.shape, 1))

    def _walked(
        self, point: GridPoint, model: Hmm, trials: Sequence[HmmTrial], power: float
    ) -> list[tuple[Sequence[Floats], Floats]]:
        """Run the chains of all trials, and predict by where they end.

        ``ops`` has more of the likelihood at first, as no release: from random states on under the final power, chains
        stay for thousands of sweeps with all cells in one state. Of ``gibbs`` more points are public, but a mean of
        their likelihoods is a mixture of its own, which holds cells together as states do.
        """
        as_released, half = point["method"] == "gibbs", self.converged / 2.0
        powers = [power ** min(1.0, i / half) for i in range(self.converged)] if model.states > 1 else [power]
        powers = [power] * self.sweeps if as_released else powers
        counts = tuple(np.stack(each) for each in zip(*(trial.train for trial in trials), strict=True))
        rng = np.random.default_rng(point.inference_seed())
        last = run_chain(model, counts, powers, self._least(point, model.sizes), rng, as_released=as_released)
        shares = state_shares(last.states, last.transition, last.initial)
        return [([each[i : i + 1] for each in last.emissions], shares[i : i + 1]) for i in range(len(trials))]

    def about_case(self, own: Results) -> str:
        model, held = self.cases[own[0]["case"]].model(1), own[0].trials["n_test"]
        return (
            f"{model.shape[0]} sequences, {model.shape[1]} time steps, features of {', '.join(map(str, model.sizes))} "
            f"values; {min(held):,.0f} to {max(held):,.0f} records are held out. Were all values equally likely, the "
            f"log-likelihood of a record would be {-sum(map(math.log, model.sizes)):.4g}. It ranges over R = "
            f"{record_range(model.sizes, [self.least_share] * len(model.sizes)):.4g} under the emissions of `ops`."
        )

    def figures(self, results: Results) -> dict[str, Any]:
        has_both = "non-private" in self.methods and len(self.methods) > 1
        return {name: plot.figure(results) for name, plot in self.plots.items() if has_both or not plot.short_of}

    def claims(self, results: Results) -> list[Claim]:
        made = []
        for name, states in itertools.product(self.cases, self.states):
            at, own = (
                f"{name}, {'naive Bayes' if states == 1 else f'{states} states'}",
                results.where(case=name, states=states),
            )
            for source, says, first, second, why in _SAID:
                if states > 1 or second != "gibbs":
                    away = own.differences(first, second, "log_likelihood")
                    made += difference_claims(source, f"{at}: {says}.", away, _CLEAR, never=-1, some=1, why=why)
        return made


def _noise_laws(model: Hmm, epsilon: str) -> list[NoiseLaw]:
    """Return the law of the noise on each feature's counts, as ``laplace`` plans it.

    Raises:
        SpecError: no guarantee can be given.
    """
    (step,) = mechanism_type("laplace")().plan(model, POLICY, EpsilonOptions(epsilon=parse_decimal(epsilon))).steps
    firsts = itertools.accumulate((part.size for part in step.statistic.parts[:-1]), initial=0)
    return [step.noise.at(first) for first in firsts]


@lru_cache(maxsize=4)
def _counts(key: bytes) -> tuple[Integers, ...]:
    """Return the counts of a case's file, feature by feature, shape (n_sequences, n_steps, n_values)."""
    case = msgspec.convert(msgspec.json.decode(key), HmmCase)
    model = case.model(1)
    codes = read_codes(case.records, model.columns, POLICY)
    flat = np.array(count_cells(model.statistic(POLICY), model.column_names, codes), dtype=np.int64)
    sizes = [model.shape[0] * model.shape[1] * size for size in model.sizes]
    parts = np.split(flat, np.cumsum(sizes)[:-1])
    return tuple(part.reshape(*model.shape, -1) for part in parts)
