"""``dpbayes budget backup``, ``restore``, ``recover`` and ``migrate``: keep a ledger."""

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
    """Copy the ledger to FILE, while others work with it; verified, for its owner alone, never over a file.

    A copy of the file by other means may catch it in the middle of a change. A ledger that does not verify, or that
    its anchor speaks against, is not backed up (exit 6). Where FILE is a backup that holds all of the ledger, nothing
    is left to do.
    """
    from dpbayes_cli.ledger.kept_copies import existing_backup
    from dpbayes_cli.ledger.upkeep import back_up

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
    """Put the backup FILE in the ledger's place; what was charged after it stays charged.

    The ledger may be damaged or gone; others may be at work, and wait. The file that was there and its journal are kept
    beside it under a dated name. Never copy a backup into the ledger's place by hand: SQLite may play the old file's
    journal back into it.

    Entries after the backup that can still be read and verify are taken over. Where some cannot be read, every account
    counts as spent in full until dpbayes budget amend states its total: add up what was released, from the bundles.
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
        emit(f"restored {done.backup.sequence} entries, and {done.carried} after the backup, head {done.state.head}")
        for name in done.charged:
            emit(f"charged again: release {name}")
        for sentence in done.lost:
            emit(f"lost: {sentence}")
    if not done.complete:
        say(
            "what followed the backup could not all be read: every account counts as spent in full until "
            "dpbayes budget amend ACCOUNT --epsilon TOTAL --reason TEXT"
        )


@click.command("recover")
@click.option("--to", "target", type=click.Path(path_type=Path), metavar="FILE", help="Save what verifies into FILE.")
@ledger_option
@output_options
def recover(target: Path | None, ledger_place: str | None, as_json: bool) -> None:
    """After a crash: bring the ledger to rest, check it, and list what is unfinished; exit 7 if it is damaged.

    A transaction that a crash cut off is rolled back. Reservations that were not finished stay charged: the same
    release command finishes each.

    With --to FILE, what can be saved of a damaged ledger is written into a new file: all entries up to the first that
    does not verify. Charges after it that can still be read, and releases whose end is lost, are charged once more.
    What cannot be read is listed, and is not in the totals: a younger backup is the better choice. The damaged file is
    left alone, and the new one charges nothing before dpbayes budget adopt.
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
            hint="restore a backup (dpbayes budget restore), or save what verifies: dpbayes budget recover --to FILE",
        )
    if rolled_back:
        say("a transaction that was cut off was rolled back: it had not been acknowledged")
    if as_json:
        return
    emit(f"{state.mark.sequence} entries verified, head {state.mark.hash}")
    for each in open_releases:
        emit(
            f"unfinished: release {each['release_id']} of account {each['account']}, {each['stage']} on {each['time']}"
        )
    if open_releases:
        say("unfinished releases stay charged; the command that began each finishes it")


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
        emit(f"salvaged {saved.kept} entries into {target}, head {saved.state.mark.hash}")
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
        f"the damaged ledger {ledger.location} is as it was; look at the new one, then put it in its place: "
        f"dpbayes budget restore {target} --reason TEXT"
    )


@click.command("migrate")
@ledger_option
@output_options
def migrate(ledger_place: str | None, as_json: bool) -> None:
    """Bring a ledger of an older version to this one's, after a backup beside it; a newer one is refused."""
    ledger = open_ledger(ledger_place)
    done = ledger.storage.migrate()
    if as_json:
        version, kept = done or (None, None)
        emit_json({"ledger": ledger.location, "from": version, "backup": str(kept) if kept else None})
    elif done is None:
        emit("nothing to migrate: the ledger is of this version")
    else:
        emit(f"migrated from version {done[0]}; as it was before: {done[1]}")


COMMANDS = (backup, restore, recover, migrate)
