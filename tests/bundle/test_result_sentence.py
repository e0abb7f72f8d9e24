"""The first lines of a result: one sentence for a reader who knows no statistics, and the width that privacy costs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace as replace_field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.document_parts import EffectSummary, ParameterSummary, StatedResult, Width
from dpbayes_cli.bundle.read import read_document
from dpbayes_cli.bundle.report.digits import percent, rounded
from dpbayes_cli.bundle.report.intervals import sampled_intervals, stored_intervals
from dpbayes_cli.bundle.report.result_sentence import privacy_width_sentence, result_lines, result_sentence
from dpbayes_cli.spec.release_spec import build_spec
from tests.conftest import SAMPLE_DATA, Cli

CLINIC = f"{SAMPLE_DATA / 'clinic.csv'}"
BINARY = "--model beta-bernoulli --column relapse --success yes --failure no --eps 1"


def released(dpbayes: Cli, flags: str) -> ReleaseDocument:
    dpbayes("release", CLINIC, *flags.split(), "--out", "out").exits(0)
    return read_document(Path("out"))


def with_posterior(document: ReleaseDocument, quantiles: Mapping[str, tuple[float, float, float]]) -> ReleaseDocument:
    """Return the document with these 5 % quantiles, medians and 95 % quantiles."""
    posterior = {
        name: ParameterSummary(mean=median, sd=1.0, q05=low, q50=median, q95=high)
        for name, (low, median, high) in quantiles.items()
    }
    return replace(document, posterior=posterior)


NUMBERS = {"lower": 0, "upper": 120}
BOX = {"x": {"values": ["a", "b", "c"]}, "t": {"values": ["no", "yes"]}}


SENTENCES: list[tuple[str, dict[str, Any], list[tuple[float, float, float]], str]] = [
    (
        "beta-bernoulli", {"success": "2", "failure": "1"}, [(0.197, 0.262, 0.328)],
        "about 26 % have c = 2 (90 % interval 20 % to 33 %),",
    ),
    (
        "normal-mean", {**NUMBERS, "variance": 9}, [(51.93, 52.51, 53.09)],
        "the mean of c is about 52.5 (90 % interval 51.9 to 53.1),",
    ),
    (
        "normal",
        NUMBERS,
        [(51.93, 52.51, 53.09), (100.0, 121.0, 144.0)],
        "the mean of c is about 52.5 (90 % interval 51.9 to 53.1), and the standard deviation is about 11.0 "
        "(90 % interval 10.0 to 12.0),",
    ),
    (
        "gamma-exponential", {"upper": 60}, [(0.08, 0.1, 0.125)],
        "the mean of c is about 10.0 (90 % interval 8.0 to 12.5),",
    ),
    (
        "beta-geometric",
        {"upper": 9},
        [(0.2, 0.25, 0.3)],
        "about 25 % of attempts succeed, if c counts the failures before the first success (90 % interval 20 % to "
        "30 %),",
    ),
    (
        "dirichlet-categorical",
        {"categories": ["a", "b", "c"]},
        [(0.1, 0.2, 0.3), (0.5, 0.6, 0.7), (0.15, 0.2, 0.25)],
        "about 60 % have c = b (90 % interval 50 % to 70 %), about 20 % have "
        "c = a (90 % interval 10 % to 30 %), and about 20 % have c = c (90 % interval 15 % to "
        "25 %),",
    ),
    (
        "linear-regression",
        {"target": {"column": "y", **NUMBERS}, "features": {"a": NUMBERS, "b": {"lower": 0, "upper": 1}}},
        [(1.0, 2.0, 3.0), (0.1, 0.2, 0.3), (-9.0, -8.0, -7.0), (1.0, 2.0, 3.0)],
        "This release estimates how y depends on 2 columns; the largest of 2 estimated effects: with a 1 higher and "
        "the other columns equal, the mean of y changes by about 0.20 (90 % interval 0.10 to 0.30),",
    ),
    (
        "naive-bayes",
        {"target": "t", "variables": BOX},
        [(0.1, 0.2, 0.3)] * 6 + [(0.6, 0.7, 0.8), (0.2, 0.3, 0.4)],
        "This release estimates how t and 1 other column depend on each other: about 70 % have t = no "
        "(90 % interval 60 % to 80 %),",
    ),
]  # fmt: skip


def test_the_sentence_names_column_estimate_interval_and_guarantee(dpbayes: Cli) -> None:
    released_document = released(dpbayes, BINARY)
    for model, domain, posterior, sentence in SENTENCES:
        stated = {"model": model, "domain": domain, "privacy": {"epsilon": "1"}, "on_invalid": "drop"}
        spec = build_spec({**stated, **({} if "target" in domain else {"column": "c"})})
        parameters = dict(zip(spec.build_model(None).parameters, posterior, strict=True))
        document = replace(released_document, model=model, spec=spec.stated_in_full)
        shown = result_sentence(with_posterior(document, parameters))
        *topic, clauses = sentence.split(": ")
        whole = ": ".join([*topic, f"in the population that the valid records represent, {clauses}"])
        assert shown == f"{whole[0].upper()}{whole[1:]} under epsilon 1 for replace-one neighbors."


def test_a_single_draw_has_no_interval_and_a_guarantee_states_its_delta(dpbayes: Cli) -> None:
    document = released(dpbayes, f"{BINARY} --mechanism ops --on-invalid impute:no")
    assert "(one private draw from the posterior; a draw has no interval), under epsilon 1 for" in result_sentence(
        document
    )
    assert privacy_width_sentence(document) == ""
    few = replace(document, draws=[[0.2], [0.3], [0.25]])
    few = with_posterior(few, {"theta": (0.2, 0.25, 0.3)})
    assert "about 25 % have relapse = yes (3 private draws are between 20 % and 30 %)" in result_sentence(few).lower()
    approximate = replace(document, guarantee=replace(document.guarantee, delta=1e-6))
    assert result_sentence(approximate).endswith("under epsilon 1 and delta 0.000001 for replace-one neighbors.")


def test_the_width_that_is_due_to_privacy(dpbayes: Cli) -> None:
    """The standard deviations .6^2 + .8^2 = 1: without noise, 60 % of the width remains."""
    document = with_posterior(released(dpbayes, BINARY), {"theta": (0.2, 0.25, 0.3)})
    document = replace(document, width={"theta": Width(sd_data=0.6, sd_noise=0.8)})
    assert privacy_width_sentence(document) == (
        "The noise for privacy makes up about 40 % of the width of this interval; without noise, the interval would be "
        "about 6.0 percentage points wide."
    )
    tiny = replace(document, width={"theta": Width(sd_data=0.9999, sd_noise=0.01)})
    assert privacy_width_sentence(tiny).startswith("The noise for privacy makes up less than 1 % of")
    naive = replace(document, inference=replace(document.inference, method="naive", warnings=["it is too narrow"]))
    assert privacy_width_sentence(naive) == ""
    assert result_lines(naive)[0] == "WARNING: it is too narrow"


def test_the_width_of_a_ratio_that_is_due_to_privacy(dpbayes: Cli) -> None:
    """Of the logarithm of the odds ratio, 60 % of the width remain: 4^.6 = 2.30."""
    document = released(dpbayes, BINARY)
    domain = {"target": {"column": "t", "values": ["no", "yes"]}, "features": {"x": {"values": ["a", "b"]}}}
    spec = build_spec(
        {
            "model": "logistic-regression",
            "domain": domain,
            "mechanism": "noisy-newton",
            "privacy": {"epsilon": "1", "delta": "1e-6"},
        }
    )
    document = with_posterior(
        replace(document, model=spec.model, spec=spec.stated_in_full),
        dict.fromkeys(spec.build_model(None).parameters, (-1.0, 0.0, 1.0)),
    )
    parts = Width(sd_data=0.6, sd_noise=0.8)
    effect = EffectSummary(mean=2.0, sd=1.0, q05=1.0, q50=2.0, q95=4.0, log_width=parts)
    ratio = "with x = b, the odds of t = yes are about"
    stated = [StatedResult(statement=ratio, parameter="x=b", estimate=2.0, q05=1.0, q95=4.0)]
    document = replace(document, effects={"x=b against a": effect}, results=stated, valid_records=None)
    assert "with x = b, the odds of t = yes are about 2.0 times as high as with x = a" in result_sentence(document)
    assert privacy_width_sentence(document) == (
        "The noise for privacy makes up about 40 % of the width of this interval, on a log scale; without noise, its "
        "upper end would be about 2.3 times its lower end, and not 4.0 times."
    )
    unknown = replace(document, effects={"x=b against a": replace(effect, log_width=UNSET)})
    assert privacy_width_sentence(unknown) == ""


def test_a_regression_begins_with_its_clearest_effect_and_wide_ratios_have_digits_of_their_own(dpbayes: Cli) -> None:
    """A ratio of 20 with an interval from .01 to 40,000 says less than one of 2 with an interval from 1.5 to 2.5."""
    document = released(dpbayes, BINARY)
    features = {"x": {"values": ["a", "b"]}, "age": {"lower": 0, "upper": 100}}
    domain = {"target": {"column": "t", "values": ["no", "yes"]}, "features": features}
    privacy = {"epsilon": "1", "delta": "1e-6"}
    spec = build_spec({"model": "logistic-regression", "domain": domain, "privacy": privacy})
    document = with_posterior(
        replace(document, model=spec.model, spec=spec.stated_in_full),
        dict.fromkeys(spec.build_model(None).parameters, (-1.0, 0.0, 1.0)),
    )
    wide = EffectSummary(mean=20.0, sd=1.0, q05=0.0123, q50=20.3, q95=41234.0)
    clear = EffectSummary(mean=2.0, sd=1.0, q05=1.5, q50=2.0, q95=2.5)
    ratios = [effect.name for effect in spec.build_model(None).effects]
    assert ratios == ["age + 10", "x=b against a"]
    for effects, begins in (
        ((wide, clear), "with x = b, the odds of t = yes are about 2.0 times as high as with x = a (90 % interval 1.5"),
        (
            (wide, wide),
            "with age 10 higher, the odds of t = yes are about 20 times as high (90 % interval 0.012 to 41,",
        ),
    ):
        shown = replace(document, effects=dict(zip(ratios, effects, strict=True)), results=UNSET)
        sentence = result_sentence(shown)
        unclear = "" if clear in effects else ", but no 90 % interval of a ratio excludes 1"
        assert sentence.startswith(
            f"This release estimates how t depends on 2 columns{unclear}; the clearest of 2 esti"
        )
        assert begins in sentence
    samples = np.random.default_rng(1).normal(1.0, 0.1, (4000, len(document.posterior)))
    other_level = result_sentence(shown, sampled_intervals(shown, samples, 0.5))
    low, high = (np.exp(0.2 * np.quantile(samples[:, 1], tail)) for tail in (0.25, 0.75))
    assert f"(50 % interval {rounded(low, high - low)} to {rounded(high, high - low)})" in other_level


def test_a_clamped_mean_whose_samples_are_all_at_the_bound_has_no_share_of_noise(
    dpbayes: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpbayes_cli.inference.chains._MAX_LENGTHS", 1)
    document = released(dpbayes, "--model normal --column age --lower 0 --upper 120 --eps 1")
    document = with_posterior(document, {"mean": (-5e3, -4e3, -3e3), "variance": (1.0, 2.0, 3.0)})
    samples = np.array([[-5e3, 1.0], [-4e3, 2.0], [-3e3, 3.0]])
    shown = replace_field(stored_intervals(document), samples=samples)
    assert privacy_width_sentence(document, shown) == ""


def test_parameters_that_the_noise_hides_are_named(dpbayes: Cli) -> None:
    """Their intervals are nearly as wide as those of the prior, 0.05 to 0.95, and would not be without the noise."""
    document = with_posterior(released(dpbayes, BINARY), {"theta": (0.1, 0.4, 0.8)})
    hidden = replace(document, width={"theta": Width(sd_data=0.6, sd_noise=0.8)})
    said = "WARNING: the noise hides most of what the records say about theta: intervals are mainly those of the prior"
    assert any(line.startswith(said) for line in result_lines(hidden))
    cells = {f"theta[{k}]": each for k, each in enumerate([hidden.posterior["theta"]] * 21)}
    many = replace(hidden, posterior={**hidden.posterior, **cells})
    assert any("say about 1 of 22 parameters: intervals" in line for line in result_lines(many))
    for others in (
        replace(hidden, width={"theta": Width(sd_data=0.99, sd_noise=0.1)}),  # the records say little
        with_posterior(hidden, {"theta": (0.1, 0.4, 0.7)}),  # narrower than the prior's
    ):
        assert not any("the noise hides" in line for line in result_lines(others))


@pytest.mark.usefixtures("without_figures")
def test_titles_and_intervals_change_what_is_shown_and_not_the_request(dpbayes: Cli) -> None:
    first = dpbayes("release", CLINIC, *BINARY.split(), "--out", "out", "--title", "Relapse <1 year>")
    assert first.out.splitlines()[0] == "Relapse <1 year>"
    again = dpbayes(
        "release", CLINIC, *BINARY.split(), "--out", "out", "--title", "another", "--interval", "0.5"
    ).exits(0, "is shown again")
    assert again.out.splitlines()[0] == "Relapse <1 year>"
    assert "(50 % interval" in again.out
    assert "25 %" in again.out
    assert dpbayes("report", "out").out.startswith("# Relapse \\<1 year\\>\n\nIn the population ")
    assert "(95 % interval" in dpbayes("report", "out", "--interval", "0.95").out
    page = dpbayes("report", "out", "--format", "html", "--interval", "0.95").out
    assert "<h1>Relapse &lt;1 year&gt;</h1>" in page
    assert "95 % interval" in page
    assert "(95 % interval" in dpbayes("infer", "out", "--interval", "0.95").out
    assert dpbayes("verify", "out").code == 0
    assert json.loads(Path("out/release.json").read_text())["title"] == "Relapse <1 year>"
    wide, narrow = ([float(x) for x in line.split()[3:6:2]] for line in (row(again.out), row(first.out)))
    assert narrow[0] < wide[0] < wide[1] < narrow[1], "the 50 % interval lies inside the 90 % interval"
    for bad in ("", "two\nlines", "x" * 201):
        assert dpbayes("release", CLINIC, *BINARY.split(), "--fresh", "--title", bad).code == 2
    for level in ("0", "1", "95"):
        assert dpbayes("report", "out", "--interval", level).code == 2


def row(printed: str) -> str:
    return next(line for line in printed.splitlines() if line.startswith("theta"))


def test_numbers_have_the_digits_that_their_interval_warrants() -> None:
    assert [rounded(52.47, width) for width in (1.2, 12.0, 0.0123, 120.0)] == ["52.5", "52", "52.470", "50"]
    assert rounded(-0.001, 1.0) == "0.0"
    assert rounded(1234567.0, 1234.0) == "1,234,600"
    assert rounded(1.23456e-9, 1e-10) == "1.23e-09"
    assert rounded(0.123456, 0.0) == "0.1235"
    assert rounded(9.96, 0.999) == "10.0"
    assert percent(0.262, 0.131) == "26 %"


@pytest.mark.slow
def test_the_mean_of_numbers_that_are_often_at_a_bound_has_the_interval_of_its_own_samples(
    dpbayes: Cli, tmp_path: Path
) -> None:
    """Mean and variance are strongly correlated here: with a fixed variance, the interval would be four times as wide.

    The noise is beyond the stated multiple of its standard deviation with a probability below 1e-6.
    """
    rng = np.random.default_rng(5)
    amounts = np.minimum(rng.exponential(2.0, 4000), 50.0)
    (tmp_path / "tips.csv").write_text("tip\n" + "\n".join(f"{each:.2f}" for each in amounts) + "\n")
    dpbayes(
        *("release", f"{tmp_path / 'tips.csv'}", "--model", "normal", "--lower", "0", "--upper", "50"),
        *("--eps", "1", "--out", "out"),
    ).exits(0)
    document = read_document(Path("out"))
    assert document.results
    (result,) = document.results
    assert result.q05 is not None
    assert result.q95 is not None
    width = result.q95 - result.q05
    noise = 2 * 2**0.5 * 25 / 4000  # the standard deviation that the noise on the sum adds to the mean
    assert abs(result.estimate - amounts.mean()) < 10 * noise
    assert width < 2 * 1.645 * 2 * (noise**2 + amounts.var() / 4000) ** 0.5
    share = int(re.findall(r"makes up about (\d+) %", privacy_width_sentence(document))[0]) / 100.0
    assert 1.0 - share == pytest.approx((amounts.var() / 4000 / (noise**2 + amounts.var() / 4000)) ** 0.5, abs=0.3)
    stated = " ".join(dpbayes("report", "out").out.split())
    again = " ".join(dpbayes("infer", "out").out.split())
    clause = f"(90 % interval {rounded(result.q05, width)} to {rounded(result.q95, width)})"
    assert clause in stated
    assert clause in again
    low, high = clause.split()[3], clause.split()[5][:-1]
    in_table = re.findall(rf"clamped mean [|]? ?- [|]? ?- [|]? ?{low} [|]? ?[0-9.]+ [|]? ?{high} ", f"{stated} {again}")
    assert len(in_table) == 2, "the table has the number of the sentence, too"
    narrow = " ".join(dpbayes("report", "out", "--interval", "0.5").out.split())
    lower, upper = (float(end) for end in re.findall(r"\(50 % interval ([0-9.]+) to ([0-9.]+)\)", narrow)[0])
    assert result.q05 < lower < upper < result.q95
    assert dpbayes("verify", "out").code == 0


@pytest.mark.parametrize(("mean", "kind"), [(4.0, ""), (2.0, "note"), (1.0, "WARNING")])
def test_many_numbers_beyond_the_bounds_are_a_warning(mean: float, kind: str, dpbayes: Cli) -> None:
    """A normal law with a standard deviation of 1.5 has 0.4, 9 and 25 % of its numbers below 0."""
    domain = {"lower": 0, "upper": 100}
    spec = build_spec({"model": "normal", "domain": domain, "privacy": {"epsilon": "1"}, "column": "c"})
    document = replace(released(dpbayes, BINARY), model="normal", spec=spec.stated_in_full)
    ends = {"mean": (mean - 0.1, mean, mean + 0.1), "variance": (2.0, 2.25, 2.5)}
    lines = [line for line in result_lines(with_posterior(document, ends)) if "a normal law" in line]
    assert [line.partition(":")[0] for line in lines] == [kind] * bool(kind)


@pytest.mark.parametrize("model", ["gamma-poisson", "gamma-exponential", "beta-geometric"])
def test_a_law_that_fixes_the_variance_is_told_with_the_result(model: str, dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text("g,x\n" + "a,1\nb,2\n" * 200)
    (place / "g.txt").write_text("a\nb\n")
    groups = ["--by", "g", "--groups", "g.txt"] if model == "beta-geometric" else []
    ask = ["release", "a.csv", "--model", model, "--column", "x", "--upper", "9", "--eps", "1", *groups]
    shown = dpbayes(*ask, "--out", "out").exits(0)
    for text in (shown.out, Path("out/report.md").read_text()):
        assert " ".join(text.split()).count("note: intervals assume that ") == 1
