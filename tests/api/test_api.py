"""The Python API: the same request, ledger and results as the command line."""

from __future__ import annotations

import ast
import doctest
import shutil
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

import dpbayes_cli as dpb
from dpbayes_cli.api import accounts, analyses, combined, composed, noisy_tables, released, request, schedules
from dpbayes_cli.base import errors
from dpbayes_cli.base.errors import BudgetError, SpecError
from dpbayes_cli.privacy import guarantee
from tests.conftest import SAMPLE_DATA, Cli
from tests.tools.write_stubs import KINDS, PACKAGE, stub

ROWS = pd.DataFrame({"relapsed": ["1", "0", "1", "1", "0", "1", "0", "1"] * 25})


@pytest.fixture
def ledger(tmp_path: Path) -> dpb.Ledger:
    return dpb.Ledger(tmp_path / "ledger.sqlite")


def test_a_release_from_python_is_shown_again_free_by_the_command_line(
    tmp_path: Path, ledger: dpb.Ledger, dpbayes: Cli
) -> None:
    file, out, place = tmp_path / "clinic.csv", tmp_path / "out", tmp_path / "ledger.sqlite"
    ROWS.to_csv(file, index=False)
    plan = dpb.plan(dpb.models.BetaBernoulli(alpha=2, beta=5), dpb.mechanisms.Laplace(epsilon="0.5"))
    release = dpb.release(file, plan, ledger=ledger, out=out)
    assert (release.replayed, release.remaining) == (False, {"epsilon": Decimal("2.5")})
    printed = dpbayes("release", file, "--model", "beta-bernoulli", "--prior", "alpha=2,beta=5", "--eps", "0.5",
                      "--ledger", place, "--out", out, "--json").json  # fmt: skip
    assert printed["replayed"] is True
    assert printed["posterior"]["theta"]["mean"] == release.posterior.summary().loc["theta", "mean"]
    assert dpb.verify(release, ledger) == []
    assert ledger.verify() == []
    assert list(ledger.to_pandas()["kind"]) == ["open", "reserved", "sealed", "published"]


def test_inference_again_has_the_numbers_of_the_command_line(tmp_path: Path, ledger: dpb.Ledger, dpbayes: Cli) -> None:
    out = tmp_path / "out"
    model, mechanism = dpb.models.BetaBernoulli(), dpb.mechanisms.Laplace(epsilon=1)
    dpb.release(ROWS, model, mechanism, ledger=ledger, account="clinic", out=out)
    again = dpb.infer(out, prior={"alpha": 2, "beta": 5}, draws=500, seed=1)
    printed = dpbayes("infer", out, "--prior", "alpha=2,beta=5", "--samples", "500", "--seed", "1", "--json").json
    assert again.summary().loc["theta", "mean"] == printed["posterior"]["theta"]["mean"]
    assert again.to_pandas().shape == (500, 1)
    assert again.to_arviz()["posterior"]["theta"].shape == (4, 125)
    assert "theta" in again._repr_html_()


def test_equal_seeds_give_independent_samples_of_different_releases(
    tmp_path: Path, ledger: dpb.Ledger, dpbayes: Cli
) -> None:
    """Of 1,000 independent pairs, the correlation exceeds 0.2 with a probability below 1e-9."""
    model, mechanism = dpb.models.BetaBernoulli(), dpb.mechanisms.Laplace(epsilon=1)
    samples = []
    for account in ("north", "south"):
        release = dpb.release(ROWS, model, mechanism, ledger=ledger, account=account, out=tmp_path / account)
        samples.append(dpb.infer(release, draws=1000, seed=1).to_pandas()["theta"])
        derived = dpbayes("infer", tmp_path / account, "--json").json["seed"]
        assert dpb.infer(release, seed=derived).to_pandas().equals(release.posterior.to_pandas())
    assert abs(samples[0].corr(samples[1])) < 0.2


def test_a_data_frame_needs_the_account_that_pays(ledger: dpb.Ledger) -> None:
    with pytest.raises(SpecError, match="the data set has no name"):
        dpb.release(ROWS, dpb.models.BetaBernoulli(), dpb.mechanisms.Laplace(epsilon=1), ledger=ledger)


def test_an_account_that_cannot_pay_raises_the_error_of_the_command_line(tmp_path: Path, ledger: dpb.Ledger) -> None:
    ledger.open("clinic", epsilon="0.1")
    assert ledger.remaining("clinic") == {"epsilon": Decimal("0.1")}
    with pytest.raises(BudgetError):
        dpb.release(ROWS, dpb.models.BetaBernoulli(), dpb.mechanisms.Laplace(epsilon=1), ledger=ledger,
                    account="clinic", out=tmp_path / "out")  # fmt: skip


def test_a_schedule_is_that_of_the_command_line(tmp_path: Path, ledger: dpb.Ledger, dpbayes: Cli) -> None:
    ROWS.to_csv(tmp_path / "clinic.csv", index=False)
    file, place = tmp_path / "nights.yaml", tmp_path / "ledger.sqlite"
    file.write_text(
        """
        account: nights
        epsilon: 3
        delta: 1e-6
        releases:
          - {name: rate, times: 2, data: clinic.csv, spec: {model: beta-bernoulli, privacy: {epsilon: 0.1}}}
        """
    )
    nights, first, second = dpb.Schedule(file, ledger), date(2026, 1, 1), date(2026, 1, 2)
    priced = nights.check()
    assert priced.fits
    assert str(priced.cost.epsilon) == dpbayes("schedule", "check", file, "--json").json["epsilon"]
    with pytest.raises(BudgetError, match="is not open"):
        nights.show()
    assert [nights.open(), nights.open()] == [True, False]
    released = nights.run(day=first, out=tmp_path / "out")
    assert list(released) == ["rate-1"]
    assert not released["rate-1"].replayed
    assert dpb.verify(released["rate-1"], ledger) == []
    again = dpbayes(
        "schedule", "run", file, "--date", "2026-01-01", "--ledger", place, "--out", tmp_path / "out", "--json"
    ).json
    assert [each["replayed"] for each in again["releases"]] == [True]
    assert nights.show(first) == {"rate-1": "done", "rate-2": "open"}
    assert nights.show(second) == {"rate-1": "done", "rate-2": "due"}
    with pytest.raises(BudgetError, match="lists no release 'age'"):
        nights.run(name="age")
    assert list(nights.run(tmp_path / "clinic.csv", name="rate-2", day=first, out=tmp_path / "out")) == ["rate-2"]
    file.write_text(file.read_text().replace("times: 2", "times: 3"))
    with pytest.raises(BudgetError, match="changed after it was opened"):
        dpb.Schedule(file, ledger).run()


def test_predictions_and_scores_of_a_data_frame(tmp_path: Path, ledger: dpb.Ledger) -> None:
    rows = pd.DataFrame({"sex": ["f", "m"] * 200, "income": ["low", "high"] * 200})
    variables = {"sex": {"values": ["f", "m"]}, "income": {"values": ["low", "high"]}}
    model = dpb.models.NaiveBayes(target="income", variables=variables)
    release = dpb.release(rows, model, dpb.mechanisms.Laplace(epsilon="3"), ledger=ledger, account="census",
                          out=tmp_path / "out")  # fmt: skip
    predicted = dpb.predict(release, rows[["sex"]].head(4))
    assert list(predicted.iloc[:, 0]) == ["low", "high", "low", "high"]
    assert dpb.evaluate(release, rows)["accuracy"] == 1.0


def test_a_float_is_its_shortest_decimal() -> None:
    assert dpb.plan(dpb.models.BetaBernoulli(), dpb.mechanisms.Laplace(epsilon=0.1)).guarantee().epsilon == Decimal(
        "0.1"
    )


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(TypeError, match="no argument 'alpa'; it takes success, failure, alpha, beta"):
        dpb.models.BetaBernoulli(alpa=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("package", KINDS)
def test_type_stubs_are_up_to_date(package: str) -> None:
    """To write them again: python -m tests.tools.write_stubs."""
    assert (PACKAGE / package / "__init__.pyi").read_text(encoding="utf-8") == stub(package)


def test_the_stub_of_the_package_names_what_is_exported() -> None:
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    imported = {
        name.asname or name.name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names
    }
    assert imported == set(dpb.__all__)
    assert all(getattr(dpb, name) is not None for name in dpb.__all__)


EXAMPLE_FILES = {
    "people.csv": "age,sex,income\n" + "30,f,low\n60,m,high\n50,f,high\n20,m,low\n" * 50,
    "nights.yaml": """
        account: nights
        epsilon: 3
        delta: 1e-6
        releases:
          - name: relapse
            times: 2
            data: clinic.csv
            spec: {model: beta-bernoulli, column: relapse, privacy: {epsilon: 0.1}}
    """,
}
"""What the examples in docstrings read, besides the sample data."""


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files, the releases and the ledger of the examples in docstrings."""
    place = tmp_path_factory.mktemp("examples")
    for name in ("relapse.csv", "clinic.csv", "noisy_opendp.csv"):
        shutil.copy(SAMPLE_DATA / name, place)
    for name, text in EXAMPLE_FILES.items():
        (place / name).write_text(text)
    ledger = dpb.Ledger(place / "ledger.sqlite")
    dpb.release(place / "relapse.csv", dpb.models.BetaBernoulli(), dpb.mechanisms.Laplace(epsilon="0.5"), ledger=ledger,
                account="relapse", out=place / "out")  # fmt: skip
    variables = {"age": {"cuts": [40]}, "sex": {"values": ["f", "m"]}, "income": {"values": ["low", "high"]}}
    model = dpb.models.NaiveBayes(target="income", variables=variables)
    dpb.release(place / "people.csv", model, dpb.mechanisms.Laplace(epsilon="3"), ledger=ledger, out=place / "adult")
    return place


@pytest.mark.parametrize(
    "module",
    [accounts, analyses, combined, composed, errors, guarantee, noisy_tables, released, request, schedules],
    ids=lambda each: each.__name__,
)
def test_examples_in_docstrings_run(module: ModuleType, examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(examples)
    result = doctest.testmod(module, extraglobs={"dpb": dpb})
    assert result.attempted > 0
    assert result.failed == 0


def test_every_exported_function_has_an_example() -> None:
    exported = [getattr(dpb, name) for name in dpb.__all__]
    assert [each.__name__ for each in exported if not isinstance(each, ModuleType) and ">>>" not in each.__doc__] == []


def test_guarantees_take_texts_floats_and_decimals() -> None:
    request = dpb.plan(dpb.models.BetaBernoulli(), dpb.mechanisms.Gaussian(rho="0.005"))
    cost = dpb.compose(request, request.guarantee())
    assert cost.rho == Decimal("0.01")
    assert cost.epsilon_at("1e-6") == cost.epsilon_at(1e-6) == cost.epsilon_at(Decimal("1e-6"))
    assert cost.delta_at("0.5") == cost.delta_at(0.5) == cost.delta_at(Decimal("0.5"))
    assert dpb.compose("0.1", 0.2, 1, Decimal("0.3")).epsilon == Decimal("1.6")
    with pytest.raises(ValueError, match="not a plain decimal"):
        dpb.compose("much")


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("numpy", "pandas", "click", "msgspec")
    code = f"import sys, dpbayes_cli; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
