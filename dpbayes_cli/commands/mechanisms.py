"""``dpbayes mechanisms``: list the mechanisms."""

from __future__ import annotations

import click

from dpbayes_cli.commands.output import emit_json, emit_table, output_options, say


@click.command("mechanisms", context_settings={"allow_extra_args": True})
@output_options
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List the mechanisms."""
    from dpbayes_cli.core.registry import mechanism_names, mechanism_type

    if context.args:
        raise click.UsageError(f"this lists all mechanisms; about one of them: dpbayes explain {context.args[0]}")
    mechanisms = [mechanism_type(name) for name in mechanism_names()]
    if as_json:
        emit_json([{"name": m.name, "summary": m.summary, "needs_n": m.needs_n} for m in mechanisms])
    else:
        emit_table(["mechanism", "what it does"], [[m.name, m.summary] for m in mechanisms])
        say("more about a mechanism: dpbayes explain NAME")
