from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from dpbayes_cli.bundle.read import analysis_of, read_bundle, read_document
from dpbayes_cli.bundle.report.digits import rounded
from dpbayes_cli.bundle.report.page import prose, report_html
from dpbayes_cli.bundle.report.page_figures import page_figures
from dpbayes_cli.bundle.report.plots import density
from dpbayes_cli.bundle.report.result_sentence import result_sentence
from dpbayes_cli.workflow.reporting import build_report_context
from tests.bundle.pictures import EVIL, Page
from tests.conftest import ROOT, SAMPLE_DATA, Cli

SECTIONS = [
    "the-posterior", "the-estimate-of-the-posterior-mode", "the-network", "the-states", "width-of-the-posterior",
    "the-guarantee", "the-request", "what-was-released", "how-it-was-computed", "diagnostics", "assumptions",
    "corrections-to-the-papers", "the-budget-and-proof-of-the-charge", "how-to-cite", "what-you-can-do-next",
]  # fmt: skip


def page_of(bundle: str = "out") -> tuple[str, Page]:
    kept = read_bundle(Path(bundle))
    content = report_html(kept.document, analysis_of(kept), build_report_context(kept)).decode("utf-8")
    return content, Page(content)


def check(content: str, page: Page) -> None:
    """Check what every page must be."""
    assert content.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert "://" not in content
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "form", "base", "foreignobject"}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on") or name == "src"]
    assert "@import" not in content
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for _, attributes in page.tags if "href" in attributes]
    styled = [
        value
        for _, attributes in page.tags
        for name, value in attributes.items()
        if name in {"style", "clip-path", "fill"}
    ]
    links += [f"#{name}" for name in re.findall(r"url\(#([^)]*)\)", " ".join(styled))]
    links += [f"#{attributes['aria-labelledby']}" for _, attributes in page.tags if "aria-labelledby" in attributes]
    assert {link for link in links if link.startswith("#")} == set(links)
    assert {link[1:] for link in links} <= set(ids)
    assert [tag for tag, _ in page.tags].count("h1") == 1
    for attributes in page.attributes("svg"):
        assert attributes["role"] == "img"
        assert attributes["aria-label"]
        assert "viewbox" in attributes
    assert all("fill: var(--" in attributes["style"] for attributes in page.attributes("text"))
    assert not [
        attributes for tag, attributes in page.tags if tag != "figcaption" and "#0a0a" in str(attributes.get("style"))
    ]
    assert page.sections() == [section for section in SECTIONS if section in page.sections()]
    assert [link["href"][1:] for link in page.attributes("a")] == page.sections()
    assert len(page.attributes("nav")) == 1


def release(dpbayes: Cli, *arguments: str | Path) -> None:
    dpbayes("release", *arguments, "--out", "out").exits(0)


def test_the_page_of_an_exact_posterior(dpbayes: Cli) -> None:
    release(dpbayes, SAMPLE_DATA / "relapse.csv", "--model", "beta-bernoulli", "--eps", "0.05")
    content, page = page_of()
    check(content, page)
    absent = {"diagnostics", "the-estimate-of-the-posterior-mode", "the-network", "the-states"}
    assert set(page.sections()) == set(SECTIONS) - absent
    assert page.attributes("aside") == []
    labels = [attributes["aria-label"] for attributes in page.attributes("svg")]
    assert [label.split(" ")[0] for label in labels] == ["Posterior", "Delta", "Upper"]
    assert labels[0].startswith("Posterior density of theta: median 0.")
    document = read_document(Path("out"))
    shown = page.text()
    for sentence in (*document.assumptions, *document.corrections):
        assert " ".join(sentence.replace("`", "").split()) in shown
    theta = document.posterior["theta"]
    assert theta.q05 is not None
    assert theta.q95 is not None
    assert f'<th scope="row">theta</th><td class="number">{rounded(theta.mean, theta.q95 - theta.q05)}</td>' in content
    assert "the dashed line is the prior, with 90 % between 0.05 and 0.95" in labels[0]
    sentence = result_sentence(document).replace("'", "&#39;")
    order = [document.heading, sentence, "Sections", "Posterior of each parameter", "Delta against"]
    assert sorted(order, key=content.index) == order
    assert document.ledger.hash in shown
    assert "at most 51.3 % sure" in shown
    assert [attributes["style"] for attributes in page.attributes("span")] == [
        f"width:{100 * (document.width['theta'].sd_noise / (document.posterior['theta'].sd or 0.0)) ** 2:.1f}%"
    ]
    assert content.encode() == page_of()[0].encode()


def test_labels_are_texts_and_warnings_stand_at_the_top(dpbayes: Cli) -> None:
    spec = {
        "model": "dirichlet-categorical", "domain": {"categories": ["0", "1", *EVIL]}, "privacy": {"epsilon": "0.1"},
        "inference": {"method": "naive"}, "data": str(SAMPLE_DATA / "relapse.csv"),
    }  # fmt: skip
    Path("evil.yaml").write_text(yaml.safe_dump(spec))
    release(dpbayes, "--spec", "evil.yaml")
    content, page = page_of()
    check(content, page)
    assert "<script" not in content.lower()
    heads = [data for tag, data in page.texts if tag == "th"]
    drawn = [data for tag, data in page.texts if tag == "text"]
    for label in EVIL:
        assert heads.count(f"theta[{label}]") == 3
        assert f"count[{label}]" in heads
        assert any(all(part in f"theta[{label}]" for part in data.split("…")) and len(data) > 6 for data in drawn), (
            label
        )
    assert len(page.attributes("svg")) == 2 + 1 + 2 + len(EVIL)
    assert (
        content.index("WARNING: the naive (plug-in) posterior") < content.index("<nav") < content.index('<h2 id="the')
    )
    assert page.attributes("aside")[0]["class"] == "warnings"


@pytest.mark.slow
def test_the_page_of_chains_shows_traces_and_ranks(dpbayes: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbayes_cli.inference.counts.infer_counts.affordable_draws", lambda *_: 0)
    request = ["--model", "dirichlet-categorical", "--eps", "2", "--categories", "0,1,a,b,c", "--samples", "1000"]
    request += ["--prior", "concentration=20", "--on-invalid", "impute:0"]
    release(dpbayes, SAMPLE_DATA / "relapse.csv", *request)
    content, page = page_of()
    check(content, page)
    assert "diagnostics" in page.sections()
    labels = [attributes["aria-label"] for attributes in page.attributes("svg")]
    for name in ("theta[0]", "theta[1]", "theta[a]", "theta[b]"):
        assert f"Trace of {name}, 8 chains of 32, from the lowest to the highest mean" in labels
        assert f"Ranks of {name} by chain, among these draws" in labels
    assert len([label for label in labels if label.startswith("Trace")]) == 4
    kept = read_bundle(Path("out"))
    pictures = page_figures(kept.document, analysis_of(kept), build_report_context(kept)).pictures
    assert re.findall("<svg.*?</svg>", content, re.DOTALL) == [picture.svg.strip() for picture in pictures]
    assert f"{read_document(Path('out')).inference.diagnostics['r_hat']:.4g}" in page.text()
    assert "p-value of agreement between chains" in page.text()


@pytest.mark.slow
@pytest.mark.usefixtures("without_figures")
def test_the_page_of_a_wide_design_shows_whether_chains_drift(dpbayes: Cli) -> None:
    rows = [f"{'yes' if j % 3 else 'no'},{'abcdefghijklmnopqrstuvwxyz'[j % 26]}" for j in range(260)]
    Path("a.csv").write_text("\n".join(["sick,ward", *rows, ""]))
    domain = {
        "target": {"column": "sick", "values": ["no", "yes"]},
        "features": {"ward": {"values": list("abcdefghijklmnopqrstuvwxyz")}},
    }
    Path("spec.yaml").write_text(yaml.safe_dump({"model": "logistic-regression", "data": "a.csv", "domain": domain}))
    dpbayes("budget", "open", "a.csv", "--epsilon", "3", "--delta", "1e-6").exits(0)
    release(dpbayes, "--spec", "spec.yaml", "--eps", "1", "--delta", "1e-6", "--samples", "50")
    content, page = page_of()
    check(content, page)
    assert "diagnostics" in page.sections()
    assert "p-value of agreement between the halves of the chains" in page.text()


def test_the_page_of_posterior_draws(dpbayes: Cli) -> None:
    release(dpbayes, "--spec", ROOT / "configs" / "releases" / "clinic-months-draws.yaml")
    content, page = page_of()
    check(content, page)
    assert {"width-of-the-posterior", "diagnostics"} & set(page.sections()) == {"width-of-the-posterior"}
    assert "Privacy's share of the variance is" in page.text()
    label = page.attributes("svg")[0]["aria-label"]
    document = read_document(Path("out"))
    assert label.startswith("Released draws of ")
    for draw in document.draws:
        assert f"{draw[0]:.6g}" in page.text()


@pytest.mark.slow
def test_a_hundred_categories_are_cut_to_what_can_be_read(dpbayes: Cli) -> None:
    levels = ",".join(str(k) for k in range(100))
    request = ["--model", "dirichlet-categorical", "--eps", "3", "--categories", levels, "--samples", "400"]
    release(dpbayes, SAMPLE_DATA / "relapse.csv", *request)
    content, page = page_of()
    check(content, page)
    labels = [attributes["aria-label"] for attributes in page.attributes("svg")]
    assert len(labels) == 2 + 1 + 12
    assert labels[0].startswith("Medians and 90 % intervals of the first 40 of 100 parameters")
    heads = [data for tag, data in page.texts if tag == "th"]
    assert "theta[39]" in heads
    assert "theta[40]" not in heads
    assert "60 more rows are in release.json." in page.text()
    assert "60 more rows are in statistics.csv." in page.text()
    assert "The first 12 of 100 parameters are plotted." in page.text()
    assert len(content) < 300_000


def test_renyi_curves_are_tables(dpbayes: Cli) -> None:
    request = ["--model", "beta-bernoulli", "--mechanism", "rdp-diffuse", "--eps", "1", "--on-invalid", "impute:0"]
    dpbayes("budget", "open", "relapse", "--eps", "20", "--delta", "1e-6")
    release(dpbayes, SAMPLE_DATA / "relapse.csv", *request)
    content, page = page_of()
    check(content, page)
    document = read_document(Path("out"))
    assert document.guarantee.rdp
    assert "sure" not in page.text()
    assert "Renyi divergence by order" in page.text()
    assert f"lambda* = {document.guarantee.order_max:.4g}" in page.attributes("svg")[2]["aria-label"]
    assert f"{document.guarantee.rdp[0][1]:.6g}" in page.text()


def test_the_density_integrates_to_one_and_does_not_sag_at_an_end() -> None:
    rng = np.random.default_rng(1)
    for samples, at_low in ((rng.standard_exponential(20_000), 1.0), (rng.random(20_000), 1.0)):
        x, y = density(samples)
        assert np.trapezoid(y, x) == pytest.approx(1.0, abs=0.02)
        assert y[0] == pytest.approx(at_low, abs=0.1)
    x, y = density(rng.standard_normal(20_000))
    assert np.max(np.abs(y - np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))) < 0.03


def test_prose_is_escaped_and_its_code_marked() -> None:
    assert prose("`a<b` & c") == "<code>a&lt;b</code> &amp; c"
