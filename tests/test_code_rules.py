"""Rules of the code: style, types and import contracts by their tools; docstrings, privacy claims, sample data."""

from __future__ import annotations

import gzip
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import dpbayes_cli
from tests.conftest import ROOT

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(dpbayes_cli.__path__, "dpbayes_cli.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "--no-cache", "."],
        ["ruff", "format", "--no-cache", "--check", "."],
        ["mypy", "--no-error-summary", "dpbayes_cli"],
        pytest.param(["mypy", "--no-error-summary"], marks=pytest.mark.slow),  # the tests, too
        ["importlinter.cli", "--no-cache"],
    ],
    ids=lambda command: " ".join(command[:3]),
)
def test_the_tools_have_nothing_to_say(command: list[str]) -> None:
    runner = (
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", command[1]]
        if command[0] == "importlinter.cli"
        else [sys.executable, "-W", "ignore", "-m", *command]
    )
    done = subprocess.run(runner, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def public_functions() -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name in MODULES:
        module = importlib.import_module(name)
        for label, value in vars(module).items():
            if not label.startswith("_") and getattr(value, "__module__", None) == name and callable(value):
                found.append((f"{name}.{label}", value))
    return found


def test_everything_public_says_what_it_is_for() -> None:
    first = {name: (inspect.getdoc(subject) or "?").splitlines()[0].rstrip() for name, subject in public_functions()}
    assert len(first) > 1000
    assert [name for name, line in first.items() if not line.endswith((".", ":", ","))] == []


PRICED = [
    "dpbayes_cli.privacy.kinds.PureDP",
    "dpbayes_cli.privacy.kinds.ApproximateDP",
    "dpbayes_cli.privacy.kinds.BoundedRange",
    "dpbayes_cli.privacy.kinds.ZeroConcentrated",
    "dpbayes_cli.privacy.kinds.GaussianDP",
    "dpbayes_cli.privacy.kinds.RenyiCurve",
    "dpbayes_cli.privacy.composition.Composition",
    "dpbayes_cli.privacy.laws.discrete_laplace.DiscreteLaplace",
    "dpbayes_cli.privacy.laws.discrete_gaussian.DiscreteGaussian",
    "dpbayes_cli.privacy.grid.cell_weights",
    "dpbayes_cli.core.private_quantile.PrivateBounds",
    "dpbayes_cli.privacy.lattice.share_table",
    "dpbayes_cli.privacy.conjugate.DirichletFamily",
    "dpbayes_cli.privacy.real_conjugate.GammaShapeFamily",
    "dpbayes_cli.privacy.real_conjugate.GammaRateFamily",
    "dpbayes_cli.privacy.real_conjugate.BetaFailuresFamily",
    "dpbayes_cli.privacy.real_conjugate.NormalFamily",
    "dpbayes_cli.privacy.conjugate.NetworkFamily",
    "dpbayes_cli.privacy.laws.part_noise.PartNoise",
    "dpbayes_cli.privacy.laws.part_noise.noise_by_parts",
    "dpbayes_cli.models.families.discrete_bayes_net.DiscreteBayesNet.statistic",
    "dpbayes_cli.mechanisms.samplers.dag_sampler.DagSampler",
    "dpbayes_cli.mechanisms.fourier_laplace.FourierLaplace",
    "dpbayes_cli.privacy.parity_sensitivity.sensitivity_l1",
    "dpbayes_cli.privacy.parity_sensitivity.maximize_odd_patterns",
    "dpbayes_cli.core.statistic.sum_statistic",
    "dpbayes_cli.mechanisms.samplers.renyi_posterior.RenyiMechanism",
    "dpbayes_cli.mechanisms.gaussian.Gaussian",
    "dpbayes_cli.mechanisms.ops.Ops",
    "dpbayes_cli.mechanisms.samplers.scalar_sampler.ScalarSampler",
    "dpbayes_cli.mechanisms.map.Map",
    "dpbayes_cli.mechanisms.map.GridEstimate",
    "dpbayes_cli.mechanisms.map.SharesEstimate",
    "dpbayes_cli.privacy.permute_and_flip.FlipWeights",
    "dpbayes_cli.privacy.permute_and_flip.permute_and_flip",
    "dpbayes_cli.mechanisms.samplers.linear_regression_sampler.LineCover.spread",
    "dpbayes_cli.mechanisms.samplers.linear_regression_sampler.LinearRegressionSampler",
    "dpbayes_cli.mechanisms.samplers.tempering.Tempering",
    "dpbayes_cli.mechanisms.samplers.simplex_sampler.SimplexSampler",
    "dpbayes_cli.mechanisms.samplers.scalar_sampler.exact_curve",
    "dpbayes_cli.ledger.budgets.PureBudget",
    "dpbayes_cli.ledger.budgets.RenyiBudget",
    "dpbayes_cli.ledger.budgets.ConcentratedBudget",
    "dpbayes_cli.ledger.budgets.GaussianBudget",
    "dpbayes_cli.ledger.union_budget.UnionBudget",
    "dpbayes_cli.ledger.budgets.Budget",
    "dpbayes_cli.ledger.ledger.Ledger",
    "dpbayes_cli.mechanisms.laplace.Laplace",
    "dpbayes_cli.workflow.release.release",
    "dpbayes_cli.privacy.noisy_descent.descent_mu",
    "dpbayes_cli.privacy.secret_normals.RoundedNormals",
    "dpbayes_cli.privacy.chain_arithmetic.chain_arithmetic",
    "dpbayes_cli.core.losses.Loss",
    "dpbayes_cli.core.design.Design",
    "dpbayes_cli.models.families.convex_loss.ConvexLossModel.curvature",
    "dpbayes_cli.core.langevin.Langevin",
    "dpbayes_cli.mechanisms.samplers.langevin_rules.gdp_rule",
    "dpbayes_cli.mechanisms.samplers.langevin_rules.minami_rule",
    "dpbayes_cli.mechanisms.samplers.langevin_rules.calibrate_diffuse",
    "dpbayes_cli.mechanisms.samplers.langevin_rules.calibrate_concentrated",
    "dpbayes_cli.mechanisms.samplers.langevin_rules.untempered_chain",
    "dpbayes_cli.mechanisms.samplers.langevin_calibration.run_chains",
    "dpbayes_cli.mechanisms.gibbs_posterior.GibbsPosterior",
    "dpbayes_cli.mechanisms.gibbs.Gibbs",
    "dpbayes_cli.privacy.choices.choose",
    "dpbayes_cli.mechanisms.samplers.gibbs_accounting.price_chain",
    "dpbayes_cli.mechanisms.samplers.ais_log_weight.NoisyLogWeight",
    "dpbayes_cli.mechanisms.samplers.private_gibbs.PrivateGibbs",
    "dpbayes_cli.mechanisms.samplers.private_gibbs.updates_of",
    "dpbayes_cli.mechanisms.samplers.barker_kernel.BarkerKernel",
    "dpbayes_cli.mechanisms.samplers.barker_kernel.local_spread",
    "dpbayes_cli.models.naive_bayes_mixture.NaiveBayesMixture",
]


@pytest.mark.parametrize("name", PRICED)
def test_what_touches_privacy_says_how_and_why(name: str) -> None:
    parts = name.split(".")
    first = next((i for i, part in enumerate(parts) if not part.islower()), len(parts) - 1)
    subject: object = importlib.import_module(".".join(parts[:first]))
    for part in parts[first:]:
        subject = getattr(subject, part)
    text = inspect.getdoc(subject) or ""
    assert "Privacy:" in text
    assert "Source:" in text


def test_the_sample_data_are_what_their_generator_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "sample_data")
    generate, event_log = importlib.import_module("generate"), importlib.import_module("event_log")
    assert (ROOT / "sample_data" / "relapse.csv").read_bytes() == generate.relapse()
    assert (ROOT / "sample_data" / "clinic.csv").read_bytes() == generate.clinic()
    assert (ROOT / "sample_data" / "survey.csv.gz").read_bytes() == generate.compressed(generate.survey())
    assert gzip.decompress((ROOT / "sample_data" / "events.csv.gz").read_bytes()) == event_log.events()
