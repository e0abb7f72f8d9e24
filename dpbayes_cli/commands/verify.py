"""``dpbayes verify``: is a bundle what it says, and was it charged."""

from __future__ import annotations

from pathlib import Path

import click

from dpbayes_cli.commands.options import ledger_option, open_ledger
from dpbayes_cli.commands.output import emit, emit_json, output_options, say


@click.command("verify")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--no-ledger", is_flag=True, help="Check the bundle alone: for whoever has no ledger.")
@ledger_option
@output_options
def command(bundle: Path, no_ledger: bool, ledger_place: str | None, as_json: bool) -> None:
    """Check that BUNDLE is what it says; exit 7 if anything is wrong. No data are read.

    \b
    dpbayes verify out/
    dpbayes verify out/ --no-ledger

    The question is priced again from the bundle's spec alone: guarantee, sensitivities, noise, assumptions, posterior
    and all files must follow from question and draw, byte for byte; the statistics must be such as some data and
    their noise can give; and the ledger must verify, have charged just this guarantee and have published these files.

    What passing does not prove: that the draw came from the data that were meant, or from data at all. See also:
    dpbayes audit --bundle, for whether the mechanism keeps its promise.
    """
    from dpbayes_cli.base.errors import LedgerError, VerificationError
    from dpbayes_cli.workflow.verification import verify_bundle

    if no_ledger and ledger_place is not None:
        raise click.UsageError("--no-ledger and --ledger exclude each other")
    ledger = None if no_ledger else open_ledger(ledger_place)
    if ledger is not None and not ledger.storage.exists:
        raise LedgerError(
            f"there is no ledger at {ledger.location!r}", hint="name it with --ledger, or check without: --no-ledger"
        )
    found = verify_bundle(bundle, ledger)
    release_id, ok = found.document.release_id, not found.findings
    if as_json:
        emit_json(
            {
                "release_id": release_id,
                "bundle": str(bundle),
                "ok": ok,
                "checked": found.checked,
                "unchecked": found.unchecked,
                "findings": found.findings,
            }
        )
    if not ok:
        raise VerificationError(f"the bundle {str(bundle)!r} is not what it says", findings=found.findings)
    if as_json:
        return
    emit(f"release {release_id} verified")
    for text in found.checked:
        emit(f"- {text}")
    for text in found.unchecked:
        say(f"not checked: {text}")
