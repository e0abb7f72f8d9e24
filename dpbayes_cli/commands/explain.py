"""``dpbayes explain``: what a model or a mechanism releases, what it guarantees, and what it assumes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.commands.output import emit_result, output_options

if TYPE_CHECKING:
    from dpbayes_cli.core.mechanism import Mechanism
    from dpbayes_cli.core.model import Model


@click.command("explain")
@click.argument("name")
@output_options
def command(name: str, as_json: bool) -> None:
    """Explain the model or mechanism NAME: what it releases, guarantees and assumes, and the papers it is from."""
    from dpbayes_cli.core.registry import mechanism_names, mechanism_type, model_names, model_type

    models, mechanisms = model_names(), mechanism_names()
    if name not in {*models, *mechanisms}:
        raise SpecError(f"there is no model or mechanism {name!r}", hint=nearest(name, [*models, *mechanisms]))
    kind = "model" if name in models else "mechanism"
    subject: type[Model] | type[Mechanism] = model_type(name) if name in models else mechanism_type(name)
    info = dataclasses.asdict(subject.info)
    lines = [f"{name} ({kind}): {subject.summary}"]
    for title, text in info.items():
        wrapped = click.wrap_text(text, width=80, initial_indent="  ", subsequent_indent="  ")
        lines += ["", f"{title.replace('_', ' ').capitalize()}:", wrapped]
    emit_result({"name": name, "kind": kind, "summary": subject.summary, **info}, *lines, as_json=as_json)
