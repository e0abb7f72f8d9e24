"""One population, one account: another account pays for the same data only after a human's declaration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpbayes_cli.base.errors import BudgetError
from dpbayes_cli.ledger.data_names import data_names, is_same_source
from dpbayes_cli.ledger.ledger import Ledger
from tests.conftest import Cli
from tests.ledger.ledgers import charge, publish

COIN = ["--model", "beta-bernoulli", "--eps", "1"]


def test_a_file_gets_no_second_budget_by_another_account_or_another_name(dpbayes: Cli, coin: Path) -> None:
    assert dpbayes("release", coin, *COIN, "--out", "out").code == 0
    Path("soft.csv").symlink_to(coin)
    Path("hard.csv").hardlink_to(coin)
    Path("other.csv").write_bytes(coin.read_bytes())
    whole = dpbayes("budget", "export").out
    for data in (["coin.csv", "--dataset", "again"], ["soft.csv"], ["hard.csv"], ["hard.csv", "--dry-run"],
                 ["other.csv", "./soft.csv", "--dataset", "two"],
                 ["o*.csv", "coin.csv", "--dataset", "glob"]):  # fmt: skip
        refused = dpbayes("release", *data, *COIN).exits(5, "'coin' has paid for these data")
    assert "--dataset coin" in refused.err
    assert "dpbayes budget open glob --epsilon 3 --separate-population --reason TEXT" in refused.err
    assert dpbayes("budget", "export").out == whole
    assert dpbayes("release", "soft.csv", *COIN, "--dataset", "coin", "--json").json["replayed"]
    assert dpbayes("release", "other.csv", *COIN).code == 0  # a copy is not recognized


def test_an_account_opened_by_hand_needs_the_declaration_too(dpbayes: Cli, coin: Path) -> None:
    assert dpbayes("release", coin, *COIN).code == 0
    assert dpbayes("budget", "open", "early", "--eps", "2").code == 0
    dpbayes("release", coin, *COIN, "--dataset", "early").exits(5, "budget amend early --separate-population")
    assert dpbayes("budget", "amend", "early", "--separate-population").code == 2
    marked = dpbayes("budget", "amend", "early", "--separate-population", "--reason", "men only", "--json").json
    assert (marked["separate_population"], marked["budget"]) == (True, {"epsilon": "2"})
    assert dpbayes("release", coin, *COIN, "--dataset", "early").code == 0
    assert dpbayes("budget", "open", "late", "--eps", "2", "--separate-population").code == 2
    assert dpbayes("budget", "open", "late", "--eps", "2", "--reason", "women").code == 2
    assert dpbayes("budget", "open", "late", "--eps", "2", "--separate-population", "--reason", "women").code == 0
    assert dpbayes("release", coin, *COIN, "--dataset", "late").code == 0
    assert "women" in dpbayes("budget", "history", "late").out
    assert dpbayes("release", coin, *COIN, "--dataset", "coin", "--fresh").code == 0  # this account has paid before
    assert dpbayes("budget", "verify").code == 0


def test_overlapping_accounts_of_an_older_ledger_can_still_be_charged(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older versions recorded names as given, and charged any account."""
    real, link, other = tmp_path / "real.csv", tmp_path / "link.csv", tmp_path / "other.csv"
    real.touch()
    other.touch()
    link.symlink_to(real)
    with monkeypatch.context() as older:
        older.setattr("dpbayes_cli.ledger.charging.check_population", lambda *_: None)
        for account in "ab":
            publish(ledger, charge("0.1", account=account, source=str(link)))
        publish(ledger, charge("0.1", account="c", source=str(other)))
    for account in "ab":
        publish(ledger, charge("0.2", account=account, source=str(real)))
        assert ledger.reserve(charge("0.1", account=account, source=str(real))).payload
    with pytest.raises(BudgetError, match="'b' has paid for these data"):
        ledger.reserve(charge("0.2", account="c", source=f"{other}{os.pathsep}{real}"))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("postgresql://ada@db/clinic/public.t", "postgresql://bob@DB:5432/clinic/public.t", True),
        ("postgresql://[::1]/clinic/public.t", "postgresql://[::1]:5432/clinic/public.t", True),
        ("postgresql://db/clinic/public.t", "postgresql://db:5433/clinic/public.t", False),
        ("postgresql://db/clinic/public.t", "postgresql://db/clinic/ward.t", False),
        ("postgresql://db/clinic/public.t", "postgresql://db/other/public.t", False),
        ("table:lake.t", "table:lake.t", True),
        ("file:///x/a.parquet", "/x/a.parquet", True),
        ("/x/a.csv:/x/b.csv", "/x/b.csv:/x/a.csv", True),
        ("/x/a.csv:/x/b.csv", "/x/b.csv", False),
        ("-", "/dev/fd/63", False),
    ],
)
def test_sources_with_the_same_data_are_recognized(one: str, other: str, same: bool) -> None:
    assert is_same_source(one, other) is same
    assert bool(data_names(one) & data_names(other)) is (same or one.endswith("b.csv"))


def test_a_stream_belongs_to_no_account() -> None:
    assert data_names("-") == data_names("/dev/fd/63") == data_names("/proc/7/fd/3") == set()
    assert data_names("/x/a:b.csv:/x/c.csv") == {"/x/a:b.csv", "/x/c.csv"}


@pytest.mark.parametrize("named", [["--release-id", "n"], []])
def test_a_reservation_is_finished_from_its_own_source_alone(
    named: list[str], dpbayes: Cli, coin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dead(*_: object) -> bytes:
        raise ArithmeticError

    other = Path("other.csv")
    other.write_text("x\n" + "1\n" * 200)
    Path("link.csv").symlink_to(coin)
    asked = [*COIN, "--dataset", "coin", *named, "--out", "out", "--json"]
    with monkeypatch.context() as killed:
        killed.setattr("dpbayes_cli.workflow.release._draw", dead)
        assert dpbayes("release", coin, *asked).code == 1
    charged = dpbayes("budget", "export").out
    for more in ([], ["--same-data"], ["--dry-run"]):
        refused = dpbayes("release", other, *asked, *more).exits(
            5, "another source", "another --release-id" if named else "--fresh"
        )
        assert "other.csv" not in refused.err
    assert dpbayes("budget", "export").out == charged
    done = dpbayes("release", "link.csv", *asked).json
    assert (done["replayed"], done["remaining"]) == (False, {"epsilon": "2"})
    again = dpbayes("release", other, *asked, *([] if named else ["--same-data"])).json  # shown, and free
    assert (again["replayed"], again["remaining"]) == (True, {"epsilon": "2"})
