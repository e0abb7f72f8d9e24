"""``dpbayes audit``: its report, its exit codes, and what it says if it is interrupted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dpbayes_cli.audit import attack
from dpbayes_cli.audit.attack import Audit
from dpbayes_cli.base.errors import Interrupted
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.audit.test_attack import halve_noise, shorten
from tests.conftest import Cli


def test_the_audit_command_reports_its_result_and_what_it_does_not_prove(
    dpbayes: Cli, coin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch)
    flags = ("--model", "beta-bernoulli", "--eps", "1")
    assert dpbayes("audit", *flags, "--records", "1").code == 2
    assert dpbayes("release", coin, *flags, "--out", "out").code == 0
    done = dpbayes("audit", "--bundle", "out", "--trials", "1000")
    assert (done.code, "claimed epsilon" in done.out) == (0, True)
    assert "Passing does not prove the guarantee" in done.err
    assert "\n\ndelta" in done.out, "the tables have a blank line between them"
    assert "\nnot attacked: " in done.out
    assert re.search(r"\b\d records? \(\w+\).*, and one \(\w+\) or \(\w+\)", done.out)
    assert dpbayes("audit", "--bundle", "out", "--eps", "2").code == 2
    monkeypatch.setattr(DiscreteLaplace, "release", halve_noise(halve_noise(DiscreteLaplace.release)))
    failed = dpbayes("audit", "--bundle", "out", "--trials", "2000", "--json")
    assert (failed.code, "the audit disproves the guarantee" in failed.err) == (7, True)
    document = json.loads(failed.out)
    assert not document["ok"]
    assert document["attacked"]["pairs_of_data_sets"] > 5
    assert any("fresh processes" in text for text in document["not_attacked"])
    assert document["model"] == "beta-bernoulli"
    assert document["guarantee"] == {"kind": "pure", "epsilon": "1", "shifts": [[["2", "1", "2"]]]}
    report = Path("out/report.md")
    report.write_text(report.read_text() + "x")
    assert dpbayes("audit", "--bundle", "out").code == 7


def test_an_interrupted_audit_does_not_speak_of_a_release(dpbayes: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Audit:
        raise Interrupted(2)

    monkeypatch.setattr(attack, "audit", interrupted)
    done = dpbayes("audit", "--model", "beta-bernoulli", "--eps", "1")
    assert done.code == 130
    assert done.err == "Error: interrupted\nHint: the findings so far are not shown; run the audit again\n"
