"""``dpbayes explain``: what a model or a mechanism is, guarantees and assumes."""

from __future__ import annotations

import dataclasses

import click

from dpbayes_cli.commands.output import emit, emit_json, output_options


@click.command("explain")
@click.argument("name")
@output_options
def command(name: str, as_json: bool) -> None:
    """Explain NAME, a model or a mechanism: what it releases, guarantees and assumes, and the papers it is from."""
    from dpbayes_cli.base.errors import SpecError, nearest
    from dpbayes_cli.core.registry import mechanism_names, mechanism_type, model_names, model_type

    if name in model_names():
        kind, subject = "model", model_type(name)
        info, summary = subject.info, subject.summary
    elif name in mechanism_names():
        kind, mechanism = "mechanism", mechanism_type(name)
        info, summary = mechanism.info, mechanism.summary
    else:
        known = [*model_names(), *mechanism_names()]
        raise SpecError(f"there is no model or mechanism {name!r}", hint=nearest(name, known))
    if as_json:
        emit_json({"name": name, "kind": kind, "summary": summary, **dataclasses.asdict(info)})
        return
    emit(f"{name} ({kind}): {summary}")
    for field in dataclasses.fields(info):
        emit("")
        emit(f"{field.name.replace('_', ' ').capitalize()}:")
        text = click.wrap_text(getattr(info, field.name), width=100, initial_indent="  ", subsequent_indent="  ")
        emit(text)
