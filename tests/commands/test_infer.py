"""``dpbayes infer``: another posterior from a bundle, free and repeatable."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Cli, files_of

COIN = ["--model", "beta-bernoulli", "--eps", "1"]


def test_infer_is_free_and_repeatable(dpbayes: Cli, coin: Path, ledger_path: Path) -> None:
    dpbayes("release", coin, *COIN, "--out", "out")
    before = ledger_path.read_bytes(), files_of("out")
    coin.unlink()
    options = ["--samples", "500", "--prior", "alpha=20,beta=50", "--seed", "3"]
    first, again = (dpbayes("infer", "out", *options, "--out", out, "--json").json for out in ("i1", "i2"))
    assert first["posterior"] == again["posterior"]
    assert first["prior"] == {"alpha": 20.0, "beta": 50.0}
    assert Path("i1/samples.parquet").read_bytes() == Path("i2/samples.parquet").read_bytes()
    assert dpbayes("infer", "out", "--seed", "4", "--json").json["posterior"] != first["posterior"]
    assert dpbayes("infer", "out", "--inference", "naive").out.count("WARNING") == 1
    released = json.loads(Path("out/release.json").read_text())["posterior"]
    assert dpbayes("infer", "out", "--json").json["posterior"] == released
    dpbayes("infer", "out", "--more").exits(2, "leave --more out")
    for out in ("out", "out/again"):
        assert dpbayes("infer", "out", "--out", out).code == 8
    assert (ledger_path.read_bytes(), files_of("out")) == before
