"""``dpbayes models``: list the models, and the mechanisms that support each of them."""

from __future__ import annotations

import click

from dpbayes_cli.commands.output import emit_document, emit_json, emit_table, output_options, say


@click.command("models", context_settings={"allow_extra_args": True})
@click.option("--markdown", is_flag=True, help="Print the table of models and mechanisms in Markdown.")
@output_options
@click.pass_context
def command(context: click.Context, markdown: bool, as_json: bool) -> None:
    """List the models, and the mechanisms that support each of them."""
    from dpbayes_cli.core.registry import mechanism_names, mechanism_type, model_names, model_type, supports

    if context.args:
        raise click.UsageError(f"this lists all models; about one of them: dpbayes explain {context.args[0]}")
    mechanisms = [mechanism_type(name) for name in mechanism_names()]
    models = [model_type(name) for name in model_names()]
    fitting = {model.name: [m.name for m in mechanisms if supports(m, model)] for model in models}
    if as_json:
        emit_json([{"name": m.name, "summary": m.summary, "mechanisms": fitting[m.name]} for m in models])
    elif markdown:
        emit_document("| model | " + " | ".join(m.name for m in mechanisms) + " |")
        emit_document("|---|" + "---|" * len(mechanisms))
        for model in models:
            cells = ["yes" if m.name in fitting[model.name] else "" for m in mechanisms]
            emit_document(f"| `{model.name}` | " + " | ".join(cells) + " |")
    else:
        rows = [[m.name, m.summary, ", ".join(fitting[m.name])] for m in models]
        emit_table(["model", "what it is", "mechanisms"], rows)
        say("more about a model or a mechanism: dpbayes explain NAME")
