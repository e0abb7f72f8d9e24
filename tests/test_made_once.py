"""A command parses a spec, builds its model, plans it and opens its data only once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dpbayes_cli.mechanisms.laplace import Laplace
from dpbayes_cli.mechanisms.ops import Ops
from dpbayes_cli.models.bayes_net import BayesNet
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.models.gamma_exponential import GammaExponential
from dpbayes_cli.sources.delimited import DelimitedSource
from dpbayes_cli.spec import release_spec
from tests.conftest import Cli

COIN = ["--model", "beta-bernoulli", "--eps", "1"]
PARTS = ("specs", "models", "plans", "sources", "openings", "closed")
ONCE = (1, 1, 1, 1, 1, 1)


@contextmanager
def counting() -> Iterator[Callable[[], tuple[int, ...]]]:
    """Count what is made; yield a function that returns how often each of ``PARTS`` was made."""
    counts: Counter[str] = Counter()

    def counted(patch: pytest.MonkeyPatch, owner: Any, name: str, what: str) -> None:
        original = getattr(owner, name)

        def around(*arguments: Any, **named: Any) -> Any:
            counts[what] += 1
            return original(*arguments, **named)

        patch.setattr(owner, name, around)

    with pytest.MonkeyPatch.context() as patch:
        counted(patch, release_spec, "convert_section", "specs")
        for model in (BetaBernoulli, GammaExponential, BayesNet):
            counted(patch, model, "build", "models")
        for mechanism in (Laplace, Ops):
            counted(patch, mechanism, "plan", "plans")
        counted(patch, DelimitedSource, "__init__", "sources")
        counted(patch, DelimitedSource, "check", "openings")
        counted(patch, DelimitedSource, "close", "closed")
        yield lambda: tuple(min(counts[part], 1) if part == "closed" else counts[part] for part in PARTS)


@pytest.fixture
def made(dpbayes: Cli) -> Callable[..., tuple[int, ...]]:
    """Run a command that must end well; return how often it made each of ``PARTS``."""

    def run(*arguments: str | Path, code: int = 0) -> tuple[int, ...]:
        with counting() as counts:
            done = dpbayes(*arguments)
            assert done.code == code, done.err
            return counts()

    return run


def test_a_release_makes_everything_once(made: Callable[..., tuple[int, ...]], coin: Path) -> None:
    draw = ["--mechanism", "ops", "--on-invalid", "impute:0"]  # its plan rests on the number of records
    assert made("release", coin, *COIN, "--dry-run") == ONCE
    assert made("release", coin, *COIN, "--out", "out") == ONCE
    assert made("release", coin, *COIN, *draw, "--dry-run") == ONCE
    assert made("release", coin, *COIN, *draw, "--out", "draws") == ONCE
    assert made("release", coin, *COIN, "--out", "out") == (1, 1, 1, 0, 0, 0)  # from the ledger, data unopened
    assert made("release", coin, *COIN, *draw, "--out", "draws") == (1, 1, 1, 0, 0, 0)
    assert made("release", coin, *COIN, "--out", "again") == (1, 1, 1, 0, 0, 0)


def test_a_release_that_is_refused_closes_what_it_counted(made: Callable[..., tuple[int, ...]], coin: Path) -> None:
    draw = ["--mechanism", "ops", "--on-invalid", "impute:0", "--draws", "10000"]
    dear = ["--model", "beta-bernoulli", "--mechanism", "ops", "--on-invalid", "impute:0", "--eps", "100"]
    assert made("release", coin, *COIN, *draw, "--support", "0.9,0.1", code=3)[-2:] == (1, 1)
    assert made("release", coin, *dear, code=5)[-2:] == (1, 1)


def test_private_bounds_make_a_second_model(made: Callable[..., tuple[int, ...]]) -> None:
    """One model has the whole range and one the drawn bounds; a third prices the narrowest bounds before the charge."""
    asked = ["--model", "gamma-exponential", "--column", "months", "--eps", "1"]
    asked += ["--bounds-epsilon", "0.5", "--bounds-high", "100", "--samples", "100", "--on-invalid", "impute:5"]
    Path("months.csv").write_text("months\n" + "".join(f"{k % 17}\n" for k in range(6000)), encoding="ascii")
    assert made("release", "months.csv", *asked, "--out", "out") == (2, 3, 3, 1, 1, 1)  # the former default, too
    assert made("verify", "out") == (1, 3, 3, 0, 0, 0)


NETWORK = """
model: bayes-net
privacy: {epsilon: 1}
domain: {variables: {x: {values: ['0', '1'], impute: '0'}, y: {values: ['0', '1'], impute: '0', parents: [x]}}}
inference: {samples: 200}
"""


def test_a_bundle_is_parsed_and_built_once(made: Callable[..., tuple[int, ...]]) -> None:
    Path("net.yaml").write_text(NETWORK, encoding="utf-8")
    Path("net.csv").write_text("x,y\n" + "1,0\n" * 50 + "0,1\n" * 50, encoding="ascii")
    assert made("release", "net.csv", "--spec", "net.yaml", "--out", "out") == ONCE
    priced, plain = (1, 1, 1, 0, 0, 0), (1, 1, 0, 0, 0, 0)
    assert made("verify", "out") == priced
    assert made("report", "out", "--format", "html") == priced
    assert made("report", "out", "--format", "svg", "--out", "figures") == priced
    assert made("report", "out") == plain
    assert made("infer", "out", "--out", "inferred") == plain
    assert made("predict", "out", "net.csv", "--target", "y") == (1, 1, 0, 1, 1, 1)
    assert made("evaluate", "out", "net.csv", "--target", "y") == (1, 1, 0, 1, 1, 1)
    assert made("infer", "out", "--prior", "concentration=2") == (2, 2, 0, 0, 0, 0)  # another prior: another spec
