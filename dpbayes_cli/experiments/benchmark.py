"""Benchmark: intervals, predictions, time and memory of dpbayes beside methods of others, on the same records."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta
from scipy import stats

import dpbayes_cli
from dpbayes_cli.experiments.benchmark_pairs import PairsTask
from dpbayes_cli.experiments.benchmark_regressions import LinearTask, LogisticTask
from dpbayes_cli.experiments.benchmark_tasks import ParameterTask, Release, Scored, Task, Trial
from dpbayes_cli.experiments.file_records import file_digest
from dpbayes_cli.experiments.peers import versioned
from dpbayes_cli.experiments.plots import Plot
from dpbayes_cli.experiments.results import OURS, Claim, GridPoint, PointOutcome, Results
from dpbayes_cli.experiments.study import SimulatedStudy, StudySection, with_errors
from dpbayes_cli.spec.convert_section import Exact
from dpbayes_cli.spec.groups_section import read_release_file

Method = Literal[
    "non-private", "laplace", "gaussian", "noisy-newton", "private-tree", "tree-gaussian",
    "plug-in", "least-squares", "bernstein-sheldon", "ju", "diffprivlib", "mst", "mst-replace-one", "aim",
]  # fmt: skip
_TASKS: dict[str, type[Task]] = {
    "parameter": ParameterTask,
    "linear": LinearTask,
    "logistic": LogisticTask,
    "pairs": PairsTask,
}
_OURS = ("laplace", "gaussian", "noisy-newton", "private-tree", "tree-gaussian")
_PACKAGES = {"diffprivlib": "diffprivlib", "mst": "mbi", "mst-replace-one": "mbi", "aim": "mbi"}
_COVERAGE = (0.86, 0.94)
_CLEAR = 2.0


class BenchmarkCase(StudySection, frozen=True, kw_only=True):
    """A request of a release, the records, and the methods that are compared."""

    task: Annotated[Literal["parameter", "linear", "logistic", "pairs"], Meta(description="what is estimated")]
    release: Annotated[str, Meta(description="path of the request, in place of spec")] | None = None
    spec: Annotated[dict[str, Any], Meta(description="the request, without its cost")] = {}  # noqa: RUF012
    records: Annotated[str, Meta(description="path of the records; none are needed for simulated ones")] | None = None
    dataset: (
        Annotated[str, Meta(pattern="^(sklearn|statsmodels):[a-z_]+$", description="data within a package")] | None
    ) = None
    n: Annotated[int, Meta(ge=10, le=10_000_000, description="number of records of a trial")]
    methods: Annotated[tuple[Method, ...], Meta(min_length=1)]
    epsilon: Annotated[tuple[Exact, ...], Meta(description="epsilons of this case, in place of the study's")] = ()
    trials: Annotated[int, Meta(ge=2, le=10_000, description="trials of this case, in place of the study's")] | None = (
        None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.release is None) == (not self.spec):
            raise ValueError("state either release or spec")
        if (self.records is None and not self.dataset) != (self.task == "parameter"):
            raise ValueError("state records or dataset; a parameter is estimated from simulated records")

    @property
    def document(self) -> dict[str, Any]:
        """The request, without its cost."""
        stated = self.spec if self.release is None else read_release_file(Path(self.release))
        return {key: stated[key] for key in ("model", "domain", "prior") if key in stated}


class Benchmark(SimulatedStudy, frozen=True, kw_only=True):
    """How good private estimates, intervals and predictions are, and what they take, beside methods of others.

    `parameter`: the parameter of one column, drawn from the prior. `linear`, `logistic`: regressions on
    records that are drawn from a file with replacement; the true coefficients are those of the whole
    file. `pairs`: the joint shares of all pairs of columns. All methods of a case see the same records.

    Methods of dpbayes are `laplace`, `gaussian`, `noisy-newton`, `private-tree` (a fifth of epsilon for
    the tree, the rest for Laplace noise on its tables) and `tree-gaussian` (the same with Gaussian noise,
    at equal rho). `plug-in` treats the first of these releases as exact. `least-squares`: generalized
    least squares, with the variances of sampling and of noise. `bernstein-sheldon` and `ju` are samplers
    that are written here from papers; `ju` takes the steps of all trials together, which makes it faster.
    `diffprivlib` has pure epsilon and no intervals. `mst` and `aim` are written here on the classes of
    mbi, because the package does not have them; they have the rho of `private-tree` under add-remove
    neighbors, for which their noise is smaller by the factor sqrt 2. `mst-replace-one` has the neighbors
    of `private-tree`. AIM takes fewer rounds than in its paper. `non-private` uses the exact records.

    Source: Bernstein and Sheldon 2018; Ju, Awan, Gong and Rao 2022; McKenna, Miklau and Sheldon 2021
    (MST); McKenna, Mullins, Sheldon and Miklau 2022 (AIM).
    """

    study: Literal["benchmark"]
    draws: Annotated[int, Meta(ge=20, le=10_000, description="posterior draws per trial")] = 400
    delta: Annotated[Exact, Meta(description="delta of gaussian and noisy-newton")] = "1e-6"
    sweeps: Annotated[int, Meta(ge=2, le=1_000_000, description="sweeps kept by the samplers of papers")] = 2000
    steps: Annotated[int, Meta(ge=50, le=100_000, description="steps of mirror descent of mbi")] = 1000
    rounds: Annotated[int, Meta(ge=1, le=16, description="rounds of AIM for each column")] = 2
    costs: Annotated[bool, Meta(description="measure CPU seconds and memory, each point in its own process")] = True
    methods: tuple[Method, ...] = ()
    cases: Annotated[dict[str, BenchmarkCase], Meta(min_length=1)]

    exact: ClassVar = {"delta": ("0", "0.1")}
    files = ("release", "records")
    columns = ("case", "epsilon", "method")
    details = ("made_by",)
    measures = ("ks", *with_errors("coverage", "width", "error", "loss", "accuracy"), "seconds", "megabytes")
    by_trial = ("coverage", "width", "error", "loss", "accuracy", "rank")
    shown = ("case", "epsilon", "method", "ks", "coverage", "width", "error", "loss", "seconds", "megabytes")
    plots: ClassVar = {
        "coverage": Plot("Coverage of 90 % intervals", "coverage", across="non-private"),
        "width": Plot("Width of 90 % intervals", "width", across="non-private", scales="log log"),
        "loss": Plot("Loss of predictions", "loss", across="non-private"),
    }
    legend = (
        "`ks`: the largest distance of the ranks of true parameters from uniform ones. `coverage`: share of the 90 % "
        "intervals that contain the true value. `width`: their mean width. `error`: root mean square distance of "
        "estimates from the true values; for pairs, their mean total variation distance from the exact records. "
        "`loss`: mean negative log probability of new records or of their classes; for `linear`, the mean squared "
        "error as a share of the variance. `accuracy`: share of new records whose class is predicted right. One "
        "standard error over the trials follows each number. `seconds`: CPU time of a trial. `megabytes`: the largest "
        "memory of a process that does all trials."
    )

    def grid(self) -> list[GridPoint]:
        grid = []
        for name, case in self.cases.items():
            contents = file_digest(case.records) if case.records else ""
            if case.dataset:
                contents = f"{case.dataset} of {versioned(case.dataset.partition(':')[0])}"
            trials = {"trials": case.trials or self.trials, "n": case.n, "task": case.task}
            data = {"document": case.document, "contents": contents, "seed": self.seed, **trials}
            settings = {key: getattr(self, key) for key in ("draws", "delta", "sweeps", "steps", "rounds", "costs")}
            for epsilon, method in self.prices_and_methods(case.epsilon or self.epsilon, case.methods, "non-private"):
                made_by = versioned(_PACKAGES[method]) if method in _PACKAGES else f"dpbayes {dpbayes_cli.__version__}"
                own = {"epsilon": epsilon, "method": method}
                point = {**own, **settings, "made_by": made_by}
                grid.append(self.point({"case": name, **own}, data, point, {"made_by": made_by}))
        return grid

    def run(self, point: GridPoint) -> PointOutcome:
        if not self.costs:
            return self.measured(point)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(self.measured, point).result()

    def measured(self, point: GridPoint) -> PointOutcome:
        """Compute a point in this process, with its CPU seconds and memory."""
        case, method = self.cases[point.case], point["method"]
        task = _TASKS[case.task](
            case.document, case.records or case.dataset or "", case.n, self.draws, self.sweeps, self.steps, self.rounds
        )
        trials = task.trials(case.trials or self.trials, point.data_seed())
        noise = point.noise_seed(epsilon=point["epsilon"])
        release = Release(Decimal(point["epsilon"] or 1), Decimal(self.delta), noise)
        started = process_time()
        scored = task.apply(method, trials, release, np.random.default_rng(point.inference_seed()))
        seconds = (process_time() - started) / len(trials)
        kept = _by_trial(task, trials, scored)
        ks = float(stats.kstest(kept["rank"], "uniform").statistic) if "rank" in kept else None
        costs = {"seconds": seconds, "megabytes": _peak()} if self.costs else {"seconds": None, "megabytes": None}
        return PointOutcome.averaged(kept, ("coverage", "width", "error", "loss", "accuracy"), ks=ks, **costs)

    def claims(self, results: Results) -> Iterator[Claim]:
        for name in self.cases:
            own = results.where(case=name)
            others = [method for method in own.values("method") if method not in {*_OURS, "non-private"}]
            for ours in (method for method in own.values("method") if method in _OURS):
                yield _covers(name, ours, own.where(method=ours))
                for measure, what in (("error", "estimates"), ("loss", "predictions")):
                    yield _none_better(f"{name}: no other method has clearly better {what}", ours, others, own, measure)
                if self.costs:
                    yield _none_faster(name, ours, others, own)


def _by_trial(task: Task, trials: list[Trial], scored: list[Scored]) -> dict[str, Any]:
    """Return what was measured in each trial, by name."""
    kept: dict[str, list[float | None]] = {
        "error": [task.error(each, trial) for each, trial in zip(scored, trials, strict=True)],
        "loss": [each.loss for each in scored],
        "accuracy": [each.accuracy for each in scored],
        "rank": [each.rank for each in scored],
    }
    ends = [(trial.truth, *each.ends) for each, trial in zip(scored, trials, strict=True) if each.ends]
    if ends:
        held = [np.where(np.isnan(low), np.nan, (low <= truth) & (truth <= high)) for truth, low, high in ends]
        kept["coverage"] = [float(np.nanmean(each)) for each in held]
        kept["width"] = [float(np.nanmean(high - low)) for _, low, high in ends]
    return {name: np.array(values) for name, values in kept.items() if values[0] is not None}


def _peak() -> float | None:
    """Return the largest memory that this process has had, in megabytes; None if the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024.0 for line in lines if line.startswith("VmHWM")), None)


def _covers(name: str, ours: str, own: Results) -> Claim:
    low, high = _COVERAGE
    says = f"{name}: 90 % intervals of `{ours}` contain 86 % to 94 % of the true values, within two standard errors."
    shares = [(each["epsilon"], each.measure("coverage"), each.measure("coverage_se")) for each in own]
    holds = all(low - _CLEAR * error <= share <= high + _CLEAR * error for _, share, error in shares)
    measured = "; ".join(f"{share:.3f} at epsilon {epsilon}" for epsilon, share, _ in shares)
    return Claim(OURS, says, holds, f"coverage: {measured}")


def _none_better(says: str, ours: str, others: list[str], own: Results, measure: str) -> Claim:
    """Claim that no method of others has a clearly lower measure at any epsilon; name those that have."""
    differences = {
        (other, place): difference
        for other in others
        for place, difference in own.differences(ours, other, measure).items()
    }
    better = [f"`{other}` at {place} ({by})" for (other, place), by in differences.items() if by.sign(_CLEAR) > 0]
    worse = sum(by.sign(_CLEAR) < 0 for by in differences.values())
    measured = f"better: {'; '.join(better) or 'none'}; clearly worse at {worse} of {len(differences)} points"
    return Claim(OURS, f"{says} than `{ours}`.", not better, measured)


def _none_faster(name: str, ours: str, others: list[str], own: Results) -> Claim:
    """Claim that no method of others takes less CPU time; state the ratio of the times of each that does."""
    faster = [
        f"`{other}` at epsilon {each['epsilon']} ({ratio:.2f} of the time)"
        for each in own.where(method=ours)
        for other in others
        for theirs in own.where(epsilon=each["epsilon"], method=other)
        if (ratio := theirs.measure("seconds") / each.measure("seconds")) < 1.0
    ]
    says = f"{name}: no other method takes less CPU time than `{ours}`."
    return Claim(OURS, says, not faster, f"faster: {'; '.join(faster) or 'none'}")
