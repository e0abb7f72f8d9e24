"""``dpbayes infer``: compute the posterior of a bundle again; this is post-processing and costs nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dpbayes_cli.commands.options import PATH, interval_option
from dpbayes_cli.commands.output import emit_json, emit_posterior, output_options, say
from dpbayes_cli.commands.request_command import pop_document, request_options
from dpbayes_cli.spec.request_flags import AFTERWARD


@click.command("infer")
@click.argument("bundle", type=PATH, required=False)
@click.option("--table", type=PATH, metavar="FILE", help="Instead of BUNDLE: noisy counts that another tool published.")
@click.option("--spec", "spec_path", type=PATH, metavar="FILE", help="Spec of the table: dpbayes spec init table.")
@request_options(*AFTERWARD)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="S",
    help="Seed of the samples [derived from the bundle]. With equal seeds, two bundles have independent samples.",
)
@click.option(
    "--more", count=True, help="Continue chains that are too short, up to 8 times their limit. May be repeated."
)
@click.option(
    "--out",
    type=PATH,
    metavar="DIR",
    help="New directory for posterior.json, the samples, the groups and the states of a hidden Markov model.",
)
@interval_option
@output_options
def command(
    bundle: Path | None,
    table: Path | None,
    spec_path: Path | None,
    seed: int | None,
    more: int,
    out: Path | None,
    interval: float,
    as_json: bool,
    **flags: Any,
) -> None:
    """Compute the posterior of BUNDLE again: with more samples, another prior or another method. Costs nothing.

    \b
    dpbayes infer out/ --samples 100000 --prior alpha=2,beta=5 --seed 1 --out again/
    dpbayes infer out/ --more --out longer/
    dpbayes infer --table noisy.csv --spec table.yaml

    The bundle is public already: the command needs neither the data nor the ledger, and no budget. It does not change
    the bundle. With --table, the noisy counts come from another tool, and the spec states the law of their noise.
    """
    changes = pop_document(flags)
    if bundle is not None and table is None and spec_path is None:
        _infer_bundle(bundle, changes, seed, more, out, interval, as_json)
        return
    if bundle is not None or table is None:
        raise click.UsageError("name a BUNDLE, or a table of another tool with its spec: --table FILE --spec FILE")
    if more:
        raise click.UsageError("--more continues Markov chains, but --table needs none: leave --more out")
    from dpbayes_cli.commands.infer_table import infer_published

    infer_published(table, spec_path, changes, seed=seed, out=out, interval=interval, as_json=as_json)


def _infer_bundle(
    bundle: Path,
    changes: dict[str, Any],
    seed: int | None,
    more: int,
    out: Path | None,
    interval: float,
    as_json: bool,
) -> None:
    import msgspec
    from msgspec import UNSET
    from msgspec.structs import replace

    from dpbayes_cli.bundle.assemble import differing_groups, effects, inference_report, summary
    from dpbayes_cli.bundle.document_parts import Width
    from dpbayes_cli.bundle.files import STATES, keys_of, rounded_states, states_csv
    from dpbayes_cli.bundle.group_table import write_groups
    from dpbayes_cli.bundle.read import read_bundle
    from dpbayes_cli.bundle.report.intervals import sampled_intervals
    from dpbayes_cli.bundle.report.result_sentence import stated_results
    from dpbayes_cli.bundle.samples import check_format, sample_labels, write_samples
    from dpbayes_cli.bundle.stated_request import remember
    from dpbayes_cli.bundle.write import check_target, new_directory, write_new
    from dpbayes_cli.workflow.inferring import infer_again

    contents = read_bundle(bundle)
    document = contents.document
    if out is not None:
        check_target(out)
        check_format(changes.get("inference", {}).get("format", contents.spec.inference.format))
    again = infer_again(contents, changes, seed, more=more)
    spec, analysis = again.spec, again.analysis
    if more and not analysis.posterior.diagnostics:
        raise click.UsageError("--more continues Markov chains, but this posterior needs none: leave --more out")
    named = list(zip(analysis.parameters, analysis.marginals, strict=True))
    posterior = {name: summary(marginal) for name, marginal in named}
    report = inference_report(spec, analysis)
    shown = replace(
        document,
        spec=spec.stated_in_full,
        posterior=posterior,
        width={name: Width(sd_data=m.sd_data, sd_noise=m.sd_noise) for name, m in named if m.sd_data or m.sd_noise},
        inference=report,
        effects=effects(analysis),
        extreme_larger_groups=UNSET,
    )
    shown = replace(shown, **differing_groups(keys_of(document, document.spec), analysis))
    remember(shown, spec, analysis.model)
    shown = replace(shown, results=stated_results(shown, analysis.samples))
    remember(shown, spec, analysis.model)
    result = {
        "release_id": document.release_id,
        "bundle": str(bundle),
        "model": document.model,
        "mechanism": document.mechanism,
        "guarantee": msgspec.to_builtins(document.guarantee),
        "prior": msgspec.to_builtins(spec.prior),
        "results": msgspec.to_builtins(shown.results),
        "posterior": msgspec.to_builtins(posterior),
        **({} if shown.effects is UNSET else {"effects": msgspec.to_builtins(shown.effects)}),
        "posterior_predictive": analysis.predictive,
        "inference": msgspec.to_builtins(report),
        "seed": again.seed,
        "out": None if out is None else str(out),
    }
    if out is not None:
        with new_directory(out) as directory:
            write_new(directory / "posterior.json", (json.dumps(result, indent=2) + "\n").encode("utf-8"))
            labels = sample_labels(document, report)
            write_samples(directory / report.samples_file, analysis, spec.inference.format, labels)
            if analysis.groups is not None:
                keys = keys_of(document, document.spec)
                write_groups(directory, keys, analysis.model, analysis.groups, analysis.group_draws)
            states = states_csv(analysis.model, rounded_states(analysis.states))
            if states is not None:
                write_new(directory / STATES, states)
        say(f"wrote {report.samples} samples to {out}")
    if as_json:
        emit_json(result)
    else:
        emit_posterior(shown, sampled_intervals(shown, analysis.samples, interval))
        say(f"{report.method}: {report.how}; nothing was charged")
