"""Calibration: ranks of true parameters among posterior draws, and distances of posteriors from the non-private one.

Source: Bernstein and Sheldon 2018, sec. 4 and Fig. 1.
"""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

import msgspec
import numpy as np
from msgspec import Meta, field

import dpbayes_cli
from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.base.numeric import decimal_text, parse_decimal
from dpbayes_cli.core.model import Model, NoisyStatistics
from dpbayes_cli.core.options import PowerTarget
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.registry import check_supports, mechanism_type, model_names, model_type, supports
from dpbayes_cli.core.section import Section, require_type
from dpbayes_cli.experiments import calibration_measures as measures
from dpbayes_cli.experiments.calibration_measures import INTERVAL, ks_band
from dpbayes_cli.experiments.plots import Plot, Style, label_axes, stamped_panels
from dpbayes_cli.experiments.results import CLEAR, Claim, Difference, GridPoint, PointOutcome, Results, in_words
from dpbayes_cli.experiments.study import SimulatedStudy, StudyLayout, build_model_sections, errors_at, exact_number
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.mechanisms.samplers.simulated_draws import simulate_sampler
from dpbayes_cli.privacy.guarantee import check_delta
from dpbayes_cli.spec.convert_section import Exact
from dpbayes_cli.spec.release_spec import build_spec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpbayes_cli.models.families.capabilities import ConjugatePosterior

Method = Literal["noise-aware", "naive", "ops", "non-private"]

SOURCE = "[B] Figure 1"
_FALSE_ALARM = 0.001
"""The probability that a claim fails by chance although the posteriors are correct."""
_FALLEN = 0.75
"""The KS distance has fallen if at the largest n * epsilon it is below this share of its value at the smallest."""
_STYLES = {
    "noise-aware": Style("tab:blue", "o"),
    "naive": Style("tab:red", "s"),
    "ops": Style("tab:orange", "^"),
    "non-private": Style("0.35", "d"),
}


class OpsSection(Section, frozen=True, kw_only=True):
    """Options of the method ``ops``, which releases posterior draws instead of noisy statistics."""

    draws: Annotated[int, Meta(ge=2, le=10_000, description="number of released draws; each costs epsilon / draws")] = (
        100
    )
    power_applies_to: PowerTarget = field(default="likelihood", name="temper")


class CaseSection(Section, frozen=True, kw_only=True):
    """One model with its public domain and its prior, from which parameters are drawn."""

    model: str
    domain: dict[str, Any] = field(default_factory=dict)
    prior: dict[str, Any] = field(default_factory=dict)
    parameter: Annotated[
        str | None, Meta(description="parameter whose rank is studied; default: the first of the model")
    ] = None
    support: Annotated[tuple[float, float] | None, Meta(description="for ops only: public range of the parameter")] = (
        None
    )
    unclamped: Annotated[
        dict[str, Any] | None,
        Meta(description="a domain with bounds so wide that nothing is clamped, for the non-private posterior"),
    ] = None

    def model_on(self, domain: Any) -> ConjugatePosterior:
        model: Model = build_spec({"model": self.model, "domain": domain, "prior": self.prior}).build_model()
        return cast("ConjugatePosterior", model)

    @property
    def parameter_name(self) -> str:
        return self.parameter or self.model_on(self.domain).parameters[0]


class Calibration(SimulatedStudy, frozen=True, kw_only=True):
    """A grid of cases x n x epsilon x methods, with ``trials`` simulated releases at each point."""

    study: Literal["calibration"] = "calibration"
    n: Annotated[tuple[Annotated[int, Meta(ge=1, le=10**9)], ...], Meta(min_length=1, description="numbers of records")]
    methods: Annotated[tuple[Method, ...], Meta(min_length=1, description="methods that compute or draw posteriors")]
    mechanism: Annotated[
        str, Meta(description="the mechanism that adds noise for the methods noise-aware and naive")
    ] = "laplace"
    delta: Annotated[Exact | None, Meta(description="for gaussian only: delta of the (epsilon, delta) guarantee")] = (
        None
    )
    mmd: Annotated[bool, Meta(description="whether to measure the MMD to the non-private posterior")] = True
    ops: OpsSection = field(default_factory=OpsSection)
    cases: Annotated[dict[str, CaseSection], Meta(min_length=1)]

    layout: ClassVar = StudyLayout(
        columns=("case", "model", "parameter", "n", "epsilon", "method"),
        measures=("ks", "ks_p_value", "coverage", "mean_sd", "mmd", "mmd_squared", "mmd_squared_error"),
        by_trial=("theta", "rank"),
        trials_file="ranks.csv",
        shown=("case", "n", "epsilon", "method", "ks", "ks_p_value", "coverage", "mean_sd", "mmd"),
        plots={
            name: Plot(f"{label}{gray}", name, label, _STYLES, "n", ("epsilon", "case"), scales="log log",
                       y_limits=limits)
            for name, label, gray, limits in (
                ("ks", "KS distance of the ranks", "; gray: 95 % band of uniform ranks", (0.005, 1.2)),
                ("mmd", "MMD to the non-private posterior", "", None),
            )
        },
        about="Parameters are drawn from the prior, complete records from the model, and noise from a mechanism. "
        "`noise-aware` infers with the law of the noise; `naive` takes noisy statistics for exact. `ops` releases "
        "posterior draws, and `non-private` infers from exact statistics.",
        legend="`ks`: Kolmogorov-Smirnov distance between the law of the true parameter's ranks and the uniform law. "
        f"`coverage`: how often the central {INTERVAL:.0%} interval contains the true parameter. `mmd`: maximum mean "
        "discrepancy (MMD) to the non-private posterior under the kernel exp(-|x - y|^2 / 2), the root of an "
        "unbiased estimate of its square; 0 if the estimate is negative.",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta is not None:
            check_delta(exact_number("delta", self.delta))
            msgspec.structs.force_setattr(self, "delta", decimal_text(exact_number("delta", self.delta)))
        self.check_distinct("n")

    @classmethod
    def complete_case(cls, case: CaseSection, place: str, _base: Path) -> CaseSection:
        domain, prior = build_model_sections(place, case.model, case.domain, case.prior)
        wide = case.unclamped
        if wide is not None:
            wide = build_model_sections(place, case.model, wide, case.prior)[0]
        return msgspec.structs.replace(case, domain=domain, prior=prior, unclamped=wide)

    def grid(self) -> list[GridPoint]:
        for name, case in self.cases.items():
            self._check_served(case, f"cases.{name}")
            for epsilon in self.epsilon:
                for mechanism in dict.fromkeys("ops" if m == "ops" else self.mechanism for m in self.methods):
                    self._check_plan(name, epsilon, mechanism)
        return [self._point(*place) for place in product(self.cases, self.n, self.epsilon, self.methods)]

    def _point(self, name: str, n: int, epsilon: str, method: Method) -> GridPoint:
        case, is_ops = self.cases[name], method == "ops"
        model = {"model": case.model, "domain": case.domain, "prior": case.prior}
        sizes = {"n_records": n, "epsilon": epsilon, "trials": self.trials, "seed": self.seed}
        data = {**model, **sizes, "mechanism": self.mechanism, "delta": self.delta}
        own: dict[str, Any] = {"method": method, "draws": self.draws, "parameter": case.parameter, "mmd": self.mmd}
        own["unclamped"] = case.unclamped if self.mmd or method == "non-private" else None
        own["support"] = list(case.support) if is_ops and case.support else None
        own["ops"] = msgspec.to_builtins(self.ops) if is_ops else None
        place = {"case": name, "model": case.model, "parameter": case.parameter_name, "n": n, "epsilon": epsilon}
        definition = {**data, **own, "version": dpbayes_cli.__version__}
        return GridPoint({**place, "method": method}, data, definition, self.seed)

    def _check_served(self, case: CaseSection, where: str) -> None:
        """Refuse a model, a parameter or a mechanism that this study cannot use."""
        kind = model_type(case.model)
        if not _is_studied(kind):
            served = [other for other in model_names() if _is_studied(model_type(other))]
            raise SpecError(
                f"model {case.model!r} cannot be studied: its posterior cannot be inferred from a noisy statistic",
                where=f"{where}.model",
                hint=f"allowed: {', '.join(served)}; leave the case out, or run the others with --case NAME",
            )
        names = case.model_on(case.domain).parameters
        if case.parameter is not None and case.parameter not in names:
            hint = nearest(case.parameter, names)
            raise SpecError(f"there is no parameter {case.parameter!r}", where=f"{where}.parameter", hint=hint)
        mechanism = mechanism_type(self.mechanism)
        check_supports(mechanism, kind)
        if not mechanism.post_processing:
            message = f"this study needs noisy statistics, but {self.mechanism!r} adds no noise"
            raise SpecError(message, where="mechanism", hint="allowed: laplace, gaussian")
        if "ops" in self.methods and not supports(mechanism_type("ops"), kind):
            raise SpecError(f"ops does not support model {case.model!r}", where=where, hint="leave ops out of methods")

    def _check_plan(self, name: str, epsilon: str, mechanism: str) -> None:
        """Refuse an epsilon to which a release cannot be calibrated; the error names the case."""
        case = self.cases[name]
        try:
            self.plan(case, case.model_on(case.domain), mechanism, epsilon, min(self.n))
        except SpecError as error:
            place, hint = f"cases.{name}", error.hint
            if error.where == "sampling.support":
                place += ".support"
                hint = "state the public range of the parameter: support: [LOW, HIGH]"
            with errors_at(place, f" ({mechanism}, epsilon {epsilon})", hint):
                raise

    def plan(self, case: CaseSection, model: Model, mechanism: str, epsilon: str, n_records: int) -> Plan:
        """Return the plan of a mechanism, calibrated to epsilon.

        Raises:
            SpecError: the mechanism cannot give this guarantee.
        """
        kind = mechanism_type(mechanism)
        stated: dict[str, Any] = {"epsilon": parse_decimal(epsilon)}
        if mechanism == "ops":
            stated |= {"draws": self.ops.draws, "power_applies_to": self.ops.power_applies_to, "support": case.support}
        elif self.delta is not None:
            stated |= {"delta": parse_decimal(self.delta)}
        options = kind.options_for(type(model))
        read = {name: value for name, value in stated.items() if name in options.__struct_fields__}
        return kind().plan(model, measures.complete_policy(model), options(**read), n_records)

    def run(self, point: GridPoint) -> PointOutcome:
        case, n, method = self.cases[point.case], point["n"], point["method"]
        model = case.model_on(case.domain)
        records, noise, of_reference = point.data_seed().spawn(3)
        thetas, values = measures.prior_predictive(model, n, self.trials, records)
        (step,) = self.plan(case, model, self.mechanism, point["epsilon"], n).steps
        released = values + step.noise.simulate(np.random.default_rng(noise), values.shape)
        reference = None
        if self.mmd or method == "non-private":
            wide, exact = model, values
            if case.unclamped is not None:
                wide = case.model_on(case.unclamped)
                same, exact = measures.prior_predictive(wide, n, self.trials, records)
                if not np.array_equal(same, thetas):
                    message = "with this domain the model has other parameters; only bounds may differ from the case's"
                    raise SpecError(message, where=f"cases.{point.case}.unclamped")
            rng = np.random.default_rng(of_reference)
            reference = measures.non_private_draws(wide, exact, n, self.draws, rng)
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

    def figures(self, results: Results) -> dict[str, Figure]:
        band = ks_band(self.trials)

        def draw(axes: Axes, name: str, epsilon: str, n: int) -> None:
            for each in results.where(case=name, epsilon=epsilon, n=n):
                color = _STYLES[each["method"]].color
                axes.ecdf(each.trials["rank"], color=color, linewidth=1.2, label=each["method"])
            axes.fill_between([0.0, 1.0], [-band, 1.0 - band], [band, 1.0 + band], color="0.9", zorder=0)
            axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
            label_axes(axes, f"n {n}, epsilon {epsilon}", "", scales="linear linear")

        ks, mmd = self.layout.plots["ks"], self.layout.plots["mmd"]
        figures = {"ks": ks.figure(results, lambda axes: axes.axhspan(1e-4, band, color="0.9", zorder=0))}
        for name in self.cases:
            panels = [(name, epsilon, n) for epsilon in self.epsilon for n in self.n]
            title = f"Ranks of the true parameter, {name}; gray: 95 % band of uniform ranks"
            figures[f"ranks-{name}"] = stamped_panels(panels, len(self.n), draw, title)
        return {**figures, "mmd": mmd.figure(results)} if self.mmd else figures

    def claims(self, results: Results) -> list[Claim]:
        aware, naive, ops = (results.where(method=method) for method in ("noise-aware", "naive", "ops"))
        made = [self._calibrated(aware, results.where(method="non-private"))] if aware else []
        made += [self._naive(name, own) for name in self.cases if (own := naive.where(case=name))]
        made += [_dispersed(ops)] if ops else []
        return [*made, _nearer(aware, naive)] if self.mmd and naive and aware else made

    def _calibrated(self, own: Results, exact: Results) -> Claim:
        """Claim uniform ranks: no more points than chance explains are above the 95 % band, and no p-value is tiny."""
        from scipy import stats

        band = ks_band(self.trials)
        distances = [each.measure("ks") for each in own]
        allowed = int(stats.binom.ppf(1.0 - _FALSE_ALARM / 2.0, len(own), 0.05))
        least = min(each.measure("ks_p_value") for each in own)
        beside = f" (non-private {max(each.measure('ks') for each in exact):.3f})" if exact else ""
        return Claim(
            SOURCE,
            "Noise-aware posteriors are as calibrated as non-private ones at every n and epsilon.",
            (above := sum(ks > band for ks in distances)) <= allowed and least >= _FALSE_ALARM / 2.0 / len(own),
            f"largest KS distance {max(distances):.3f}{beside}; {above} of {len(own)} points are above the 95 % band, "
            f"which ends at {band:.3f}, and {0.05 * len(own):.1f} are expected by chance; the smallest p-value is "
            f"{least:.2g}",
            "" if self.mechanism == "laplace" else f"noise of `{self.mechanism}`",
        )

    def _naive(self, name: str, own: Results) -> Claim:
        ordered = sorted((each["n"] * each.point.epsilon, each.measure("ks")) for each in own)
        (low, first), (high, last) = ordered[0], ordered[-1]
        band, falls = ks_band(self.trials), last < _FALLEN * first
        return Claim(
            SOURCE,
            f"{name}: naive posteriors are too confident, and become calibrated only as n * epsilon grows.",
            first > ks_band(self.trials, 1.0 - _FALSE_ALARM) and falls,
            f"KS distance {first:.3f} at n * epsilon = {low:g}, and {last:.3f} at n * epsilon = {high:g}; the 95 % "
            f"band ends at {band:.3f}",
            ""
            if falls
            else "Here naive posteriors see clamped records, as in every release, and are biased at any n. In the "
            "paper they see unclamped records, which is not private.",
        )


def _is_studied(kind: type[Model]) -> bool:
    return all(supports(mechanism_type(name), kind) for name in ("laplace", "rdp-direct"))


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
    """Claim that noise-aware posteriors are at no point further from the non-private one than naive posteriors."""
    signs = {}
    for each in own:
        place = {name: each[name] for name in ("case", "n", "epsilon")}
        other = naive.one(**place)
        error = math.hypot(each.measure("mmd_squared_error"), other.measure("mmd_squared_error"))
        difference = Difference(each.measure("mmd_squared") - other.measure("mmd_squared"), error)
        signs[in_words(place)] = difference.sign(CLEAR)
    worse = [place for place, sign in signs.items() if sign > 0]
    return Claim(
        SOURCE,
        "Noise-aware posteriors are nowhere further from non-private posteriors than naive posteriors are.",
        not worse,
        f"noise-aware posteriors are clearly nearer at {sum(sign < 0 for sign in signs.values())} of {len(signs)} "
        f"points, and clearly further at {len(worse)}" + (f" ({'; '.join(worse)})" if worse else ""),
        "Here the bounds of the exponential model are public and fixed. Naive posteriors therefore see clamped "
        "records, and are compared for this model, too.",
    )
