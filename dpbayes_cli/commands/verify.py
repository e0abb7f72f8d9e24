"""``dpbayes verify``: check that a bundle is consistent and that its charge is in the ledger."""

from __future__ import annotations

from pathlib import Path

import click

from dpbayes_cli.base.errors import LedgerError, VerificationError
from dpbayes_cli.commands.options import bundle_argument, ledger_options, open_ledger
from dpbayes_cli.commands.output import emit, emit_json, say


@click.command("verify")
@bundle_argument
@click.option("--no-ledger", is_flag=True, help="Check the bundle only, without a ledger.")
@ledger_options
def command(bundle: Path, no_ledger: bool, ledger_place: str | None, as_json: bool) -> None:
    """Check that BUNDLE is consistent and was charged; exit 7 if anything is wrong. Reads no data.

    \b
    dpbayes verify out/
    dpbayes verify out/ --no-ledger

    The guarantee, the noise, the posterior and all files are computed again from the request and the released values in
    the bundle, and must be the same, byte for byte. The released values must be possible: some data and some noise
    would yield them. The ledger must verify, and its entries about this release must have the same guarantee and the
    same files.

    This does not prove that the values came from the intended data, or from data at all. To test whether the mechanism
    keeps its guarantee, run dpbayes audit --bundle BUNDLE.
    """
    from dpbayes_cli.workflow.verification import verify_bundle

    if no_ledger and ledger_place is not None:
        raise click.UsageError("--no-ledger and --ledger exclude each other")
    ledger = None if no_ledger else open_ledger(ledger_place)
    if ledger is not None and not ledger.storage.exists:
        raise LedgerError(
            f"there is no ledger at {ledger.location!r}",
            hint="if it is elsewhere: --ledger FILE; if it was deleted: dpbayes budget restore BACKUP --reason TEXT; "
            "to check the bundle only: --no-ledger",
        )
    verification = verify_bundle(bundle, ledger)
    release_id, findings = verification.document.release_id, verification.findings
    if as_json:
        emit_json(
            {
                "release_id": release_id,
                "bundle": str(bundle),
                "ok": not findings,
                "checked": verification.checked,
                "unchecked": verification.unchecked,
                "findings": findings,
            }
        )
    if findings:
        raise VerificationError(f"the bundle {str(bundle)!r} does not verify", findings=findings)
    if as_json:
        return
    emit("\n- ".join([f"release {release_id} verified", *verification.checked]))
    for text in verification.unchecked:
        say(f"not checked: {text}")
