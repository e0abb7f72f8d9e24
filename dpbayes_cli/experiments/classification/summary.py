"""The summary of a classification study, stamped NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.classification.cell import ERRORS, SCORES, ClassificationCell
from dpbayes_cli.experiments.classification.comparison import CLEAR, differences
from dpbayes_cli.experiments.classification.records import POLICY, model_of
from dpbayes_cli.experiments.classification.structure import structure_of
from dpbayes_cli.experiments.classification.study import ClassificationStudy
from dpbayes_cli.experiments.tables import Results


def summary_markdown(study: ClassificationStudy, results: Results[ClassificationCell], figures: Sequence[str]) -> bytes:
    """Return the bytes of ``summary.md``."""
    lines = [
        f"# Study `{study.name}`",
        f"**{NOT_PRIVATE}.** How often the class of new records is predicted from what was released of a network.",
        f"{len(results)} cells, {study.draws} posterior draws a trial, seed {study.seed}. All methods and prices of a "
        "case see the same records. `ops` is drawn in floats: an idealized form of what would be released.",
        *(part for name in study.cases for part in _case(name, results)),
        "## Figures\n\n" + "\n".join(f"- [{name}]({name})" for name in figures),
        "`accuracy`: how often the most probable class is the true one. `log score`: mean log probability of the true "
        "class. `calibration`: expected calibration error. `error as released`, `error as taken`: mean distance of a "
        "table's cell from the exact count, before and after the tables are made possible (no negative counts, the "
        "known number of records, and with Fourier margins that agree). Plus or minus one standard error of the mean.",
    ]
    return ("\n\n".join(lines) + "\n").encode("utf-8")


def _case(name: str, results: Results[ClassificationCell]) -> list[str]:
    """Return the parts of the summary that a case has."""
    own = [(cell, result) for cell, result in results if cell.name == name]
    first, found = own[0][0], own[0][1].measures
    learned = f"{first.case.n_train} records" if first.case.train is None else f"`{first.case.train.split('/')[-1]}`"
    parts = [
        f"## {name}",
        f"`{first.case.model}`, learned from {learned}, {first.trials} trials. Always the commonest class: accuracy "
        f"{_shown(found, 'majority')}.",
        _table(own),
    ]
    compared = list(differences(name, results))
    if compared:
        parts += ["### Fourier against plain Laplace", structure_of(model_of(first), POLICY).sentence]
        parts += [statement(label, [(e, d) for what, e, d in compared if what == label]) for label in _labels(compared)]
    return parts


def _labels(compared: Sequence[tuple[str, str, Any]]) -> list[str]:
    return list(dict.fromkeys(label for label, _, _ in compared))


def _table(own: Results[ClassificationCell]) -> str:
    """Return a case's cells as a table."""
    lines = [
        "| epsilon | method | accuracy | log score | calibration | error as released | error as taken |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]
    for cell, result in own:
        found = result.measures
        shown = [_shown(found, measure) for measure in (*SCORES, *ERRORS)]
        lines.append(f"| {cell.epsilon or ''} | {cell.method} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _shown(found: dict[str, float | None], measure: str) -> str:
    """Return a measure with its standard error, empty where it was not measured."""
    value, error = found[measure], found[f"{measure}_se"]
    if value is None or error is None:
        return ""
    digits = 3 if abs(value) < 10 else 1
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def statement(label: str, found: Sequence[tuple[str, Any]]) -> str:
    """Return who wins at which price, in one sentence with its numbers, and then the differences.

    Args:
        label: what is compared.
        found: prices, and Fourier's measure less that of plain Laplace.
    """
    winners = {who: [e for e, d in found if d.verdict == who] for who in ("Fourier", "Laplace", "neither")}
    said = []
    if winners["Fourier"]:
        said.append(f"Fourier is better at epsilon {', '.join(winners['Fourier'])}")
    if winners["Laplace"]:
        said.append(f"plain Laplace is better at epsilon {', '.join(winners['Laplace'])}")
    if winners["neither"]:
        said.append(f"no difference of {CLEAR:g} standard errors is seen at epsilon {', '.join(winners['neither'])}")
    digits = 4 if found[0][1].sign > 0 else 2
    numbers = "; ".join(f"{e}: {d.value:+.{digits}f} ± {d.error:.{digits}f}" for e, d in found)
    what = "accuracy" if found[0][1].sign > 0 else "mean error of a cell"
    return f"**{label}**: {', '.join(said)}. {what[:1].upper()}{what[1:]}, Fourier less Laplace, by epsilon: {numbers}."
