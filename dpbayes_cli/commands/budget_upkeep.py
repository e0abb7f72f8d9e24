"""``dpbayes budget backup``, ``restore``, ``recover`` and ``migrate``: maintain a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbayes_cli.commands.accounts import checked_reason, head_of
from dpbayes_cli.commands.options import ledger_option, open_ledger
from dpbayes_cli.commands.output import emit, emit_json, output_options, say, say_already_done

if TYPE_CHECKING:
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.upkeep import Salvage


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@ledger_option
@output_options
def backup(file: Path, ledger_place: str | None, as_json: bool) -> None:
    """Copy the ledger to a new FILE and verify the copy.

    Others may use the ledger meanwhile. Other ways to copy the ledger may catch it in the middle of a change. A ledger
    that does not verify, or disagrees with its anchor, is not backed up (exit 6). If FILE is already a backup of the
    whole ledger, the command does nothing; any other existing FILE is refused. Only its owner can read the backup.
    """
    from dpbayes_cli.ledger.upkeep import back_up, existing_backup

    ledger = open_ledger(ledger_place)
    known = existing_backup(ledger, file)
    state = known or back_up(ledger, file)
    if as_json:
        done = {"backup": str(file), "already_done": known is not None}
        emit_json({"ledger": ledger.location, **done, "head": head_of(state)})
    else:
        emit(f"backup {file}, entry {state.mark.sequence}, head {state.mark.hash}")
    if known:
        say_already_done()


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--reason", required=True, metavar="TEXT", help="Why, and who decided; kept in the history.")
@ledger_option
@output_options
def restore(file: Path, reason: str, ledger_place: str | None, as_json: bool) -> None:
    """Restore the ledger from the backup FILE.

    What was charged after the backup stays charged. The ledger may be damaged or missing; other commands wait
    meanwhile. The replaced file and its journal are kept beside it under a dated name. Never copy a backup over the
    ledger by hand: SQLite may write the journal of the old file into it.

    Later entries that can still be read and verified are kept. If some cannot be read, every account counts as spent
    in full until dpbayes budget amend states its total: add up the cost of all releases, from their bundles.
    """
    from dpbayes_cli.ledger.restore import restore as put_back

    checked_reason(reason, needed=True)
    ledger = open_ledger(ledger_place)
    done = put_back(ledger, file, reason)
    if as_json:
        emit_json(
            {
                "ledger": ledger.location,
                "backup": str(file),
                "already_done": done.already_done,
                "entries": done.backup.sequence,
                "taken_over": done.carried,
                "charged_again": done.charged,
                "lost": done.lost,
                "complete": done.complete,
                "head": head_of(done.state),
            }
        )
    elif done.already_done:
        emit(f"already done: the ledger was restored from this backup, head {done.state.head}")
    else:
        emit(f"restored {done.backup.sequence} entries, kept {done.carried} later ones, head {done.state.head}")
        for name in done.charged:
            emit(f"charged again: release {name}")
        for sentence in done.lost:
            emit(f"lost: {sentence}")
    if not done.complete:
        say(
            "some entries after the backup could not be read: every account counts as spent in full until "
            "dpbayes budget amend ACCOUNT --epsilon TOTAL --reason TEXT"
        )


@click.command("recover")
@click.option("--to", "target", type=click.Path(path_type=Path), metavar="FILE", help="Save what verifies to FILE.")
@ledger_option
@output_options
def recover(target: Path | None, ledger_place: str | None, as_json: bool) -> None:
    """Check the ledger after a crash and list unfinished releases.

    The exit code is 7 if the ledger is damaged. A transaction that the crash interrupted is rolled back. Unfinished
    releases stay charged; the command that began a release finishes it.

    With --to FILE, the entries of a damaged ledger up to the first one that does not verify are saved to a new file.
    Later charges that can still be read, and releases whose end is lost, are charged once more. What cannot be read is
    listed and is missing from the totals, so a recent backup is the better choice. The damaged file is not changed,
    and the new one charges nothing until dpbayes budget adopt.
    """
    from dpbayes_cli.base.errors import VerificationError
    from dpbayes_cli.ledger.rebuild import unfinished
    from dpbayes_cli.ledger.upkeep import salvage

    ledger = open_ledger(ledger_place)
    if target is not None:
        _print_salvage(ledger, target, salvage(ledger, target), as_json=as_json)
        return
    rolled_back = ledger.storage.settle()
    findings, state = ledger.findings()
    open_releases = [
        {"release_id": release.release_id, "account": account.name, "stage": release.stage, "time": release.time}
        for account, release in unfinished(state)
    ]
    if as_json:
        emit_json(
            {
                "ledger": ledger.location,
                "ok": not findings,
                "rolled_back": rolled_back,
                "unfinished": open_releases,
                "findings": findings,
                "head": head_of(state),
            }
        )
    if findings:
        raise VerificationError(
            f"the ledger {ledger.location!r} does not verify",
            findings=findings,
            hint="dpbayes budget restore BACKUP, or save what verifies: dpbayes budget recover --to FILE",
        )
    if rolled_back:
        say("rolled back an interrupted transaction, whose command had not reported success")
    if as_json:
        return
    emit(f"{state.mark.sequence} entries verified, head {state.mark.hash}")
    for each in open_releases:
        emit(
            f"unfinished: release {each['release_id']} of account {each['account']}, {each['stage']} on {each['time']}"
        )
    if open_releases:
        say("unfinished releases stay charged; to finish one, repeat the command that began it")


def _print_salvage(ledger: Ledger, target: Path, saved: Salvage, *, as_json: bool) -> None:
    if as_json:
        emit_json(
            {
                "ledger": ledger.location,
                "salvaged": str(target),
                "entries": saved.kept,
                "charged_again": saved.charged,
                "lowered": saved.tightened,
                "lost": saved.lost,
                "head": head_of(saved.state),
                "already_done": saved.already_done,
            }
        )
    else:
        emit(f"saved {saved.kept} entries to {target}, head {saved.state.mark.hash}")
        for heading, sentences in (
            ("charged again: release", saved.charged),
            ("lowered:", saved.tightened),
            ("lost:", saved.lost),
        ):
            for sentence in sentences:
                emit(f"{heading} {sentence}")
    if saved.already_done:
        say_already_done()
    say(
        f"the damaged ledger {ledger.location} was not changed; check the new one, then replace the old one by it: "
        f"dpbayes budget restore {target} --reason TEXT"
    )


@click.command("migrate")
@ledger_option
@output_options
def migrate(ledger_place: str | None, as_json: bool) -> None:
    """Convert a ledger of an older version to this version.

    A backup is kept beside it. A ledger of a newer version is refused.
    """
    ledger = open_ledger(ledger_place)
    version, kept = ledger.storage.migrate() or (None, None)
    if as_json:
        emit_json({"ledger": ledger.location, "from": version, "backup": str(kept) if kept else None})
    elif version is None:
        emit("nothing to migrate: the ledger is of this version")
    else:
        emit(f"migrated from version {version}; backup of the old ledger: {kept}")


COMMANDS = (backup, restore, recover, migrate)
