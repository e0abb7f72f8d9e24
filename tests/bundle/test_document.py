from __future__ import annotations

import csv
import json
from pathlib import Path

import jsonschema
import pyarrow.parquet as pq
import pytest

from dpbayes_cli import bundle
from dpbayes_cli.base.errors import VerificationError
from dpbayes_cli.bundle.document import json_schema, parse_document
from dpbayes_cli.bundle.report.markdown import report_markdown
from tests.conftest import SAMPLE_DATA, Cli
from tests.schemas import check_document

SCHEMA = Path(bundle.__file__).parent / "release.schema.json"


def test_the_shipped_schema_is_that_of_the_code() -> None:
    assert json.loads(SCHEMA.read_text()) == json_schema()
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--model", "beta-bernoulli", "--eps", "0.5", "--on-invalid", "impute:0", "--samples-format", "csv"],
        ["--model", "beta-bernoulli", "--eps", "0.5", "--neighbors", "add-remove", "--inference", "naive"],
        ["--model", "dirichlet-categorical", "--eps", "2", "--categories", "0,1,2", "--samples", "10"],
    ],
)
def test_bundle_files_agree(arguments: list[str], dpbayes: Cli) -> None:
    printed = dpbayes("release", SAMPLE_DATA / "relapse.csv", *arguments, "--out", "out", "--json").json
    content = Path("out/release.json").read_bytes()
    document = json.loads(content)
    check_document(document)
    for key in ("release_id", "account", "model", "mechanism", "statistics", "guarantee", "posterior"):
        assert document[key] == printed[key]
    with Path("out/statistics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["name"], int(row["value"]), float(row["noise_scale"])) for row in rows] == [
        (item["name"], item["value"], item["noise_scale"]) for item in document["statistics"]
    ]
    form = document["inference"]["samples_format"]
    if form == "parquet":
        table = pq.read_table("out/samples.parquet")
        names, length = table.column_names, table.num_rows
    else:
        with Path("out/samples.csv").open() as file:
            lines = list(csv.reader(file))
        names, length = lines[0], len(lines) - 1
    assert names == list(document["posterior"])
    assert length == document["inference"]["samples"]
    parsed = parse_document(content)
    assert parsed.pretty() == content
    assert parse_document(parsed.payload()) == parsed
    report = Path("out/report.md").read_text()
    assert f"`{document['release_id']}`" in report
    for assumption in document["assumptions"]:
        assert assumption in report
    assert (document["n_records"] is None) == ("add-remove" in arguments)


def test_private_number_of_records_appears_nowhere(dpbayes: Cli, place: Path) -> None:
    data = place / "d.csv"
    data.write_text("x\n" + "1\n" * 1_234_000 + "0\n" * 567)  # seven digits: no float shows them by accident
    done = dpbayes(
        "release", data, "--model", "beta-bernoulli", "--eps", "0.01", "--neighbors", "add-remove", "--out", "o"
    ).exits(0)
    for text in (done.out, done.err, *(path.read_text(errors="replace") for path in Path("o").iterdir())):
        assert "1234567" not in text
        assert "1,234,567" not in text


def test_labels_cannot_break_the_report(dpbayes: Cli) -> None:
    labels = "1|2,<script>,*bold*,`code`,[link](x),=cmd"
    request = ["--model", "dirichlet-categorical", "--eps", "1", "--categories", labels]
    for _ in range(2):  # in the order of the spec, also when the release is shown again
        printed = dpbayes("release", SAMPLE_DATA / "relapse.csv", *request, "--out", "out", "--json").json
        assert list(printed["posterior"]) == [f"theta[{label}]" for label in labels.split(",")]
        assert list(json.loads(Path("out/release.json").read_text())["posterior"]) == list(printed["posterior"])
    report = Path("out/report.md").read_text()
    assert "<script>" not in report
    rows = [line for line in report.splitlines() if line.startswith("| count")]
    assert len(rows) == 6
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"schema_version": 2}', b'{"schema_version": 3}', b'{"schema_version": 1}', b"\xff", b"[" * 100_000],
)
def test_invalid_documents_are_refused(content: bytes) -> None:
    with pytest.raises(VerificationError):
        parse_document(content)


def test_posterior_width_splits_into_data_and_privacy(dpbayes: Cli) -> None:
    dpbayes("release", SAMPLE_DATA / "relapse.csv", "--model", "beta-bernoulli", "--eps", "0.02", "--out", "out")
    document = parse_document(Path("out/release.json").read_bytes())
    width, theta = document.width["theta"], document.posterior["theta"]
    assert width.sd_data**2 + width.sd_noise**2 == pytest.approx((theta.sd or 0) ** 2)
    assert width.sd_noise > width.sd_data  # at epsilon 0.02 and 1,000 records privacy dominates
    assert b"sd from privacy" in report_markdown(document)
