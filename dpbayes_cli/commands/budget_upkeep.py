"""``dpbayes budget backup``, ``restore``, ``recover`` and ``migrate``: maintain a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbayes_cli.base.errors import VerificationError
from dpbayes_cli.commands.accounts import head_of
from dpbayes_cli.commands.options import PATH, ledger_options, open_ledger, reason_option
from dpbayes_cli.commands.output import emit, emit_json, emit_result, say, say_already_done

if TYPE_CHECKING:
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.upkeep import Salvage


@click.command("backup")
@click.argument("file", type=PATH)
@ledger_options
def backup(file: Path, ledger_place: str | None, as_json: bool) -> None:
    """Copy the ledger to a new FILE and verify the copy.

    The ledger may be in use meanwhile; cp could copy it in the middle of a change. A ledger that does not verify, or
    disagrees with its anchor, is not backed up (exit 6). If FILE is already a backup of the whole ledger, the command
    does nothing; any other existing FILE is refused. Only its owner can read the backup.
    """
    from dpbayes_cli.ledger.upkeep import back_up, existing_backup

    ledger = open_ledger(ledger_place)
    known = existing_backup(ledger, file)
    state = known or back_up(ledger, file)
    done = {"backup": str(file), "already_done": known is not None, "head": head_of(state)}
    text = f"backup {file}, entry {state.mark.sequence}, head {state.mark.hash}"
    emit_result({"ledger": ledger.location, **done}, text, as_json=as_json)
    if known:
        say_already_done()


@click.command("restore")
@click.argument("file", type=PATH)
@reason_option("The reason, and who decided; kept in the history.", required=True)
@ledger_options
def restore(file: Path, reason: str, ledger_place: str | None, as_json: bool) -> None:
    """Restore the ledger from the backup FILE.

    Releases that were charged after the backup stay charged. The present ledger may be damaged or missing; other
    commands wait meanwhile. The replaced file and its journal are kept in the same directory under a dated name. Never
    copy a backup over the ledger by hand, because SQLite may write the journal of the old file into the backup.

    Entries after the backup are kept if they can be read and verified. Nothing is missing if the ledger can be read to
    its end, or if its anchor ends with the last entry of the backup. Otherwise, every account counts as spent in full
    until dpbayes budget amend states its total again: the total, less what was released after the backup. An account
    that the backup lacks must be opened again, with its total less all that was released of its data. A schedule cannot
    go on then.
    """
    from dpbayes_cli.ledger.restore import restore as put_back

    ledger = open_ledger(ledger_place)
    done = put_back(ledger, file, reason)
    if done.already_done:
        lines = [f"already done: the ledger was restored from this backup, head {done.state.head}"]
    else:
        lines = [
            f"restored {done.backup.sequence} entries, kept {done.carried} later ones, head {done.state.head}",
            *(f"charged again: release {name}" for name in done.charged),
            *(f"lost: {sentence}" for sentence in done.lost),
        ]
    document = {
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
    emit_result(document, *lines, as_json=as_json)
    if not done.complete:
        say(
            "entries after the backup may be missing: every account counts as spent in full until you state "
            "its total, less what was released after the backup: "
            "dpbayes budget amend ACCOUNT --epsilon TOTAL --reason TEXT; if an account was closed after the backup, "
            "close it again: dpbayes budget close ACCOUNT --reason TEXT"
        )


@click.command("recover")
@click.option("--to", "target", type=PATH, metavar="FILE", help="Save the entries that verify to FILE.")
@ledger_options
def recover(target: Path | None, ledger_place: str | None, as_json: bool) -> None:
    """Check the ledger after a crash and list unfinished releases.

    The exit code is 7 if the ledger is damaged. A change that the crash interrupted is undone. Unfinished releases stay
    charged; to finish one, repeat the command that began it.

    If the ledger is damaged, restore a recent backup. If there is none, --to FILE saves the entries before the first
    damaged one to a new ledger. Later charges that can still be read are charged again, and so are unfinished releases
    among the saved entries. Entries that cannot be read are listed, and are missing from the totals. The damaged file
    is not changed, and the new ledger accepts no charge until dpbayes budget adopt.
    """
    from dpbayes_cli.ledger.rebuild import unfinished_releases
    from dpbayes_cli.ledger.upkeep import salvage

    ledger = open_ledger(ledger_place)
    if target is not None:
        _print_salvage(ledger, target, salvage(ledger, target), as_json=as_json)
        return
    rolled_back = ledger.storage.settle()
    findings, state = ledger.findings()
    open_releases = [
        {"release_id": release.release_id, "label": release.label, "account": account.name, "stage": release.stage}
        | {"time": release.time}
        for account, release in unfinished_releases(state)
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
            hint="dpbayes budget restore BACKUP, or save the entries that verify: dpbayes budget recover --to FILE",
        )
    if rolled_back:
        say("undid a change whose command was interrupted before it reported success")
    if as_json:
        return
    emit(f"{state.mark.sequence} entries verified, head {state.mark.hash}")
    for each in open_releases:
        label = f" ({each['label']})" if each["label"] else ""
        of_account = f"of account {each['account']}, {each['stage']} on {each['time']}"
        emit(f"unfinished: release {each['release_id']}{label} {of_account}")
    if open_releases:
        say("unfinished releases stay charged; to finish one, repeat the command that began it")


def _print_salvage(ledger: Ledger, target: Path, saved: Salvage, *, as_json: bool) -> None:
    document = {
        "ledger": ledger.location,
        "salvaged": str(target),
        "entries": saved.kept,
        "charged_again": saved.charged,
        "lowered": saved.tightened,
        "lost": saved.lost,
        "head": head_of(saved.state),
        "already_done": saved.already_done,
    }
    emit_result(
        document,
        f"saved {saved.kept} entries to {target}, head {saved.state.mark.hash}",
        *(f"charged again: release {name}" for name in saved.charged),
        *(f"lowered: {sentence}" for sentence in saved.tightened),
        *(f"lost: {sentence}" for sentence in saved.lost),
        as_json=as_json,
    )
    if saved.already_done:
        say_already_done()
    say(
        f"the damaged ledger {ledger.location} was not changed; check the new ledger, then let it replace the old one: "
        f"dpbayes budget restore {target} --reason TEXT"
    )


@click.command("migrate")
@ledger_options
def migrate(ledger_place: str | None, as_json: bool) -> None:
    """Convert the ledger of an older version of dpbayes to this version.

    A backup of the old ledger is kept beside it. A ledger of a newer version is refused.
    """
    ledger = open_ledger(ledger_place)
    version, kept = ledger.storage.migrate() or (None, None)
    emit_result(
        {"ledger": ledger.location, "from": version, "backup": str(kept) if kept else None},
        "nothing to migrate: the ledger is of this version"
        if version is None
        else f"migrated from version {version}; backup of the old ledger: {kept}",
        as_json=as_json,
    )


COMMANDS = (backup, restore, recover, migrate)
