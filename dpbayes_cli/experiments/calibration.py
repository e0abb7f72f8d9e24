"""Calibration: ranks of true parameters among posterior draws, and distances of posteriors from the non-private one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Annotated, Any, ClassVar, Literal, cast

import msgspec
import numpy as np
from msgspec import Meta, field
from scipy import stats

import dpbayes_cli
from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.core.model import Model, NoisyStatistics
from dpbayes_cli.core.options import PowerTarget
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.registry import check_supports, mechanism_type, model_type
from dpbayes_cli.core.section import Section, require_type
from dpbayes_cli.experiments import calibration_measures as measures
from dpbayes_cli.experiments.calibration_measures import INTERVAL, ks_band
from dpbayes_cli.experiments.plots import Plot, label_axes, stamped_panels
from dpbayes_cli.experiments.results import CLEAR, Claim, Difference, GridPoint, PointOutcome, Results, in_words
from dpbayes_cli.experiments.study import SimulatedStudy, build_model_sections, errors_at
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.mechanisms.samplers.simulated_draws import simulate_sampler
from dpbayes_cli.models.families.capabilities import ConjugatePosterior
from dpbayes_cli.spec.release_spec import build_spec

Method = Literal["noise-aware", "naive", "ops", "non-private"]

SOURCE = "[B] Figure 1"
_FALSE_ALARM = 0.001  # the probability that a claim fails by chance although the posteriors are calibrated
_FALLEN = 0.75
"""The KS distance counts as fallen if its value at the largest n * epsilon, divided by its value at the smallest, is
below this number."""


class OpsSection(Section, frozen=True, kw_only=True):
    """Options of the method ``ops``. It releases ``draws`` posterior draws, which cost epsilon / draws each."""

    draws: Annotated[int, Meta(ge=2, le=10_000, description="number of released draws")] = 100
    power_applies_to: PowerTarget = field(default="likelihood", name="temper")


class CaseSection(Section, frozen=True, kw_only=True):
    """A model with its public domain, and the prior from which the true parameters are drawn."""

    model: str
    domain: dict[str, Any] = field(default_factory=dict)
    prior: dict[str, Any] = field(default_factory=dict)
    parameter: str | None = None  # the parameter whose ranks are studied; None: the model's first parameter
    support: tuple[float, float] | None = None  # the public range of the parameter, for ``ops`` only
    unclamped: dict[str, Any] | None = None  # a domain for the non-private posterior, so wide that nothing is clamped

    def model_on(self, domain: Any) -> ConjugatePosterior:
        model: Model = build_spec({"model": self.model, "domain": domain, "prior": self.prior}).build_model()
        return cast(ConjugatePosterior, model)

    @property
    def parameter_name(self) -> str:
        return self.parameter or self.model_on(self.domain).parameters[0]


class Calibration(SimulatedStudy, frozen=True, kw_only=True):
    """Ranks of true parameters among posterior draws, and distances of posteriors from the non-private one.

    In each trial the true parameters are drawn from the prior, and complete records from the model. Laplace noise is
    added to their statistics. `noise-aware` accounts for the noise; `naive` treats noisy statistics as exact. `ops`
    releases posterior draws, and `non-private` infers from exact statistics.

    Source: Bernstein and Sheldon 2018, sec. 4 and Fig. 1.
    """

    study: Literal["calibration"] = "calibration"
    n: Annotated[tuple[Annotated[int, Meta(ge=1, le=10**9)], ...], Meta(min_length=1, description="numbers of records")]
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    mmd: bool = True  # whether to measure the MMD to the non-private posterior
    ops: OpsSection = field(default_factory=OpsSection)
    cases: Annotated[dict[str, CaseSection], Meta(min_length=1)]

    columns = ("case", "model", "parameter", "n", "epsilon", "method")
    measures = ("ks", "ks_p_value", "coverage", "mean_sd", "mmd", "mmd_squared", "mmd_squared_error")
    by_trial = ("theta", "rank")
    trials_file = "ranks.csv"
    shown = ("case", "n", "epsilon", "method", "ks", "ks_p_value", "coverage", "mean_sd", "mmd")
    plots: ClassVar = {
        "ks": Plot("KS distance of the ranks; gray: 95 % band of uniform ranks", "ks", "n", ("epsilon", "case"),
                   scales="log log", y_limits=(0.005, 1.2)),
        "mmd": Plot("MMD to the non-private posterior", "mmd", "n", ("epsilon", "case"), scales="log log"),
    }  # fmt: skip
    legend = (
        "`ks`: Kolmogorov-Smirnov distance between the law of the true parameter's ranks and the uniform law. "
        f"`coverage`: how often the central {INTERVAL:.0%} interval contains the true parameter. `mmd`: maximum mean "
        "discrepancy to the non-private posterior, the root of an unbiased estimate of its square (0 if negative)."
    )

    @classmethod
    def complete_case(cls, case: CaseSection, place: str) -> CaseSection:
        domain, prior = build_model_sections(place, case.model, case.domain, case.prior)
        wide = case.unclamped and build_model_sections(place, case.model, case.unclamped, case.prior)[0]
        return msgspec.structs.replace(case, domain=domain, prior=prior, unclamped=wide)

    def grid(self) -> list[GridPoint]:
        for name, case in self.cases.items():
            self._check_case(case, f"cases.{name}")
        return [self._point(*place) for place in product(self.cases, self.n, self.epsilon, self.methods)]

    def _point(self, name: str, n: int, epsilon: str, method: Method) -> GridPoint:
        case, is_ops = self.cases[name], method == "ops"
        model = {"model": case.model, "domain": case.domain, "prior": case.prior}
        sizes = {"n_records": n, "epsilon": epsilon, "trials": self.trials, "seed": self.seed}
        data = {**model, **sizes, "mechanism": "laplace", "delta": None}
        own: dict[str, Any] = {"method": method, "draws": self.draws, "parameter": case.parameter, "mmd": self.mmd}
        own["unclamped"] = case.unclamped if self.mmd or method == "non-private" else None
        own["support"] = list(case.support) if is_ops and case.support else None
        own["ops"] = msgspec.to_builtins(self.ops) if is_ops else None
        place = {"case": name, "model": case.model, "parameter": case.parameter_name, "n": n, "epsilon": epsilon}
        definition = {**data, **own, "version": dpbayes_cli.__version__}
        return GridPoint({**place, "method": method}, data, definition, self.seed)

    def _check_case(self, case: CaseSection, where: str) -> None:
        needed = ["laplace", "rdp-direct", *(["ops"] if "ops" in self.methods else [])]
        for mechanism in needed:
            with errors_at(f"{where}.model", hint="leave the case out, or run the others with --case NAME"):
                check_supports(mechanism_type(mechanism), model_type(case.model))
        model = case.model_on(case.domain)
        if case.parameter not in {None, *model.parameters}:
            hint = nearest(str(case.parameter), model.parameters)
            raise SpecError(f"there is no parameter {case.parameter!r}", where=f"{where}.parameter", hint=hint)
        for epsilon, mechanism in product(self.epsilon, ("laplace", *needed[2:])):
            try:
                self.plan(case, model, mechanism, epsilon, min(self.n))
            except SpecError as error:
                hint = "state the public range of the parameter: support: [LOW, HIGH]"
                of_support = error.where == "sampling.support"
                place = f"{where}.support" if of_support else where
                with errors_at(place, f" ({mechanism}, epsilon {epsilon})", hint if of_support else None):
                    raise

    def plan(self, case: CaseSection, model: Model, mechanism: str, epsilon: str, n_records: int) -> Plan:
        """Return the plan of ``laplace`` or ``ops``, calibrated to epsilon."""
        kind = mechanism_type(mechanism)
        stated: dict[str, Any] = {"epsilon": parse_decimal(epsilon)}
        if mechanism == "ops":
            stated |= {"draws": self.ops.draws, "power_applies_to": self.ops.power_applies_to, "support": case.support}
        options = kind.options_for(type(model))
        read = {name: value for name, value in stated.items() if name in options.__struct_fields__}
        return kind().plan(model, measures.complete_policy(model), options(**read), n_records)

    def run(self, point: GridPoint) -> PointOutcome:
        case, n, method = self.cases[point.case], point["n"], point["method"]
        model = case.model_on(case.domain)
        records, noise, of_reference = point.data_seed().spawn(3)
        thetas, values = measures.prior_predictive(model, n, self.trials, records)
        (step,) = self.plan(case, model, "laplace", point["epsilon"], n).steps
        released = values + step.noise.simulate(np.random.default_rng(noise), values.shape)
        reference = None
        if self.mmd or method == "non-private":
            wide, exact = model, values
            if case.unclamped is not None:
                wide = case.model_on(case.unclamped)
                same, exact = measures.prior_predictive(wide, n, self.trials, records)
                if not np.array_equal(same, thetas):
                    message = "unclamped and domain give the model different parameters; only their bounds may differ"
                    raise SpecError(message, where=f"cases.{point.case}.unclamped")
            reference = measures.non_private_draws(wide, exact, n, self.draws, np.random.default_rng(of_reference))
        rng = np.random.default_rng(point.inference_seed())
        if method == "non-private":
            draws = np.asarray(reference)
        elif method == "ops":
            sampler = self.plan(case, model, "ops", point["epsilon"], n).steps[0].sampler
            draws = np.stack([simulate_sampler(sampler, row, self.ops.draws, rng) for row in values.tolist()])
        else:
            noisy, policy = require_type(model, NoisyStatistics), measures.complete_policy(model)
            observations = [noisy.observation(policy, row, step.noise, n) for row in released.tolist()]
            draws = draw_many(observations, method, self.draws, rng)[:, :, list(noisy.components)]
        ranks = measures.ranks_among(thetas, draws, rng)
        k = model.parameters.index(case.parameter_name)
        distances = measures.squared_mmds(draws, reference) if self.mmd and reference is not None else None
        measured = measures.measure(ranks[:, k], draws[:, :, k].std(axis=1, ddof=1), distances)
        return PointOutcome(measured, {"theta": thetas[:, k], "rank": ranks[:, k]})

    def figures(self, results: Results) -> dict[str, Any]:
        band = ks_band(self.trials)

        def draw(axes: Any, name: str, epsilon: str, n: int) -> None:
            for each in results.where(case=name, epsilon=epsilon, n=n):
                axes.ecdf(each.trials["rank"], label=each["method"])
            axes.fill_between([0.0, 1.0], [-band, 1.0 - band], [band, 1.0 + band], color="0.9", zorder=0)
            axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
            label_axes(axes, f"n {n}, epsilon {epsilon}", "", scales="linear linear")

        ks, mmd = self.plots["ks"], self.plots["mmd"]
        figures = {"ks": ks.figure(results, lambda axes: axes.axhspan(1e-4, band, color="0.9", zorder=0))}
        for name in self.cases:
            title = f"Ranks of the true parameter, {name}; gray: 95 % band of uniform ranks"
            figures[f"ranks-{name}"] = stamped_panels(product([name], self.epsilon, self.n), len(self.n), draw, title)
        return {**figures, "mmd": mmd.figure(results)} if self.mmd else figures

    def claims(self, results: Results) -> Iterator[Claim]:
        aware, naive, ops = (results.where(method=method) for method in ("noise-aware", "naive", "ops"))
        if aware:
            yield self._calibrated(aware, results.where(method="non-private"))
        for name in naive.values("case"):
            yield self._naive(name, naive.where(case=name))
        if ops:
            yield _dispersed(ops)
        if self.mmd and naive and aware:
            yield _nearer(aware, naive)

    def _calibrated(self, own: Results, exact: Results) -> Claim:
        """Claim that ranks are uniform: few points are above the 95 % band, as by chance, and no p-value is tiny."""
        band = ks_band(self.trials)
        distances = [each.measure("ks") for each in own]
        allowed = int(stats.binom.ppf(1.0 - _FALSE_ALARM / 2.0, len(own), 0.05))
        least = min(each.measure("ks_p_value") for each in own)
        above = sum(ks > band for ks in distances)
        nonprivate = f" (non-private {max(each.measure('ks') for each in exact):.3f})" if exact else ""
        return Claim(
            SOURCE,
            "Noise-aware posteriors are as calibrated as non-private ones at every n and epsilon.",
            above <= allowed and least >= _FALSE_ALARM / 2.0 / len(own),
            f"largest KS distance {max(distances):.3f}{nonprivate}; {above} of {len(own)} points above the 95 % band, "
            f"which ends at {band:.3f} ({0.05 * len(own):.1f} are expected by chance); smallest p-value {least:.2g}",
        )

    def _naive(self, name: str, own: Results) -> Claim:
        ordered = sorted((each["n"] * each.point.epsilon, each.measure("ks")) for each in own)
        (low, first), (high, last) = ordered[0], ordered[-1]
        falls = last < _FALLEN * first
        why = "Here naive posteriors see clamped records, as in every release; in the paper the records are unclamped."
        return Claim(
            SOURCE,
            f"{name}: naive posteriors are too confident, and become calibrated only as n * epsilon grows.",
            first > ks_band(self.trials, 1.0 - _FALSE_ALARM) and falls,
            f"KS distance {first:.3f} at n * epsilon = {low:g}, and {last:.3f} at n * epsilon = {high:g}; the 95 % "
            f"band ends at {ks_band(self.trials):.3f}",
            "" if falls else why,
        )


def _dispersed(own: Results) -> Claim:
    coverages = [each.measure("coverage") for each in own]
    caught = sum(each.measure("ks_p_value") < _FALSE_ALARM for each in own)
    return Claim(
        SOURCE,
        "Released posterior draws are never calibrated: they are too dispersed.",
        caught == len(own) and min(coverages) > INTERVAL,
        f"the p-value of uniform ranks is below {_FALSE_ALARM:g} at {caught} of {len(own)} points; {INTERVAL:.0%} "
        f"intervals contain the true parameter in {min(coverages):.1%} to {max(coverages):.1%} of the trials",
    )


def _nearer(own: Results, naive: Results) -> Claim:
    signs = {}
    for each, other in zip(own, naive, strict=True):
        place = {name: each[name] for name in ("case", "n", "epsilon")}
        error = math.hypot(each.measure("mmd_squared_error"), other.measure("mmd_squared_error"))
        difference = Difference(each.measure("mmd_squared") - other.measure("mmd_squared"), error)
        signs[in_words(place)] = difference.sign(CLEAR)
    worse = [place for place, sign in signs.items() if sign > 0]
    return Claim(
        SOURCE,
        "Noise-aware posteriors are nowhere further from non-private posteriors than naive posteriors are.",
        not worse,
        f"clearly nearer at {sum(sign < 0 for sign in signs.values())} of {len(signs)} points; clearly further at "
        f"{len(worse)} points: {'; '.join(worse) or 'none'}",
    )
