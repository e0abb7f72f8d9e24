"""A model, mechanism or noise law is one file and a registry line, or a plug-in; it passes the conformance battery."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from decimal import Decimal
from pathlib import Path

import pytest

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.registry import plug_ins_of
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.privacy.laws.part_noise import PartNoise
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import ROOT
from tests.plans import plan_of
from tests.plugins.gaussian_delta import GaussianDelta
from tests.plugins.staircase import Staircase

PLUGINS = ROOT / "tests" / "plugins"
NAME = "beta-negative-binomial"
ADDED_MODEL = [("MODELS", NAME, "models.beta_negative_binomial:BetaNegativeBinomial")]
STAIRCASE = [
    ("NOISE_LAWS", "staircase", "privacy.laws.staircase:Staircase"),
    ("MECHANISMS", "staircase-noise", "mechanisms.staircase_noise:StaircaseNoise"),
]
GAUSSIAN_DELTA = [("MECHANISMS", "gaussian-delta", "mechanisms.gaussian_delta:GaussianDelta")]
BATTERY = "tests/test_conformance.py"
COIN = ("--model", "beta-bernoulli", "--success", "1", "--failure", "0", "--on-invalid", "impute:0")


def copy_with(additions: list[tuple[str, str, str]], target: Path) -> Path:
    """Copy package and tests, and add files: for each its table in the registry, its name, and its class."""
    for name in ("dpbayes_cli", "tests", "sample_data", "configs"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", target)
    registry = target / "dpbayes_cli" / "core" / "registry.py"
    for table, name, subject in additions:
        *folders, file = subject.split(":")[0].split(".")
        shutil.copy(PLUGINS / f"{file}.py", target.joinpath("dpbayes_cli", *folders))
        head = f"{table}: Mapping[str, str] = MappingProxyType(\n    {{\n"
        source = registry.read_text(encoding="utf-8")
        assert source.count(head) == 1
        line = f'        "{name}": "dpbayes_cli.{subject}",\n'
        registry.write_text(source.replace(head, head + line), encoding="utf-8")
    return target


def run(directory: Path, *arguments: str, path: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=directory, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200", "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return done.stdout


def passed(directory: Path, *arguments: str, path: str = "") -> int:
    """Run tests in another process, which must all pass, and return their number."""
    output = run(directory, "pytest", "-x", "-o", "addopts=", "-p", "no:cacheprovider", *arguments, path=path)
    counted = re.search(r"(\d+) (?:passed|tests collected)", output)
    assert counted, output[-3000:]
    return int(counted.group(1))


def battery(directory: Path, name: str) -> int:
    return passed(directory, "-m", "not benchmark", "-k", name, BATTERY, "tests/privacy/test_laws.py")


@pytest.mark.slow
def test_a_staircase_law_passes_the_battery_and_the_audit(tmp_path: Path) -> None:
    copy = copy_with(STAIRCASE, tmp_path)
    assert battery(copy, "staircase") > 0
    output = run(copy, "dpbayes_cli", "audit", *COIN, "--mechanism", "staircase-noise", "--eps", "1")
    assert "draws of staircase noise" in output
    (copy / "data.csv").write_text("outcome\n" + "1\n0\n0\n" * 100, encoding="utf-8")
    priced = ("--mechanism", "staircase-noise", "--eps", "1", "--ledger", "ledger.sqlite", "--out", "out")
    run(copy, "dpbayes_cli", "release", "data.csv", *COIN, *priced)
    assert '"law": "staircase"' in (copy / "out" / "release.json").read_text(encoding="utf-8")
    run(copy, "dpbayes_cli", "verify", "out", "--ledger", "ledger.sqlite")
    run(copy, "dpbayes_cli", "report", "out")


@pytest.mark.slow
def test_gaussian_noise_at_a_cost_of_epsilon_and_delta_passes_the_battery_and_the_audit(tmp_path: Path) -> None:
    copy = copy_with(GAUSSIAN_DELTA, tmp_path)
    assert battery(copy, "gaussian-delta") > 0
    priced = ("--mechanism", "gaussian-delta", "--eps", "1", "--delta", "1e-6")
    assert "draws of discrete-gaussian noise" in run(copy, "dpbayes_cli", "audit", *COIN, *priced)


@pytest.mark.slow
def test_a_model_is_one_file_and_one_registry_line(tmp_path: Path) -> None:
    """The whole battery, its first spec, every pair of neighbors of its draws, and an audit of its Renyi curve."""
    copy = copy_with(ADDED_MODEL, tmp_path)
    more = ("tests/spec/test_release_spec.py", "tests/mechanisms/test_ops.py", "tests/mechanisms/test_map.py")
    assert passed(copy, BATTERY, *more, "-k", NAME) > 55
    audits = "tests/audit/test_attack.py::test_every_pair_passes_an_audit_by_default"
    assert passed(copy, audits, "-k", f"{NAME} and rdp-direct") == 1


# --- plug-ins --------------------------------------------------------------------------------------------------------

MECHANISM = '''
"""A mechanism that somebody else wrote."""

from typing import ClassVar

from dpbayes_cli.mechanisms.laplace import Laplace


class Lent(Laplace):
    """Add discrete Laplace noise.

    Privacy: that of ``Laplace``.
    Source: see there.
    """

    name: ClassVar[str] = "lent-laplace"
'''
ENTRY_POINTS = f"""[dpbayes.models]
{NAME} = beta_negative_binomial:BetaNegativeBinomial
[dpbayes.mechanisms]
lent-laplace = lent:Lent
"""


@pytest.fixture
def site(tmp_path: Path) -> str:
    """Return a directory of installed packages with the model and a mechanism."""
    metadata = tmp_path / "lent-1.0.dist-info"
    metadata.mkdir()
    shutil.copy(PLUGINS / "beta_negative_binomial.py", tmp_path)
    (tmp_path / "lent.py").write_text(MECHANISM, encoding="utf-8")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: lent\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
    return str(tmp_path)


@pytest.mark.slow
def test_the_tests_are_collected_with_plug_ins_and_their_battery_passes(site: str) -> None:
    assert passed(ROOT, "--collect-only", path=site) > 2000
    assert passed(ROOT, BATTERY, "-k", f"{NAME} or lent-laplace", path=site) > 65


CONTRIBUTING = (ROOT / "docs" / "CONTRIBUTING.md").read_text(encoding="utf-8")


def install_example(site: Path, renamed: dict[str, str] | None = None) -> str:
    """Install the package of the contributing page in a directory; some of its entry points may have other names."""
    project = tomllib.loads(str(re.findall(r"^```toml\n(.*?)^```$", CONTRIBUTING, re.S | re.M)[0]))
    metadata = site / "dpbayes_staircase-1.0.dist-info"
    metadata.mkdir(parents=True)
    for name in project["tool"]["setuptools"]["py-modules"]:
        shutil.copy(PLUGINS / f"{name}.py", site)
    lines = []
    for group, points in project["project"]["entry-points"].items():
        lines += [f"[{group}]", *(f"{(renamed or {}).get(name, name)} = {place}" for name, place in points.items())]
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: dpbayes-staircase\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return str(site)


def failed(directory: Path, *arguments: str, path: str = "") -> tuple[int, str]:
    """Run the command line in another process; return its exit code and its messages in one line."""
    done = subprocess.run(
        [sys.executable, "-m", "dpbayes_cli", *arguments], cwd=directory, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{path}"},
    )  # fmt: skip
    return done.returncode, " ".join(done.stderr.split())


def test_a_plug_in_of_another_name_than_its_class_is_refused_with_the_remedy(tmp_path: Path) -> None:
    wrong_mechanism = install_example(tmp_path / "a", {"staircase-noise": "stairs"})
    code, said = failed(tmp_path, "mechanisms", path=wrong_mechanism)
    assert (code, "name the entry point staircase-noise" in said) == (3, True), said
    wrong_law = install_example(tmp_path / "b", {"staircase": "staircase-noise"})
    program = "from dpbayes_cli.core.registry import noise_law_type; noise_law_type('staircase-noise')"
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": f"{ROOT}:{wrong_law}"},
                          cwd=tmp_path, capture_output=True, text=True, check=False)  # fmt: skip
    assert "Staircase.kind is 'staircase'" in done.stderr


def test_a_plug_in_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    site = install_example(tmp_path / "site")
    (tmp_path / "site" / "staircase_noise.py").write_text("import there_is_no_such_module\n")
    code, said = failed(tmp_path, "models", path=site)
    assert (code, "'dpbayes-staircase'" in said, "uninstall" in said) == (3, True, True), said


def test_packages_of_plug_ins_are_named(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(site)
    assert plug_ins_of("beta-bernoulli", "laplace", "discrete-laplace") == {}
    parts = [f"the model {NAME}", "the mechanism lent-laplace"]
    assert plug_ins_of(NAME, "lent-laplace", "discrete-laplace") == {("lent", "1.0"): parts}


@pytest.mark.slow
def test_the_release_of_a_plug_in_verifies_only_where_the_plug_in_is_installed(tmp_path: Path, site: str) -> None:
    work = tmp_path / "custodian"
    work.mkdir()
    (work / "data.csv").write_text("outcome\n" + "1\n0\n0\n" * 100, encoding="utf-8")
    for mechanism, path in (("lent-laplace", site), ("staircase-noise", install_example(tmp_path / "example"))):
        request = ("data.csv", *COIN, "--mechanism", mechanism, "--eps", "1")
        assert failed(work, "release", *request, "--ledger", "l.sqlite", "--out", mechanism, path=path)[0] == 0
        assert failed(work, "verify", mechanism, "--ledger", "l.sqlite", path=path)[0] == 0
        release = work / mechanism / "release.json"
        stated = json.loads(release.read_bytes())
        package = {"lent-laplace": "lent", "staircase-noise": "dpbayes-staircase"}[mechanism]
        assert stated["software"].pop(package) == "1.0"
        (sentence,) = (text for text in stated["assumptions"] if f"{package} 1.0" in text)
        assert f"the mechanism {mechanism}" in sentence
        assert ("the noise law staircase" in sentence) == (mechanism == "staircase-noise")
        stated["assumptions"].remove(sentence)
        kept = release.read_bytes()
        for version, expected in ((stated["software"]["dpbayes"], 7), ("0.3.0", 0)):  # 0.3 did not name it
            stated["software"]["dpbayes"] = version
            release.write_text(json.dumps(stated, indent=2, ensure_ascii=False) + "\n")
            code, said = failed(work, "verify", mechanism, "--no-ledger", path=path)
            assert (code, "the list of packages differs" in said) == (expected, expected == 7), said
        release.write_bytes(kept)
        code, said = failed(work, "verify", mechanism, "--ledger", "l.sqlite")
        assert (code, "install that package" in said) == (7, True), said
    program = "import dpbayes_cli as dpb; print(dpb.mechanisms.StaircaseNoise(epsilon=1).name, dir(dpb.mechanisms))"
    listed = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": f"{ROOT}:{path}"},
                            cwd=work, capture_output=True, text=True, check=True)  # fmt: skip
    assert listed.stdout.startswith("staircase-noise")
    assert "'StaircaseNoise'" in listed.stdout


# --- laws and costs that others add ---------------------------------------------------------------------------------


def test_the_cost_of_epsilon_and_delta_is_what_is_charged() -> None:
    coin, policy = BetaBernoulli("1", "0", 1.0, 1.0), RecordPolicy(Neighbors.REPLACE_ONE, "0")
    plan = plan_of(GaussianDelta(), coin, policy, Decimal("0.5"), delta=Decimal("1e-6"))
    assert (plan.guarantee.epsilon, plan.guarantee.delta) == (Decimal("0.5"), Decimal("1e-6"))
    spent = plan.final_step.noise.privacy([(1,)]).statement(Decimal("1e-6"))
    assert Decimal("0.45") < spent.epsilon <= Decimal("0.5")


def test_parts_of_staircases_are_stored_with_what_determines_them() -> None:
    stored = PartNoise(Staircase.examples()[1:], (1, 2)).serialize()
    assert (stored["scale"], stored["parameters"]["sizes"], len(stored["parameters"]["parts"])) == (None, [1, 2], 2)
