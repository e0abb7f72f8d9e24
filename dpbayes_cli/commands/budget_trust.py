"""``dpbayes budget anchor``, ``adopt`` and ``key``, and receipts: detect that a ledger was changed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.accounts import checked_reason, head_of
from dpbayes_cli.commands.options import ledger_option, open_ledger
from dpbayes_cli.commands.output import emit, emit_json, output_options, say, say_already_done

if TYPE_CHECKING:
    from dpbayes_cli.ledger.chain import Mark
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.state import State


@click.command("anchor")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--none", "none", is_flag=True, help="Stop using an anchor; with --reason.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept in the history.")
@ledger_option
@output_options
def anchor(file: Path | None, none: bool, reason: str, ledger_place: str | None, as_json: bool) -> None:
    """Append the ledger's head to FILE after every change from now on.

    FILE, the anchor, is a text file with one line for each head: sequence number and hash. Put it on another file
    system, best on one where lines can only be appended (chattr +a, or a share of another host). The ledger records the
    path in its chain, and every command first checks FILE. If its last line is not in the chain, the ledger was cut
    short, rewritten or replaced by an older copy, and all commands are refused (exit 6) until dpbayes budget adopt. If
    there are two copies of a ledger, only the first one that is changed goes on working.

    A copy of the ledger from before it had an anchor does not know about it. So name the anchor outside the ledger
    too, in $DPBAYES_ANCHOR or with --anchor FILE; then it is checked whatever the ledger says.

    Limits: whoever can write both files can restore old copies of both, or an old ledger without an anchor. Whoever
    can write the ledger alone can still block all commands. Neither can undo a release.
    """
    if (file is None) != none:
        raise click.UsageError("name a FILE or give --none, not both")
    checked_reason(reason, needed=none)
    ledger = open_ledger(ledger_place)
    if file is not None and _same_device(ledger, file):
        say("the anchor is on the file system of the ledger: a restored snapshot of it would restore both")
    state, is_new = ledger.anchor(file, reason)
    if as_json:
        place = state.anchor or None
        emit_json({"ledger": ledger.location, "anchor": place, "head": head_of(state), "already_done": not is_new})
    else:
        emit(f"anchor {state.anchor or 'none'}, entry {state.mark.sequence}, head {state.mark.hash}")
    if not is_new:
        say_already_done()


@click.command("adopt")
@click.option("--reason", required=True, metavar="TEXT", help="Why, and who checked; kept in the history.")
@click.option("--move", type=click.Path(path_type=Path), metavar="FILE", help="Use FILE as the anchor from now on.")
@ledger_option
@output_options
def adopt(reason: str, move: Path | None, ledger_place: str | None, as_json: bool) -> None:
    """Accept a ledger that disagrees with its anchor.

    First check the ledger, and look for the one that the anchor has seen. If it is lost, and this one was restored from
    a backup or salvaged, adopt records who accepted this one, when and why, with the last entry that the anchor has
    seen and the last entry of the ledger. Then commands work again. A lost anchor file is begun anew; --move puts it
    elsewhere.

    The totals no longer include what the lost entries charged, although their releases may have been seen. Stop all
    jobs that release, add up their cost from the bundles, and lower the totals with dpbayes budget amend.
    """
    from dpbayes_cli.ledger.rebuild import unfinished

    checked_reason(reason, needed=True)
    ledger = open_ledger(ledger_place)
    state, disputes = ledger.adopt(reason, move)
    if as_json:
        seen = [
            {"anchor": each.path, "sequence": each.mark and each.mark.sequence, "hash": each.mark and each.mark.hash}
            for each in disputes
        ]
        done = {
            "adopted": bool(disputes),
            "already_done": not disputes,
            "changes": [change for each in disputes for change in each.changes],
        }
        emit_json({"ledger": ledger.location, **done, "seen": seen, "head": head_of(state)})
    elif disputes:
        emit(f"adopted, entry {state.mark.sequence}, head {state.mark.hash}")
    else:
        emit("nothing to adopt: the ledger agrees with its anchor")
    for each in disputes:
        say(f"adopted although {each.text}")
        for change in each.changes:
            say(f"changed: {change}")
    if not disputes:
        return
    say("charges of lost entries are not counted: lower the totals by them with dpbayes budget amend")
    for account, release in unfinished(state):
        if release.stage == "reserved":
            say(
                f"release {release.release_id} of account {account.name} is charged but not drawn in this "
                "ledger; if a bundle of it exists, it would be drawn twice: lower the total by its cost too"
            )


@click.command("key")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--reason", default="", metavar="TEXT", help="Why; kept in the history.")
@ledger_option
@output_options
def key(file: Path, reason: str, ledger_place: str | None, as_json: bool) -> None:
    """Sign every entry from now on with the key in FILE.

    FILE is created if it does not exist. Hashes link the entries of a ledger, but whoever can write the ledger can
    recompute them. Signatures cannot be recomputed without the key. Keep FILE in another directory, best on another
    file system, readable by its owner only, and set $DPBAYES_LEDGER_KEY to it in every shell and job that uses the
    ledger. A signed ledger is refused without the key, and an unsigned one is refused with it. To detect a lost or
    outdated ledger, use an anchor.

    To change the key, set $DPBAYES_LEDGER_KEY to the old one, and name the new one as FILE.
    """
    from dpbayes_cli.base.errors import LedgerError
    from dpbayes_cli.ledger.key import create_key, read_key

    checked_reason(reason, needed=False)
    ledger = open_ledger(ledger_place, new_key=file)
    if ledger.storage.directory is not None and ledger.storage.directory.resolve() == file.absolute().parent.resolve():
        raise LedgerError(
            "the key must not be in the directory of the ledger, where whoever can rewrite the ledger finds it",
            hint="name a file in another directory",
        )
    with suppress(FileExistsError):
        create_key(file)
    signing_key = read_key(file)
    is_new = ledger.begin_key(signing_key, reason)
    if as_json:
        emit_json(
            {"ledger": ledger.location, "key": signing_key.fingerprint, "file": str(file), "already_done": not is_new}
        )
    else:
        done = "signed from now on" if is_new else "already done: signed"
        emit(f"{done} with the key {signing_key.fingerprint} in {file}")
    say(f"from now on, every command needs it: export DPBAYES_LEDGER_KEY={file.absolute()}")


COMMANDS = (anchor, adopt, key)


def read_receipt(path: Path) -> Mark:
    """Return the ledger entry that a bundle, or the printed result of a release, states.

    Raises:
        OutputError: there is no such file.
        VerificationError: the file holds no receipt.
    """
    from dpbayes_cli.base.errors import OutputError, VerificationError
    from dpbayes_cli.bundle.read import read_file
    from dpbayes_cli.ledger.chain import Mark

    content = read_file(path / "release.json" if path.is_dir() else path)
    if content is None:
        raise OutputError(
            f"there is no receipt at {str(path)!r}",
            hint="name a bundle, or its release.json",
        )
    try:
        document: Any = json.loads(content)
        seen = document.get("receipt") or document["ledger"]
        mark = Mark(seen["sequence"], seen.get("head") or seen["hash"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        mark = None
    if mark is None or type(mark.sequence) is not int or mark.sequence < 1 or not isinstance(mark.hash, str):
        raise VerificationError(f"{str(path)!r} is not a receipt: it states no entry of a ledger")
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
