"""``dpbayes budget anchor``, ``adopt`` and ``key``, and receipts: detect a ledger that was rewritten or replaced."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.base.errors import LedgerError, OutputError, VerificationError
from dpbayes_cli.commands.accounts import head_of
from dpbayes_cli.commands.options import PATH, ledger_options, open_ledger, reason_option
from dpbayes_cli.commands.output import emit_result, say, say_already_done

if TYPE_CHECKING:
    from dpbayes_cli.ledger.chain import Mark
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.state import State


@click.command("anchor")
@click.argument("file", type=PATH, required=False)
@click.option("--none", "none", is_flag=True, help="Stop using an anchor; with --reason.")
@reason_option()
@ledger_options
def anchor(file: Path | None, none: bool, reason: str, ledger_place: str | None, as_json: bool) -> None:
    """Append the last entry of the ledger to FILE after every change from now on.

    FILE, the anchor, is a text file; each line holds the number and the hash of an entry. Put it on another file
    system, best on one where lines can only be appended (chattr +a, or a share of another host). The ledger records the
    path of FILE, and every command first checks FILE. If its last line is not in the ledger, the ledger was cut short,
    rewritten or replaced by an older copy, and all commands are refused (exit 6) until dpbayes budget adopt. If two
    copies of a ledger exist, only the copy that is changed first keeps working.

    An old copy of the ledger, made before the anchor was set, does not record the anchor. So also name the anchor in
    $DPBAYES_ANCHOR or with --anchor FILE; then it is checked even if the ledger does not record it.

    Limits: a person who can write both files can restore old copies of both. A person who can write only the ledger can
    still make all commands fail. Neither can undo a release.
    """
    if (file is None) != none:
        raise click.UsageError("name a FILE or give --none, not both")
    if none and not reason.strip():
        raise click.UsageError("--none needs --reason TEXT")
    ledger = open_ledger(ledger_place)
    if file is not None and _same_device(ledger, file):
        say("the anchor is on the file system of the ledger: a snapshot of that file system would restore both")
    state, is_new = ledger.anchor(file, reason)
    done = {"anchor": state.anchor or None, "head": head_of(state), "already_done": not is_new}
    emit_result(
        {"ledger": ledger.location, **done},
        f"anchor {state.anchor or 'none'}, entry {state.mark.sequence}, head {state.mark.hash}",
        as_json=as_json,
    )
    if not is_new:
        say_already_done()


@click.command("adopt")
@reason_option("The reason, and who compared ledger and anchor; kept in the history.", required=True)
@click.option("--move", type=PATH, metavar="FILE", help="Use FILE as the anchor from now on.")
@ledger_options
def adopt(reason: str, move: Path | None, ledger_place: str | None, as_json: bool) -> None:
    """Accept a ledger that disagrees with its anchor.

    First look for the ledger that matches the anchor. If that ledger is lost, and the present one was restored from a
    backup or saved by dpbayes budget recover, this command records that you accept the present one. Then commands work
    again. If the anchor file is lost, a new one is begun; --move puts it elsewhere.

    The charges of the lost entries are not counted, although their releases may have been seen. Stop all jobs that
    release, and add up the cost of the lost releases from their bundles. Then state each total, less this cost, with
    dpbayes budget amend.
    """
    from dpbayes_cli.ledger.rebuild import unfinished_releases

    ledger = open_ledger(ledger_place)
    state, disputes = ledger.adopt(reason, move)
    seen = [
        {"anchor": each.path, "sequence": each.mark and each.mark.sequence, "hash": each.mark and each.mark.hash}
        for each in disputes
    ]
    done = {
        "adopted": bool(disputes),
        "already_done": not disputes,
        "changes": [change for each in disputes for change in each.changes],
    }
    emit_result(
        {"ledger": ledger.location, **done, "seen": seen, "head": head_of(state)},
        f"adopted, entry {state.mark.sequence}, head {state.mark.hash}"
        if disputes
        else "nothing to adopt: the ledger agrees with its anchor",
        as_json=as_json,
    )
    for each in disputes:
        say(f"adopted although {each.text}")
        for change in each.changes:
            say(f"changed: {change}")
    if not disputes:
        return
    say("charges of lost entries are not counted: state each total, less these charges, with dpbayes budget amend")
    for account, release in unfinished_releases(state):
        if release.stage == "reserved":
            say(
                f"release {release.release_id} of account {account.name} is charged, but this ledger holds no "
                "draw of it; if a bundle of it exists, a second draw would reveal more: lower the total by its cost too"
            )


@click.command("key")
@click.argument("file", type=PATH)
@reason_option()
@ledger_options
def key(file: Path, reason: str, ledger_place: str | None, as_json: bool) -> None:
    """Sign every entry from now on with the key in FILE.

    FILE is created if it does not exist. Whoever can write the ledger can recompute the hashes that link its entries,
    but signatures cannot be made without the key. Keep FILE in another directory, best on another file system, readable
    by its owner only, and set $DPBAYES_LEDGER_KEY to it in every shell and job that uses the ledger. A signed ledger is
    refused if no key is set, and an unsigned ledger is refused if a key is set. A key does not show that the ledger was
    replaced by an older copy; an anchor does.

    To change the key, set $DPBAYES_LEDGER_KEY to the old one, and name the new one as FILE.
    """
    from dpbayes_cli.ledger.key import create_key, read_key

    ledger = open_ledger(ledger_place, new_key=file)
    if ledger.storage.directory is not None and ledger.storage.directory.resolve() == file.absolute().parent.resolve():
        raise LedgerError(
            "the key must not be in the directory of the ledger: whoever can rewrite the ledger would find it there",
            hint="name a file in another directory",
        )
    with suppress(FileExistsError):
        create_key(file)
    signing_key = read_key(file)
    is_new = ledger.begin_key(signing_key, reason)
    done = "signed from now on" if is_new else "already done: signed"
    emit_result(
        {"ledger": ledger.location, "key": signing_key.fingerprint, "file": str(file), "already_done": not is_new},
        f"{done} with the key {signing_key.fingerprint} in {file}",
        as_json=as_json,
    )
    say(f"from now on, every command needs the key: export DPBAYES_LEDGER_KEY={file.absolute()}")


COMMANDS = (anchor, adopt, key)


def read_receipt(path: Path) -> Mark:
    """Return the ledger entry that a receipt states; a receipt is a bundle, or the printed result of a release."""
    from dpbayes_cli.bundle.read import read_file
    from dpbayes_cli.ledger.chain import Mark

    content = read_file(path / "release.json" if path.is_dir() else path)
    if content is None:
        raise OutputError(f"there is no receipt at {str(path)!r}", hint="name a bundle, or its release.json")
    try:
        document: Any = json.loads(content)
        seen = document.get("receipt") or document["ledger"]
        mark = Mark(seen["sequence"], seen.get("head") or seen["hash"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        mark = None
    if mark is None or type(mark.sequence) is not int or mark.sequence < 1 or not isinstance(mark.hash, str):
        hint = "name a bundle, or what dpbayes release --json printed"
        raise VerificationError(f"{str(path)!r} is not a receipt: it states no entry of a ledger", hint=hint)
    return mark


def receipt_findings(receipts: Iterable[Path], state: State) -> list[str]:
    """Return a sentence for each receipt whose entry is not in the ledger."""
    return [
        f"entry {mark.sequence} of the receipt {str(path)!r} is not in the ledger, which was cut short or replaced"
        for path, mark in [(path, read_receipt(path)) for path in receipts]
        if not state.holds(mark)
    ]


def _same_device(ledger: Ledger, file: Path) -> bool:
    directory = ledger.storage.directory
    try:
        return directory is not None and directory.stat().st_dev == file.absolute().parent.stat().st_dev
    except OSError:
        return False
