"""``dpbayes infer``: analyze a bundle again; post-processing, without data, ledger or cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.options import PATH, bundle_argument
from dpbayes_cli.commands.output import emit_result, output_options, posterior_lines, say
from dpbayes_cli.commands.request_command import merge, pop_document, request_options
from dpbayes_cli.spec.request_flags import AFTERWARDS

if TYPE_CHECKING:
    from dpbayes_cli.bundle.read import Bundle
    from dpbayes_cli.core.model import Model
    from dpbayes_cli.spec.release_spec import ReleaseSpec


@click.command("infer")
@bundle_argument
@request_options(*AFTERWARDS)
@click.option("--seed", type=click.IntRange(min=0), metavar="S", help="Seed of the samples [derived from the bundle].")
@click.option(
    "--out",
    type=PATH,
    metavar="DIR",
    help="Write posterior.json, the samples and the states of a hidden Markov model here.",
)
@output_options
def command(bundle: Path, seed: int | None, out: Path | None, as_json: bool, **flags: Any) -> None:
    """Compute the posterior of BUNDLE again: with more samples, another prior or another method. Costs nothing.

    \b
    dpbayes infer out/ --samples 100000 --prior alpha=2,beta=5 --seed 1 --out again/

    The bundle is public already: the command needs neither the data nor the ledger, and no budget. It does not change
    the bundle.
    """
    import json

    import msgspec

    from dpbayes_cli.bundle.analysis import analyze
    from dpbayes_cli.bundle.assemble import inference_report, summary
    from dpbayes_cli.bundle.files import STATES, inferred_states_csv, payload_of, sampling_seed
    from dpbayes_cli.bundle.read import read_bundle
    from dpbayes_cli.bundle.samples import check_format, sample_labels, write_samples
    from dpbayes_cli.bundle.write import check_target, new_directory, write_new

    contents = read_bundle(bundle)
    document = contents.document
    if out is not None:
        check_target(out)
    released = payload_of(document)
    spec, model = _change_request(contents, pop_document(flags))
    if out is not None:
        check_format(spec.inference.format)
    used_seed = sampling_seed(document.release_id, released) if seed is None else seed
    analysis = analyze(spec, model, contents.mechanism, released, document.n_records, used_seed)
    named = zip(analysis.parameters, analysis.marginals, strict=True)
    posterior = {name: summary(marginal) for name, marginal in named}
    report = inference_report(spec, analysis)
    result = {
        "release_id": document.release_id,
        "bundle": str(bundle),
        "model": document.model,
        "mechanism": document.mechanism,
        "guarantee": msgspec.to_builtins(document.guarantee),
        "prior": msgspec.to_builtins(spec.prior),
        "posterior": msgspec.to_builtins(posterior),
        "posterior_predictive": analysis.predictive,
        "inference": msgspec.to_builtins(report),
        "seed": used_seed,
        "out": None if out is None else str(out),
    }
    if out is not None:
        with new_directory(out) as directory:
            write_new(directory / "posterior.json", (json.dumps(result, indent=2) + "\n").encode("utf-8"))
            labels = sample_labels(document, report)
            write_samples(directory / report.samples_file, analysis, spec.inference.format, labels)
            states = inferred_states_csv(analysis)
            if states is not None:
                write_new(directory / STATES, states)
        say(f"wrote {report.samples} samples to {out}")
    emit_result(result, *posterior_lines(posterior, report.warnings), as_json=as_json)
    if not as_json:
        say(f"{report.method}: {report.how}; nothing was charged")


def _change_request(contents: Bundle, changes: dict[str, Any]) -> tuple[ReleaseSpec, Model]:
    """Return spec and model of a release with another prior or inference; a new prior replaces the old one entirely."""
    from dpbayes_cli.bundle.files import bounds_of
    from dpbayes_cli.spec.release_spec import build_spec
    from dpbayes_cli.spec.stored_spec import without_ignored_options

    if not changes:
        return contents.spec, contents.model
    before = without_ignored_options(contents.document.spec)
    spec = build_spec({**merge(before, changes), "prior": changes.get("prior", before["prior"])})
    return spec, spec.build_model(bounds_of(contents.document)) if "prior" in changes else contents.model
