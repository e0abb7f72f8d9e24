"""``dpbayes budget anchor``, ``adopt`` and ``key``, and receipts: how it is noticed that a ledger was changed."""

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
@click.option("--none", "none", is_flag=True, help="Configure no anchor any more; with --reason.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept in the history.")
@ledger_option
@output_options
def anchor(file: Path | None, none: bool, reason: str, ledger_place: str | None, as_json: bool) -> None:
    """From now on, append the head of the ledger to FILE after every change.

    FILE is text, one line an entry that was the head: sequence and hash. Let it lie on another file system, best one
    where lines can be appended but not taken back (chattr +a, a share of another host). The ledger remembers it in its
    chain. Every command first asks it: where its last line is not in the chain, an older copy was put in the ledger's
    place, or it was cut short or rewritten, and nothing goes on (exit 6) before dpbayes budget adopt. Of two copies of
    one ledger only the first to go on is let through.

    A copy of the ledger from before it had an anchor does not know of one. State it beside the ledger too, in
    $DPBAYES_ANCHOR or with --anchor FILE; then it is asked whatever the ledger says.

    What it cannot do: one who can write both files can put back both, or a ledger and no anchor; and one who can
    write the ledger alone can still stop all work. What was released is never undone by either.
    """
    if (file is None) != none:
        raise click.UsageError("name FILE, or --none")
    checked_reason(reason, needed=none)
    ledger = open_ledger(ledger_place)
    if file is not None and _same_device(ledger, file):
        say("the anchor is on the ledger's own file system: what puts back an old state of that puts back both")
    state, new = ledger.anchor(file, reason)
    if as_json:
        place = state.anchor or None
        emit_json({"ledger": ledger.location, "anchor": place, "head": head_of(state), "already_done": not new})
    else:
        emit(f"anchor {state.anchor or 'none'}, entry {state.mark.sequence}, head {state.mark.hash}")
    if not new:
        say_already_done()


@click.command("adopt")
@click.option("--reason", required=True, metavar="TEXT", help="Why, and who has looked; kept in the history.")
@click.option("--move", type=click.Path(path_type=Path), metavar="FILE", help="The anchor is FILE from now on.")
@ledger_option
@output_options
def adopt(reason: str, move: Path | None, ledger_place: str | None, as_json: bool) -> None:
    """Go on with a ledger that its anchor speaks against, after a human has looked at it.

    First look for the ledger that the anchor has seen. Where it is lost, and this one was restored from a backup or
    salvaged, this records who adopted it, when and why, with the last entry that the anchor has seen and the last one
    that is there; work then goes on. An anchor file that is lost begins anew, or with --move elsewhere.

    What the lost entries charged is not in the totals any more, and what they drew may have been seen: stop the jobs
    that release, add it up from the bundles, and lower the totals with dpbayes budget amend.
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
        emit("nothing to adopt: nothing speaks against the ledger")
    for each in disputes:
        say(f"adopted although {each.text}")
        for change in each.changes:
            say(f"changed: {change}")
    if not disputes:
        return
    say("what lost entries charged is not counted: lower the totals by it, dpbayes budget amend")
    for account, release in unfinished(state):
        if release.stage == "reserved":
            say(
                f"release {release.release_id} of account {account.name} would be drawn at the price that is charged; "
                "if a bundle of it is out, lower the total by that price too"
            )


@click.command("key")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--reason", default="", metavar="TEXT", help="Why; kept in the history.")
@ledger_option
@output_options
def key(file: Path, reason: str, ledger_place: str | None, as_json: bool) -> None:
    """Sign every entry from now on with the key in FILE, which is created for its owner alone if it is not there.

    Hashes tie the entries of a ledger to each other, but whoever can write the file can compute them anew. A signature
    they cannot, without the key: keep FILE in another directory, best on another file system, and let
    DPBAYES_LEDGER_KEY name it in every shell and job that uses the ledger. Without it, a signed ledger is refused; and
    with it, one that is not signed. A ledger that is lost or older than it should be is for an anchor to notice.

    To change the key, let DPBAYES_LEDGER_KEY name the old one, and FILE be the new one.
    """
    from dpbayes_cli.base.errors import LedgerError
    from dpbayes_cli.ledger.key import create_key, read_key

    checked_reason(reason, needed=False)
    ledger = open_ledger(ledger_place, new_key=file)
    if ledger.storage.directory is not None and ledger.storage.directory.resolve() == file.absolute().parent.resolve():
        raise LedgerError(
            "the key would lie beside the ledger, where whoever can rewrite that finds it",
            hint="name a file in another directory",
        )
    with suppress(FileExistsError):
        create_key(file)
    made = read_key(file)
    begun = ledger.begin_key(made, reason)
    if as_json:
        emit_json({"ledger": ledger.location, "key": made.fingerprint, "file": str(file), "already_done": not begun})
    else:
        emit(f"{'signed from now on' if begun else 'already done: signed'} with the key {made.fingerprint} in {file}")
    say(f"from now on, every command needs it: export DPBAYES_LEDGER_KEY={file.absolute()}")


COMMANDS = (anchor, adopt, key)


def read_receipt(path: Path) -> Mark:
    """Return the entry that a bundle, or the printed result of a release, has seen.

    Raises:
        OutputError: there is no such file.
        VerificationError: it holds no receipt.
    """
    from dpbayes_cli.base.errors import OutputError, VerificationError
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
        raise VerificationError(f"{str(path)!r} holds no receipt")
    return mark


def receipt_findings(receipts: Iterable[Path], state: State) -> list[str]:
    """Return which receipts have seen an entry that is not in the ledger, one sentence each."""
    return [
        f"entry {mark.sequence} of the receipt {str(path)!r} is not in the ledger: it was cut short or replaced"
        for path, mark in [(path, read_receipt(path)) for path in receipts]
        if not state.holds(mark)
    ]


def _same_device(ledger: Ledger, file: Path) -> bool:
    """Return whether an anchor would be on the file system of the ledger."""
    directory = ledger.storage.directory
    try:
        return directory is not None and directory.stat().st_dev == file.absolute().parent.stat().st_dev
    except OSError:
        return False
