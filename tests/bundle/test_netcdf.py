from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import h5netcdf
import numpy as np
import pytest

from dpbayes_cli.bundle.read import analysis_of, read_bundle
from dpbayes_cli.bundle.samples import by_chain, elements_by_variable
from tests.conftest import SAMPLE_DATA, Cli

LEVELS = ["--model", "dirichlet-categorical", "--eps", "1", "--categories", "0,1,two [2],<é>"]
NETCDF = ["--samples-format", "netcdf", "--out", "out"]


def opened(path: str) -> Any:
    with warnings.catch_warnings():  # deprecation warnings of the library
        warnings.simplefilter("ignore")
        import arviz

        return arviz.from_netcdf(path)


def summary(data: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

        return arviz.summary(data, round_to="none")


@pytest.fixture
def only_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Infer from every observation by a Markov chain, which otherwise only large ones need."""
    monkeypatch.setattr("dpbayes_cli.inference.counts.infer_counts.affordable_draws", lambda *_: 0)


def test_arviz_reads_what_was_released(dpbayes: Cli) -> None:
    assert dpbayes("release", SAMPLE_DATA / "relapse.csv", *LEVELS, *NETCDF).code == 0
    bundle = read_bundle(Path("out"))
    document = bundle.document
    posterior = opened("out/samples.nc").posterior
    assert list(posterior.data_vars) == ["theta"]
    assert posterior["theta"].dims == ("chain", "draw", "theta_label")
    assert posterior["theta"].shape == (4, 1000, 4)
    assert list(posterior["theta_label"].values) == ["0", "1", "two [2]", "<é>"]
    flat = posterior["theta"].values.reshape(-1, 4)
    assert np.array_equal(flat, analysis_of(bundle).samples)
    assert posterior.attrs["release_id"] == document.release_id
    assert posterior.attrs["model"] == "dirichlet-categorical"
    assert posterior.attrs["mechanism"] == "laplace"
    assert posterior.attrs["guarantee"] == "epsilon 1, delta 0 (replace-one neighbors)"
    assert posterior.attrs["method"] == f"noise-aware: {document.inference.how}"
    assert posterior.attrs["inference_library"] == "dpbayes"
    assert "samples.nc" in Path("out/report.md").read_text()


def test_netcdf_keeps_markov_chains_whole(dpbayes: Cli, only_chains: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbayes_cli.inference.chains._MAX_LENGTHS", 1)
    easy = ["--samples", "600", "--prior", "concentration=20", "--on-invalid", "impute:0"]
    assert dpbayes("release", SAMPLE_DATA / "relapse.csv", *LEVELS, *NETCDF, *easy).code == 0
    bundle = read_bundle(Path("out"))
    document = bundle.document
    assert "Markov chains" in document.inference.how
    table = summary(opened("out/samples.nc"))
    assert list(table.index) == ["theta[0]", "theta[1]", "theta[two [2]]", "theta[<é>]"]
    assert (table["r_hat"] < 1.05).all()
    assert (table["ess_bulk"] > 100).all()
    analysis = analysis_of(bundle)
    assert analysis.chains is not None
    assert (len(analysis.chains), analysis.chains.shape[2]) == (32, 4)
    for place, name in enumerate(document.posterior):
        assert table["mean"].iloc[place] == pytest.approx(analysis.chains[:, :, place].mean())
        assert name == table.index[place]
    assert np.array_equal(analysis.samples[:64:2], np.concatenate([analysis.chains[::2, 0], analysis.chains[::2, 1]]))


def test_independent_samples_are_cut_into_four_equal_chains_if_possible(dpbayes: Cli) -> None:
    coin = ["--model", "beta-bernoulli", "--eps", "1", "--samples-format", "netcdf"]
    for samples, shape in ((15, (1, 15)), (16, (4, 4))):
        asked = [*coin, "--samples", str(samples), "--out", str(samples), "--fresh"]
        assert dpbayes("release", SAMPLE_DATA / "relapse.csv", *asked).code == 0
        with h5netcdf.File(Path(str(samples), "samples.nc")) as file:
            theta = file["posterior"]["theta"]
            assert (theta.dimensions, theta.shape) == (("chain", "draw"), shape)
        assert by_chain(analysis_of(read_bundle(Path(str(samples))))).shape == (*shape, 1)


def test_netcdf_of_the_same_release_has_the_same_bytes(dpbayes: Cli) -> None:
    request = ["release", SAMPLE_DATA / "relapse.csv", *LEVELS, "--samples-format", "netcdf", "--out"]
    assert dpbayes(*request, "out").code == 0
    again = dpbayes(*request, "again").exits(0)
    assert "other software versions" not in again.err
    assert Path("out/samples.nc").read_bytes() == Path("again/samples.nc").read_bytes()
    assert dpbayes(*request, "out").code == 0


def test_infer_writes_netcdf_with_its_method(dpbayes: Cli) -> None:
    dpbayes("release", SAMPLE_DATA / "relapse.csv", *LEVELS, "--out", "out")
    arguments = ["--samples-format", "netcdf", "--inference", "naive", "--out", "again"]
    assert dpbayes("infer", "out", *arguments).code == 0
    with h5netcdf.File("again/samples.nc") as file:
        assert str(file["posterior"].attrs["method"]).startswith("naive: ")


@pytest.mark.parametrize("missing", ["h5netcdf", "h5py"])
def test_missing_netcdf_library_is_refused_before_the_charge(
    missing: str, dpbayes: Cli, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dpbayes("release", SAMPLE_DATA / "relapse.csv", *LEVELS, "--out", "before")
    before = ledger_path.read_bytes()
    monkeypatch.setattr("dpbayes_cli.bundle.samples.find_spec", lambda name: None if name == missing else object())
    for command in (["release", SAMPLE_DATA / "relapse.csv", "--fresh", *LEVELS], ["infer", "before"]):
        dpbayes(*command, *NETCDF).exits(
            3, f"inference.format: netcdf needs {missing}, which is not installed", "pip install 'dpbayes[arviz]'"
        )
    assert ledger_path.read_bytes() == before
    assert not Path("out").exists()


def test_elements_are_grouped_by_variable() -> None:
    names = ["mean", "theta[a]", "sd", "theta[b[0]]"]
    assert elements_by_variable(names) == {"mean": [(None, 0)], "theta": [("a", 1), ("b[0]", 3)], "sd": [(None, 2)]}
    with pytest.raises(ValueError, match="both"):
        elements_by_variable(["a", "a[1]"])


def test_writing_netcdf_loads_neither_arviz_nor_plotting() -> None:
    request = ["release", str(SAMPLE_DATA / "relapse.csv"), *LEVELS, *NETCDF, "-q"]
    script = (
        f"import sys; sys.argv = ['dpbayes', *{request!r}]\n"
        "from dpbayes_cli.main import run\n"
        "try: run()\n"
        "finally: print([m for m in ('arviz', 'xarray', 'pandas', 'matplotlib', 'scipy') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    assert Path("out/samples.nc").exists()


def test_a_full_disk_is_an_output_error(dpbayes: Cli) -> None:
    dpbayes("release", SAMPLE_DATA / "relapse.csv", "--model", "beta-bernoulli", "--eps", "1", "--out", "small")
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        f"sys.argv = ['dpbayes', 'infer', 'small', '--samples', '40000', *{NETCDF!r}]\n"
        "from dpbayes_cli.main import run; run()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (8, "")
    assert "Error: cannot write 'out': File too large" in done.stderr
    assert not Path("out").exists()
