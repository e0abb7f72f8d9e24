"""Old names: refused with the new one, rewritten by ``spec migrate``, and kept in what identifies a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.bundle.document import parse_document
from dpbayes_cli.core import registry
from dpbayes_cli.core.options import NumberOfDraws
from dpbayes_cli.core.registry import supported_pairs
from dpbayes_cli.core.section import Section
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.mechanisms.ops import Ops, OpsRangeOptions
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.spec import version_1
from dpbayes_cli.spec.migrate import migrate_text
from dpbayes_cli.spec.pair_flags import all_flags
from dpbayes_cli.spec.release_spec import build_spec, spec_type
from dpbayes_cli.spec.stored_spec import stored_spec
from dpbayes_cli.spec.version_1 import RENAMED, RENAMED_FLAGS, find_renamed_keys, with_former_names, with_todays_names
from dpbayes_cli.spec.yaml_reader import parse_spec
from tests.conftest import Cli
from tests.version_1.kept import DATA, PUBLISHED, SPECS, todays_spec

OLD_KEYS = [(section, old, new) for section, names in RENAMED.items() for old, new in names.items()]
COIN: dict[str, Any] = {"model": "beta-bernoulli", "privacy": {"epsilon": "1"}}


@pytest.mark.parametrize(("section", "old", "new"), OLD_KEYS)
def test_an_old_key_is_refused_with_its_new_name(section: str, old: str, new: str) -> None:
    with pytest.raises(SpecError, match="renamed") as error:
        build_spec({**COIN, section: {old: "1"}})
    assert error.value.where == f"{section}.{old}"
    assert f"write {section}.{new}," in error.value.hint
    assert "dpbayes spec migrate" in error.value.hint


def test_an_old_flag_is_refused_with_its_new_name(dpbayes: Cli) -> None:
    known = {name for each in all_flags() for name in each.flag.names}
    assert set(RENAMED_FLAGS.values()) <= known
    assert not RENAMED_FLAGS.keys() & known
    for old, new in RENAMED_FLAGS.items():
        done = dpbayes("plan", "--model", "logistic-regression", old, "1")
        assert (done.code, f"{old!r}. It was renamed: write {new}." in done.err) == (2, True)
    assert "write --mcmc-sweeps" in dpbayes("infer", "out", "--chain-sweeps", "60").err


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_is_migrated_line_by_line(name: str) -> None:
    before = (DATA / f"{name}.yaml").read_text(encoding="utf-8")
    after, renamed = migrate_text(before)
    for key in renamed:  # and back again
        after = after.replace(key.new, key.old, 1)
    assert after == before
    assert bool(renamed) == (name not in {"laplace", "minami", "network"})
    assert migrate_text(todays_spec(name)) == (todays_spec(name), [])
    assert with_todays_names(parse_spec(before)) == parse_spec(todays_spec(name))
    build_spec(parse_spec(todays_spec(name)))


def test_comments_quotes_and_line_ends_are_kept_and_values_are_not_taken_for_keys() -> None:
    text = "# temper: é\r\nsampling: {'temper': joint, ? \"steps\" : 3} # steps\r\n"
    text += "domain:\r\n  temper: {steps: [step]}\r\n"
    new = text.replace("{'temper'", "{'power_applies_to'").replace('"steps"', '"n_steps"')
    assert migrate_text(text)[0] == new
    both = "sampling: {steps: 3, n_steps: 3}"
    with pytest.raises(SpecError, match="n_steps is stated too"):
        migrate_text(both)


def test_a_file_is_migrated_to_stdout_or_beside(dpbayes: Cli) -> None:
    Path("old.yaml").write_text((DATA / "ops.yaml").read_text() + "source: {}\n".replace("source", "# source"))
    shown = dpbayes("spec", "migrate", "old.yaml")
    assert (shown.code, shown.err) == (0, "renamed sampling.temper to sampling.power_applies_to\n")
    assert dpbayes("spec", "migrate", "old.yaml", "--out", "new.yaml").out == ""
    assert Path("new.yaml").read_text() == shown.out
    assert dpbayes("spec", "check", "new.yaml").code == 0
    assert dpbayes("spec", "migrate", "old.yaml", "--out", "new.yaml").code == 8
    again = dpbayes("spec", "migrate", "new.yaml")
    assert (again.out, again.err) == (shown.out, "nothing to rename\n")
    Path("foreign.yaml").write_text("model: beta-bernoulli\nsampling: {steps: 3}\n")
    assert "warning: sampling.n_steps is not used" in dpbayes("spec", "migrate", "foreign.yaml").err


def test_names_of_plug_ins_are_their_own() -> None:
    own = {"model": "staircase", "mechanism": "staircase", "sampling": {"step": 1}, "inference": {"sweeps": 2}}
    assert with_todays_names(own) == with_former_names(own) == own
    assert with_todays_names({**own, "model": "hmm"})["inference"] == {"mcmc_sweeps": 2}


def test_a_default_mechanism_that_is_a_plug_in_keeps_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"own-coin": "dpbayes_cli.models.beta_bernoulli:BetaBernoulli"}
    monkeypatch.setattr(registry, "MODELS", {**registry.MODELS, **own})
    text = "model: own-coin\nsampling: {step: 1}\n"
    assert migrate_text(text)[0] == text.replace("step", "step_size")
    monkeypatch.setattr(BetaBernoulli, "default_mechanism", "staircase")
    assert migrate_text(text) == (text, [])
    assert not [*find_renamed_keys(parse_spec(text))]


def test_an_old_name_in_a_stored_spec_of_today_is_refused() -> None:
    """Else it would be taken for an option that was ignored, and give this spec the digest of another request."""
    spec = build_spec({**COIN, "mechanism": "ops", "on_invalid": "impute:0"})
    full = spec.stated_in_full
    assert stored_spec(full) == spec
    with pytest.raises(SpecError, match="renamed"):
        stored_spec({**full, "sampling": {**full["sampling"], "temper": "joint"}})


def test_what_a_ledger_of_version_1_knows_a_request_by_is_what_it_is_known_by_today(ledger_path: Path) -> None:
    ledger_path.write_bytes((DATA / "ledger.sqlite").read_bytes())
    ledger_path.chmod(0o600)
    entries = Ledger(SqliteStorage(ledger_path)).entries()
    known = {entry.fields["request_digest"] for entry in entries if "request_digest" in entry.fields}
    specs = {name: build_spec(parse_spec(todays_spec(name))) for name in SPECS}
    assert {spec.request_digest for spec in specs.values()} == known
    for name in PUBLISHED:
        document = parse_document((DATA / name / "release.json").read_bytes())
        assert build_spec(document.spec).request_digest == specs[name].request_digest


def test_every_default_has_an_entry_in_the_table_of_version_1() -> None:
    """A key that comes later gets its entry when it is introduced."""
    for model, mechanism in supported_pairs():
        table = version_1._table()
        own = table["models"].get(model.name, {}), table["mechanisms"].get(mechanism.name, {})
        choices = ["bounds"] * bool(model.bound_keys) + ["structure"] * (
            model.has_private_trees and mechanism.takes_private_trees()
        )
        for private in ("", *choices) if mechanism.takes_private_trees() else ("",):
            keys = set(keys_with_defaults(spec_type(model.name, mechanism.name, private=private)))
            missing = keys - {"mechanism"} - table["common"].keys() - own[0].keys() - own[1].keys()
            assert not missing, "add them, by their names in version 1, to spec/version_1_defaults.json"


def keys_with_defaults(kind: type[msgspec.Struct], place: str = "") -> list[str]:
    """Return the dotted keys of a type that have a default, with the names of version 1."""
    former = {new: old for old, new in RENAMED.get(place, {}).items()}
    keys = []
    for item in msgspec.structs.fields(kind):
        key = f"{place}.{former.get(item.name, item.name)}".lstrip(".")
        keys += [] if item.required else [key]
        for part in sections_in(item.type):
            keys += keys_with_defaults(part, key)
    return keys


def sections_in(annotation: Any) -> list[type[Section]]:
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, Section) else []
    inner = getattr(annotation, "__origin__", None)
    if inner in {dict, tuple, list}:
        return []  # written in full
    return [part for each in getattr(annotation, "__args__", ()) for part in sections_in(each)]


def digests(**stated: Any) -> tuple[str, str]:
    spec = build_spec({**COIN, **stated})
    return spec.request_digest, spec.question_digest


def test_another_default_changes_no_request_that_states_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a prior and of an option: the old value keeps its id, and what leaves it open asks something else now."""
    drawn: dict[str, Any] = {"mechanism": "ops", "on_invalid": "impute:0"}
    before, of_draws = digests(), digests(**drawn)
    assert digests(prior={"alpha": "2"}) != before
    two = digests(prior={"alpha": "2"}), digests(**drawn, sampling={"draws": "2"})
    flatter = msgspec.defstruct(
        "FlatterPrior", [("alpha", float, 2.0)], bases=(BetaBernoulli.prior_type,), frozen=True, kw_only=True
    )
    options = msgspec.defstruct(
        "TwoDraws", [("draws", NumberOfDraws, 2)], bases=(OpsRangeOptions,), frozen=True, kw_only=True
    )
    monkeypatch.setattr(BetaBernoulli, "prior_type", flatter)
    monkeypatch.setattr(Ops, "options_for", classmethod(lambda cls, model: options))
    spec_type.cache_clear()
    try:
        assert digests(prior={"alpha": "1"}) == before
        assert (digests(), digests(**drawn, prior={"alpha": "1"})) == (two[0], two[1])
        assert digests(**drawn, prior={"alpha": "1"}, sampling={"draws": "1"}) == of_draws
    finally:
        monkeypatch.undo()
        spec_type.cache_clear()
