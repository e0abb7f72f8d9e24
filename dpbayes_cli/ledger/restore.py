"""Restore a ledger from a backup without losing charges that were made after the backup.

Readable entries that continue the backup are kept as they are. Readable charges that do not verify are charged again.
If any entry may be missing, the budget of every account counts as spent in full until a human sets its total again. No
entry is missing if the old ledger can be read, or if its anchor ends with the last entry of the backup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.anchored_storage import marks_of, unresolved_disputes
from dpbayes_cli.ledger.chain import Entry, Mark
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.rebuild import RebuiltChain
from dpbayes_cli.ledger.sqlite import SqliteStorage, file_of
from dpbayes_cli.ledger.sqlite_journal import journal_of
from dpbayes_cli.ledger.sqlite_replacement import Leftover, Replacement, replacing
from dpbayes_cli.ledger.state import State
from dpbayes_cli.ledger.upkeep import write_chain


@dataclass
class Restoration:
    """The result of a restore.

    Attributes:
        state: the state of the new ledger.
        backup: the last entry of the backup.
        carried: the number of entries after the backup that were kept unchanged.
        charged: the releases that are charged again.
        lost: the entries and payloads that could not be read or verified, one sentence each.
        complete: whether nothing after the backup is missing; if not, every budget counts as spent in full.
        already_done: whether an earlier run restored the ledger from this backup for the same reason.
    """

    state: State
    backup: Mark
    carried: int = 0
    charged: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    complete: bool = True
    already_done: bool = False


def restore(ledger: Ledger, backup: Path, reason: str) -> Restoration:
    """Replace a ledger by a backup, and keep the charges that were made after the backup.

    Args:
        ledger: the ledger, which may be damaged or missing.
        backup: a copy that ``back_up`` made; it is not changed.

    Raises:
        LedgerError: the backup does not verify, is of another ledger, or is the ledger itself, or a file cannot be
            written. The ledger is not changed then.

    Privacy: what an account has spent never falls: it is the sum of the charges in the backup and in all readable
        entries after it, or the full total. It is less than the full total only if the old ledger was read to its end,
        or if the anchor that the backup names shows that no later entry was used; see ``AnchoredStorage.replacing``.
    Source: derived here.
    """
    source = SqliteStorage(backup, anywhere=True)
    if backup.exists() and Path(ledger.location).exists() and backup.samefile(ledger.location):
        raise LedgerError("the backup is the ledger itself", hint="name a copy that dpbayes budget backup made")
    if journal_of(backup).exists():
        raise LedgerError(
            f"the backup {str(backup)!r} has a journal: dpbayes budget backup did not make it",
            hint="name a copy that dpbayes budget backup made",
        )
    copy = Ledger(source, key=ledger.key)
    findings, _ = copy.findings(compare=False)
    if findings:
        raise LedgerError(f"the backup {str(backup)!r} does not verify: {findings[0]}", hint="name an older one")
    entries = copy.entries()
    if not entries:
        raise LedgerError(f"the backup {str(backup)!r} holds no entries", hint="name another one")
    head = entries[-1].mark
    requested: dict[str, object] = {"kind": "restored", "reason": reason, "backup": asdict(head)}
    if done := _restored_before(ledger, requested):
        return done
    place = Ledger(SqliteStorage(Path(ledger.location), anywhere=True), key=ledger.key)
    suffix = f"replaced-{ledger.time.replace(':', '')}"
    file = file_of(ledger.storage)
    file.check_path()
    with replacing(file.path, suffix, lambda: _restored_before(place, requested) is not None) as replacement:
        if replacement is not None:
            return _replaced(ledger, source, entries, requested, replacement)
    return _restored_before(ledger, requested) or Restoration(ledger.state(), head)


def _replaced(
    ledger: Ledger, source: SqliteStorage, entries: list[Entry], requested: Mapping[str, object],
    replacement: Replacement,
) -> Restoration:  # fmt: skip
    chain, left = RebuiltChain(ledger.stamp(), State(keys=ledger.keys)), replacement.left
    for entry in entries:
        chain.take(entry)
    head = chain.state.mark
    carried, rest = _take_over(chain, left, ledger.location)
    counted = _counted_by_salvage(chain, left)
    has_head = carried > 0 or any(entry.mark == head for entry in left.entries)
    complete = counted or (not rest and left.reads_on_from(head.sequence) and has_head)
    with ledger.anchored.replacing(chain.state) as (disputes, is_last):
        unseen = unresolved_disputes(chain.state, disputes)
        complete |= is_last and all(entry.sequence <= chain.state.mark.sequence for entry in rest)
        complete = complete and not any(dispute.path for dispute in unseen)
        if not complete:
            chain.charge_unfinished()
            chain.account_for(rest)
        fields = {**requested, "account": "", "carried": carried, "lost": not complete, **marks_of(unseen)}
        chain.add({**fields, "without": chain.missing(left.payload, start=len(entries))})
        if ledger.key is not None and not chain.state.key:
            chain.add({"kind": "key", "account": "", "key": ledger.key.fingerprint, "reason": "a key was stated"})
        source.copy_to(replacement.partial)
        write_chain(replacement.partial, chain, left.payload, start=len(entries))
        replacement.place()
    return Restoration(chain.state, head, carried, chain.charged, chain.lost, complete)


def _take_over(chain: RebuiltChain, left: Leftover, location: str) -> tuple[int, list[Entry]]:
    """Append the entries that continue the backup; return their number, and the entries that do not continue it."""
    if left.entries and left.entries[0] != chain.entries[0] and RebuiltChain({}, State(keys={})).take(left.entries[0]):
        raise LedgerError(
            f"the backup is of another ledger than {location!r}",
            hint="name a backup of this ledger; to use another ledger: --ledger FILE; if this one was begun by mistake "
            "after the old one was deleted, move it away first",
        )
    known = {entry.mark for entry in chain.entries}
    rest = [entry for entry in left.entries if entry.mark not in known]
    if _counted_by_salvage(chain, left):
        return 0, []
    carried = next((number for number, entry in enumerate(rest) if not chain.take(entry)), len(rest))
    return carried, rest[carried:]


def _counted_by_salvage(chain: RebuiltChain, left: Leftover) -> bool:
    """Return whether the backup was salvaged from this ledger, and so counts all readable entries already."""
    if not left.entries:
        return False
    last = max(left.entries, key=lambda entry: entry.sequence)
    salvaged = {"kind": "salvaged", "last": asdict(last.mark)}
    return any(salvaged.items() <= entry.fields.items() for entry in chain.entries)


def _restored_before(ledger: Ledger, requested: Mapping[str, object]) -> Restoration | None:
    """Return the result of an earlier restore of the same backup; None if it was not restored or is damaged."""
    try:
        if not ledger.storage.exists or ledger.findings()[0]:
            return None
        state, entries = ledger.state(), ledger.entries()
    except LedgerError:
        return None
    for entry in reversed(entries):
        fields = entry.fields
        if requested.items() <= fields.items():
            head = Mark(**fields["backup"])
            return Restoration(state, head, fields["carried"], complete=not fields["lost"], already_done=True)
    return None
