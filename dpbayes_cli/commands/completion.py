"""``dpbayes completion``: print a shell's completion script."""

from __future__ import annotations

import click

from dpbayes_cli.commands.output import emit_document


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    eval "$(dpbayes completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell!r}")
    root = click.get_current_context().find_root().command
    emit_document(kind(root, {}, "dpbayes", "_DPBAYES_COMPLETE").source())
