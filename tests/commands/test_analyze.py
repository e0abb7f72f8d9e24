"""Analyses of bundles from the shell, against enumeration of the joint law and a general optimizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import dpbayes_cli as dpb
from dpbayes_cli.bundle.read import analysis_of, read_bundle
from tests.commands.networks import bayes_net, naive_bayes, people, release
from tests.commands.test_gibbs import HMM, events
from tests.conftest import Cli

MIDDLES = np.array([9.5, 29.5, 49.5, 70.0])
"""The middles of the ages 0 to 80, as whole numbers."""
BOUNDS = ("--bounds", "age=0:80")


def joint_law(bundle: Path) -> Any:
    """Return the law of class, kind, flag and age on each draw, from the names of the parameters."""
    contents = read_bundle(bundle)
    analysis = analysis_of(contents)
    value = dict(zip(analysis.parameters, analysis.samples.T, strict=True))
    law = np.ones((len(analysis.samples), 2, 3, 2, 4))
    levels = [["no", "yes"], ["u", "v", "w"], ["0", "1"], ["<20", "20 to <40", "40 to <60", ">=60"]]
    for cell in np.ndindex(2, 3, 2, 4):
        c, *features = (levels[i][code] for i, code in enumerate(cell))
        law[:, *cell] = value[f"theta[class={c}]"]
        for name, level in zip(("kind", "flag", "age"), features, strict=True):
            law[:, *cell] *= value[f"theta[{name}={level}|class={c}]"]
    return law


def estimates(document: Any) -> dict[str, tuple[float, float, float]]:
    return {each["name"]: (each["mean"], each["low"], each["high"]) for each in document["estimates"]}


def summary(draws: Any, level: float = 0.9) -> tuple[float, float, float]:
    low, high = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2])
    return float(draws.mean()), float(low), float(high)


def test_means_tables_and_correlations_are_those_of_the_enumerated_law(dpbayes: Cli, bundle: Path) -> None:
    law = joint_law(bundle)
    shares = estimates(dpbayes("analyze", bundle, "--mean", "kind", "--by", "class", "--json").json)
    kind = law.sum(axis=(3, 4))
    conditional = kind / kind.sum(axis=2, keepdims=True)
    assert len(shares) == 6
    assert shares["share[kind=w|class=yes]"] == pytest.approx(summary(conditional[:, 1, 2]))
    ages = estimates(dpbayes("analyze", bundle, "--mean", "age", "--by", "flag", *BOUNDS, "--json").json)
    by = law.sum(axis=(1, 2))
    mean = (by @ MIDDLES) / by.sum(axis=2)
    assert ages["mean[age|flag=1]"] == pytest.approx(summary(mean[:, 1]))
    table = dpb.analyze(bundle, table=["flag", "age"], interval=0.5)
    assert table.names[5] == "share[flag=1,age=20 to <40]"
    np.testing.assert_allclose(table.draws[:, 5], law.sum(axis=(1, 2))[:, 1, 1], rtol=1e-12)
    assert table.to_pandas()["high"].iloc[5] == pytest.approx(summary(table.draws[:, 5], 0.5)[2])
    printed = estimates(dpbayes("analyze", bundle, "--correlation", "class,age", *BOUNDS, "--json").json)
    pair = law.sum(axis=(2, 3))
    weight, x = pair.sum(axis=1), np.array([0.0, 1.0])
    centered_x, centered_y = x - pair.sum(axis=2) @ x[:, None], MIDDLES - weight @ MIDDLES[:, None]
    covariance = np.einsum("dca,dc,da->d", pair, centered_x, centered_y)
    spread = np.einsum("dca,dc->d", pair, centered_x**2) * np.einsum("da,da->d", weight, centered_y**2)
    assert printed == {"correlation[class,age]": pytest.approx(summary(covariance / spread**0.5))}


def test_regressions_maximize_the_likelihood_of_the_enumerated_law(dpbayes: Cli, bundle: Path) -> None:
    law = joint_law(bundle)
    cells = law.sum(axis=3).transpose(0, 2, 3, 1).reshape(len(law), -1, 2)  # kind and age, then class
    kind, age = np.repeat(np.arange(3), 4), np.tile(MIDDLES, 3)
    design = np.column_stack([np.ones(12), kind == 1, kind == 2, age / 10.0])
    done = dpbayes("analyze", bundle, "class ~ kind + I(age / 10)", *BOUNDS, "--json").exits(0)
    result = dpb.analyze(bundle, "class ~ kind + I(age / 10)", bounds={"age": (0, 80)})
    assert result.names == ("Intercept", "kind[T.v]", "kind[T.w]", "I(age / 10)")
    assert [each["name"] for each in done.json["estimates"]] == list(result.names)
    assert any("kind - age" in warning for warning in result.warnings)

    def loss(beta: Any, weights: Any) -> float:
        linear = design @ beta
        return float((weights.sum(axis=1) * np.logaddexp(0.0, linear) - weights[:, 1] * linear).sum())

    for k in (0, 17):
        best = optimize.minimize(loss, np.zeros(4), cells[k], method="BFGS", tol=1e-9)
        np.testing.assert_allclose(result.draws[k], best.x, atol=2e-3)
    linear = dpb.analyze(bundle, "age ~ C(flag)*kind", bounds={"age": (0, 80)})
    joint = law.sum(axis=1)  # kind, flag and age
    means = (joint @ MIDDLES) / joint.sum(axis=3)  # a saturated model
    names = dict(zip(linear.names, linear.draws.T, strict=True))
    np.testing.assert_allclose(names["Intercept"], means[:, 0, 0], rtol=1e-9)
    gap = means[:, 2, 1] - means[:, 2, 0] - means[:, 0, 1] + means[:, 0, 0]
    np.testing.assert_allclose(names["C(flag)[T.1]:kind[T.w]"], gap, atol=1e-9)
    poisson = dpb.analyze(bundle, "age ~ 1", family="poisson", bounds={"age": (0, 80)})
    np.testing.assert_allclose(np.exp(poisson.draws[:, 0]), joint.sum(axis=(1, 2)) @ MIDDLES, rtol=1e-9)
    kinds = dpb.analyze(bundle, "kind ~ 1", success="v")
    np.testing.assert_allclose(1 / (1 + np.exp(-kinds.draws[:, 0])), law.sum(axis=(1, 3, 4))[:, 1], rtol=1e-9)


def test_what_the_network_cannot_tell_is_refused_and_what_it_assumes_is_named(dpbayes: Cli, place: Path) -> None:
    """Given class, age is independent of the other columns; kind and flag have an edge."""
    release(dpbayes, people(place / "data.csv"), bayes_net()).exits(0)
    done = dpbayes("analyze", "out", "flag ~ class + kind").exits(0)
    assert "WARNING" not in done.out
    asked = " ".join(dpbayes("analyze", "out", "--table", "flag,age").out.split())
    assert "no edge flag - age: these columns are assumed" in asked
    assert "no edge flag - age: these columns are assumed" in repr(dpb.analyze("out", table=("flag", "age")))
    independent = "no edge age - flag and makes them independent given class"
    dpbayes("analyze", "out", "age ~ class + flag", *BOUNDS).exits(3, independent)
    dpbayes("analyze", "out", "--mean", "age", "--by", "class,flag").exits(3, independent)
    lone = {"a": {"values": ["0", "1"]}, "b": {"values": ["0", "1"]}}
    Path("lone.csv").write_text("a,b\n" + "0,1\n1,1\n" * 40)
    spec = {"model": "bayes-net", "domain": {"variables": lone}, "privacy": {"epsilon": 1}, "dataset": "lone"}
    release(dpbayes, Path("lone.csv"), spec, out="lone").exits(0)
    for analysis in (["--correlation", "a,b"], ["--mean", "a", "--by", "b"], ["--table", "a,b"], ["a ~ b"]):
        dpbayes("analyze", "lone", *analysis).exits(3, "makes them independent, whatever the data say")
    dpbayes("analyze", "lone", "--mean", "a").exits(0)


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "begins"), [("svg", b"<svg"), ("png", b"\x89PNG")])
def test_plots_are_files_of_their_kind(suffix: str, begins: bytes, dpbayes: Cli, bundle: Path) -> None:
    dpbayes("analyze", bundle, "--mean", "kind", "--plot", f"plot.{suffix}").exits(0, "wrote plot")
    assert Path(f"plot.{suffix}").read_bytes().startswith(begins)
    dpbayes("analyze", bundle, "--mean", "kind", "--plot", f"plot.{suffix}").exits(8, "exists already")


@pytest.mark.slow
def test_an_interval_that_ignores_the_noise_is_not_said_to_cover_it(dpbayes: Cli, place: Path) -> None:
    naive = naive_bayes() | {"inference": {"method": "naive"}}
    release(dpbayes, people(place / "data.csv"), naive).exits(0)
    done = dpbayes("analyze", "out", "--mean", "kind").exits(0)
    assert "WARNING: the naive (plug-in) posterior ignores the noise" in done.out
    assert "covers the uncertainty" not in " ".join(done.out.split())
    dpbayes("synthesize", "out", "--out", "tables").exits(0, "WARNING: the naive")


@pytest.mark.slow
def test_a_hidden_markov_model_has_no_law_of_its_axes(dpbayes: Cli, place: Path) -> None:
    spec = {**HMM, "mechanism": "laplace"}
    del spec["sampling"]
    release(dpbayes, events(place / "data.csv"), {**spec, "inference": {"mcmc_sweeps": 50}}).exits(0)
    dpbayes("analyze", "out", "--mean", "kind").exits(3, "does not estimate how often each 'place' and 'month' occurs")
    contents = read_bundle(Path("out"))
    analysis = analysis_of(contents)
    result = dpb.analyze("out", mean="kind", by=["place", "month"])
    emissions = contents.model.split(analysis.samples)[0][0]  # type: ignore[attr-defined]
    assert analysis.drawn_states is not None
    expected = emissions[np.arange(len(emissions)), analysis.drawn_states[:, 1, 2], 0]
    np.testing.assert_allclose(result.draws[:, result.names.index("share[kind=u|place=b,month=3]")], expected)


def test_formulas_that_mean_nothing_are_refused(dpbayes: Cli, bundle: Path) -> None:
    for formula, says in (
        ("class", "is not a formula"), ("class ~ agee", "there is no column 'agee'"),
        ("class ~ class + kind", "on both sides"), ("class ~ kind +", "is not a formula"),
        ("class + flag ~ kind", "left side"), ("class ~ kind | flag", "is not a formula"),
        ("class ~ center(flag)", "is not allowed"), ("class ~ kind.__class__", "there is no column"),
        ("class ~ {[].__class__}", "is not allowed"), ("class ~ I(__import__('os'))", "is not allowed"),
        ("class ~ flag + I(2 * flag)", "not determined"), ("class ~ log(flag)", "is not a number"),
        ("class ~ log(kind)", "cannot be computed"), ("class ~ 0", "not determined"), ("kind ~ flag", "not numbers"),
        ("class ~ .", "is not a formula"),
    ):  # fmt: skip
        dpbayes("analyze", bundle, formula).exits(3, says)


def test_output_and_refusals(dpbayes: Cli, bundle: Path) -> None:
    done = dpbayes("analyze", bundle, "class ~ flag + age", "--interval", "0.8").exits(0)
    assert done.out.startswith("Logistic regression of class = yes on flag + age:")
    assert "10 %" in done.out
    assert "age enters as intervals; for numbers, state its bounds: --bounds age=LOW:HIGH." in done.out
    assert "WARNING: the network has no edge flag - age" in " ".join(done.out.split())
    assert "<table" in dpb.analyze(bundle, mean="flag")._repr_html_()
    assert "WARNING: age enters as the middles" in dpbayes("analyze", bundle, "--mean", "age", *BOUNDS).out
    quoted = dpbayes("analyze", bundle, "--table", 'class,"flag"', "--json").exits(0)
    assert quoted.json["analysis"] == "joint shares of class, flag"
    for arguments, says in (
        ([], "name one analysis"),
        (["--mean", "kind", "--table", "kind,flag"], "name one analysis"),
        (["class ~ flag", "--by", "kind"], "--by"),
        (["--mean", "kind", "--family", "linear"], "need a formula"),
        (["--correlation", "class,kind"], "neither a number nor a column with two values"),
        (["--correlation", "class"], "needs two columns"),
        (["--mean", "klass"], "no column 'klass'"),
        (["--mean", "class", "--interval", "0.999"], "need at least 2000 posterior draws"),
        (["class ~ flag", "--success", "maybe"], "no level 'maybe'"),
    ):
        dpbayes("analyze", bundle, *arguments).exits(3, says)
    dpbayes("analyze", bundle, "--mean", "class", "--plot", "plot.pdf").exits(8, "neither .svg nor .png")
