"""The manual pages of all commands, which the wheel installs for ``man dpbayes-release``."""

from __future__ import annotations

import inspect
import re

import click

from docs.reference_pages import commands
from dpbayes_cli import __version__
from dpbayes_cli.main import cli


def escaped(text: str) -> str:
    """Return a text for roff: backslashes and hyphens as they are, and no line that begins a request."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.\'])", r"\\&\1", plain, flags=re.MULTILINE)


def manual(context: click.Context, command: click.Command) -> str:
    """Return the manual page of a command."""
    name = context.command_path.replace(" ", "-")
    text = inspect.cleandoc(command.help or "")
    usage = command.get_usage(context).removeprefix("Usage: ")
    lines = [f'.TH "{name.upper()}" "1" "" "dpbayes {__version__}" "User Commands"', ".SH NAME"]
    lines += [f"{escaped(name)} \\- {escaped(command.get_short_help_str(200))}", ".SH SYNOPSIS", escaped(usage)]
    lines.append(".SH DESCRIPTION")
    for paragraph in re.split(r"\n\s*\n", text):
        as_typed = paragraph.removeprefix("\b\n")
        lines += [".PP", ".nf", escaped(as_typed), ".fi"] if as_typed != paragraph else [".PP", escaped(paragraph)]
    lines.append(".SH OPTIONS")
    for option in command.get_params(context):
        record = option.get_help_record(context) if isinstance(option, click.Option) else None
        if record and record[1] != ".":
            lines += [".TP", f"\\fB{escaped(record[0])}\\fR", escaped(record[1])]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for inner in command.list_commands(context):
            subcommand = command.get_command(context, inner)
            summary = subcommand.get_short_help_str(200) if subcommand else ""
            lines += [".TP", f"\\fB{escaped(inner)}\\fR", escaped(summary)]
    return "\n".join(lines) + "\n"


def manuals() -> dict[str, str]:
    """Return the manual page of every command by its file name."""
    root = click.Context(cli, info_name="dpbayes", terminal_width=80, **cli.context_settings)
    pairs = [(root, cli), *commands(cli, root)]
    return {f"{context.command_path.replace(' ', '-')}.1": manual(context, command) for context, command in pairs}
