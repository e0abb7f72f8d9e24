"""Files that are read otherwise than they were meant: each is refused before the charge, or told in the first line.

At epsilon 3 the noise on the number of valid records has a scale below 2; each file is at least 30 records, that is
more than 15 scales, away from the border of its verdict, so that a test fails falsely with probability below 1e-6.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli

N = 600
RATE = ["--model", "beta-bernoulli", "--column", "x"]
YES_NO = [*RATE, "--success", "yes", "--failure", "no"]
MEAN = ["--model", "normal-mean", "--column", "x", "--lower", "0", "--upper", "10000", "--variance", "1e6"]
NAIVE = "WARNING: the naive (plug-in) posterior ignores the noise and is too narrow\n"
MEAN += ["--inference", "naive"]  # the posterior plays no part here, and this one is fast
PRIVATE_N = ["--neighbors", "add-remove"]
KINDS = ["--model", "dirichlet-categorical", "--column", "x", "--categories", "red,green,blue"]


def column(*cells: str, header: str = "x", n: int = N) -> str:
    """Return a file of one column in which the given cells take turns."""
    return "\n".join([header, *(cells[i % len(cells)] for i in range(n))]) + "\n"


FEW = "WARNING: only about "
SOME = "note: about "
TOLD = {
    "classes coded 1 and 2": (column("1", "1", "1", "2"), RATE, FEW),
    "classes coded 1 and 2, private n": (column("1", "1", "1", "2"), [*RATE, *PRIVATE_N], "note: the released counts"),
    "texts in capitals": (column("Yes", "No"), YES_NO, FEW),
    "texts in capitals, private n": (column("Yes", "No"), [*YES_NO, *PRIVATE_N], "WARNING: noise alone"),
    "some texts in capitals": (column("yes", "no", "Yes", "yes"), YES_NO, SOME),
    "texts in single quotes": (column("'yes'", "'no'"), YES_NO, FEW),
    "stand-in for every cell": (
        column("Yes", "No"),
        [*YES_NO, "--on-invalid", "impute:no"],
        "note: invalid cells count",
    ),
    "draws": (
        column("Yes", "No"),
        [*YES_NO, "--on-invalid", "impute:no", "--mechanism", "ops"],
        "note: invalid cells count",
    ),
    "numbers in single quotes": (column("'12'", "'31'"), MEAN, FEW),
    "thousands": (column('"1,234.5"', '"5,600.0"'), MEAN, FEW),
    "decimal commas that split the record": (column("1,5", "2,25"), MEAN, FEW),
    "decimal commas": (column("1,5", "2,25"), [*MEAN, "--delimiter", ";"], FEW),
    "dates": (column("2026-01-31"), MEAN, FEW),
    "categories in capitals": (column("RED", "GREEN", "BLUE"), KINDS, FEW),
    "one category in capitals": (column("red", "GREEN", "blue"), KINDS, SOME),
    "header only, private n": ("x\n", [*RATE, *PRIVATE_N], "WARNING: noise alone"),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_result_that_few_records_support_says_so_in_its_first_line(name: str, dpbayes: Cli, place: Path) -> None:
    text, request, begins = TOLD[name]
    (place / "a.csv").write_text(text, encoding="utf-8")
    result = dpbayes("release", "a.csv", *request, "--eps", "3", "--out", "out", "-q").exits(0)
    assert result.out.startswith(begins), result.out
    assert "dpbayes check FILE" in " ".join(result.out.split()), result.out
    if not begins.startswith("note: invalid"):
        assert (place / "out/report.md").read_text(encoding="utf-8").split("\n\n")[1].startswith(begins)


def test_the_first_line_names_the_texts_that_were_expected(dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text(column("1", "1", "1", "2"), encoding="utf-8")
    result = dpbayes("release", "a.csv", *RATE, "--eps", "3", "--json")
    assert "\nWARNING: only about " in result.err, "a script that reads the JSON sees it on stderr"
    valid = result.json["valid_records"]
    assert valid["q05"] - 10 <= 450 <= valid["q95"] + 10
    assert valid["q05"] <= valid["mean"] <= valid["q95"]
    shown = " ".join(dpbayes("release", "a.csv", *RATE, "--eps", "3", "--out", "again").out.split())
    assert "Valid cells hold '1', 'yes', 'true' or 'y' (upper or lower case), or '0', 'no'" in shown
    assert "--success, --failure" in shown


NETWORK = """
model: naive-bayes
domain:
  target: ill
  variables:
    ill: {values: ["yes", "no"]}
    smoker: {values: ["yes", "no"]}
    drinker: {values: ["yes", "no"]}
privacy: {epsilon: 30}
inference: {method: naive}
"""


@pytest.mark.parametrize(
    ("cells", "begins"), [("yes,no,Yes", FEW), ("Yes,no,yes", FEW), ("yes,no,yes", "This release estimates how ill")]
)
@pytest.mark.parametrize("mechanism", ["laplace", pytest.param("fourier-laplace", marks=pytest.mark.slow)])
def test_one_column_of_several_that_holds_other_texts_is_told(
    mechanism: str, cells: str, begins: str, dpbayes: Cli, place: Path
) -> None:
    (place / "a.csv").write_text("ill,smoker,drinker\n" + f"{cells}\n" * N, encoding="utf-8")
    (place / "a.yaml").write_text(f"{NETWORK}mechanism: {mechanism}\n", encoding="utf-8")
    assert dpbayes("budget", "open", "a", "--eps", "30").code == 0
    result = dpbayes("release", "a.csv", "--spec", "a.yaml", "-q").exits(0)
    assert result.out.removeprefix(NAIVE).startswith(begins), result.out


@pytest.mark.parametrize(
    "options",
    [
        [*YES_NO, "--on-invalid", "impute:no"],
        [*YES_NO, "--on-invalid", "impute:no", *PRIVATE_N],
        [*KINDS, "--on-invalid", "impute:red"],
        pytest.param(
            [*YES_NO, "--on-invalid", "impute:no", "--unit", "who", "--max-contributions", "2", "--records", "600"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_stand_ins_are_not_taken_for_valid_records(options: list[str], dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text("x,who\n" + "".join(f"Yes,{i}\n" for i in range(N)), encoding="utf-8")
    result = dpbayes("release", "a.csv", *options, "--eps", "3", "--json").exits(0)
    assert result.json["valid_records"] is None
    printed = dpbayes("release", "a.csv", *options, "--eps", "3", "--out", "again").out
    assert printed.startswith("note: invalid cells counted as "), printed


RIGHT = {
    "blanks around texts": (column("yes ", " no", header=" x"), YES_NO),
    "a rate": (column("1", "0"), RATE),
    "a rare outcome": (column(*["0"] * 9, "1"), RATE),
    "a mean": (column("4000", "5000"), MEAN),
    "categories": (column("red", "green", "blue"), KINDS),
    "private n": (column("1", "0"), [*RATE, *PRIVATE_N]),
    "units": ("x,who\n" + "".join(f"{i % 2},{i}\n" for i in range(N)), [*RATE, "--unit", "who"]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_result_of_valid_records_has_no_warning(name: str, dpbayes: Cli, place: Path) -> None:
    text, request = RIGHT[name]
    (place / "a.csv").write_text(text, encoding="utf-8")
    result = dpbayes("release", "a.csv", *request, "--eps", "3", "-q").exits(0)
    assert not result.out.removeprefix(NAIVE).startswith(("WARNING", "note")), result.out


REGRESSION = """
model: logistic-regression
source: {delimiter: ';'}
domain: {target: {column: ill, values: ['no', 'yes']}, features: {age: {lower: 0, upper: 100}}}
privacy: {epsilon: 3, delta: 1e-6}
inference: {method: naive}
"""


@pytest.mark.parametrize(("cell", "begins"), [("31,5", FEW), ("31.5", "WARNING: the naive")])
def test_a_regression_on_few_valid_records_says_so(cell: str, begins: str, dpbayes: Cli, place: Path) -> None:
    (place / "a.csv").write_text("ill;age\n" + f"yes;{cell}\nno;{cell}\n" * (N // 2), encoding="utf-8")
    (place / "a.yaml").write_text(REGRESSION, encoding="utf-8")
    assert dpbayes("release", "a.csv", "--spec", "a.yaml").exits(0).out.startswith(begins)


@pytest.mark.parametrize(
    ("model", "warned"),
    [("gamma-poisson", True), ("beta-geometric", True), ("gamma-exponential", True), ("gamma-poisson", False)],
)
def test_a_bound_that_many_numbers_exceed_is_told(model: str, warned: bool, dpbayes: Cli, place: Path) -> None:
    """The means are 2.5; a bound of 2 is exceeded by 30 to 46 %, one of 30 by none."""
    (place / "a.csv").write_text(column("1", "2", "3", "4"), encoding="utf-8")
    options = ["--model", model, "--column", "x", "--upper", "2" if warned else "30", "--eps", "3"]
    out = dpbayes("release", "a.csv", *options).exits(0).out
    assert out.startswith("WARNING: under the law of the model, about") == warned
