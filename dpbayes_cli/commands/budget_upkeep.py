"""``dpbayes budget anchor``, ``adopt``, ``backup``, ``restore``, ``key``, ``recover``, ``migrate``: keep a ledger."""

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
    from dpbayes_cli.ledger.upkeep import Salvage


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
    from dpbayes_cli.ledger.kept_copies import backed_up_already
    from dpbayes_cli.ledger.upkeep import back_up

    ledger = open_ledger(ledger_place)
    known = backed_up_already(ledger, file)
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
    from dpbayes_cli.errors import LedgerError
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
    from dpbayes_cli.errors import VerificationError
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


COMMANDS = (anchor, adopt, backup, restore, key, recover, migrate)


def read_receipt(path: Path) -> Mark:
    """Return the entry that a bundle, or the printed result of a release, has seen.

    Raises:
        OutputError: there is no such file.
        VerificationError: it holds no receipt.
    """
    from dpbayes_cli.bundle.read import read_file
    from dpbayes_cli.errors import OutputError, VerificationError
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
