"""The summary of a study of adversarial data, and what Foulds et al. 2016 say of their Figure 8."""

from __future__ import annotations

from collections.abc import Sequence

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.adversarial_data.cell import AdversaryCell
from dpbayes_cli.experiments.adversarial_data.study import AdversarialStudy
from dpbayes_cli.experiments.claims import OURS, Claim
from dpbayes_cli.experiments.store import FinishedCell
from dpbayes_cli.experiments.tables import Results

SOURCE = "[F] Figure 8"
_REACHED = 0.95
"""The share of the worst case that counts as reached."""


def summary_markdown(study: AdversarialStudy, results: Results[AdversaryCell], figures: Sequence[str]) -> bytes:
    """Return the bytes of ``summary.md`` without its claims."""
    lines = [
        f"# Study `{study.name}`",
        f"**{NOT_PRIVATE}.** An adversary adds records one by one, a success or a failure, whichever makes one draw of "
        "the truncated posterior lose more on the data set. Nothing is random: the law of a draw on its public grid is "
        "known, and so is the loss.",
        _table(study, results),
        "## Figures\n\n" + "\n".join(f"- [{name}]({name})" for name in figures),
        "`local epsilon`: the largest log ratio of the law of a draw to that under a neighbor of this data set. "
        "`worst case`: what is charged as pure epsilon. `local divergence`, `charged at order 2`: the same of Renyi "
        "divergence of order 2; what is charged is the largest over all data sets of that many records.",
    ]
    return ("\n\n".join(lines) + "\n").encode("utf-8")


def _table(study: AdversarialStudy, results: Results[AdversaryCell]) -> str:
    lines = [
        "## Paths",
        "",
        "| case | support | records | local epsilon | worst case | share | local divergence | charged at order 2 |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for cell, result in results:
        found, support = result.measures, cell.case.support
        lines.append(
            f"| {cell.name} | {support[0]:g} to {support[1]:g} | {study.n} | {found['reached']:.4f} "
            f"| {found['worst_case']:.4f} | {found['share']:.1%} | {found['divergence']:.4g} "
            f"| {found['largest_divergence']:.4g} |"
        )
    return "\n".join(lines)


def claims(_study: AdversarialStudy, results: Results[AdversaryCell]) -> list[Claim]:
    """Return the claims of Figure 8, case by case; see ``Kind.claims``."""
    return [claim for cell, result in results for claim in (_approaches(cell, result), _typical(cell, result))]


def _approaches(cell: AdversaryCell, result: FinishedCell) -> Claim:
    """The loss on the adversary's data rises to what is charged, and never above."""
    losses, worst = result.trials["local_epsilon"], float(str(result.measures["worst_case"]))
    share, first = losses[-1] / worst, losses[0] / worst
    at = next((n for n, loss in enumerate(losses, start=1) if loss >= 0.9 * worst), None)
    return Claim(
        SOURCE,
        f"{cell.name}: the local epsilon of a posterior sample approaches the worst case as records are added.",
        _REACHED <= share <= 1.0 and first < share and max(losses) <= worst,
        f"{losses[-1]:.4f} of {worst:.4f} ({share:.1%}) at n = {cell.trials}, {first:.1%} at n = 1; 90 % from "
        f"{'no n on' if at is None else f'n = {at} on'}",
        "It is the limit of many records; and a cell of a public grid is drawn, whose middle is half a cell from the "
        "end of the support.",
    )


def _typical(cell: AdversaryCell, result: FinishedCell) -> Claim:
    """What a budget of curves pays is small where the worst case is reached."""
    measures = result.measures
    first, last = (result.trials["local_divergence"][k] for k in (0, -1))
    charged, by_range = float(str(measures["largest_divergence"])), float(str(measures["divergence_by_range"]))
    return Claim(
        OURS,
        f"{cell.name}: the worst case is one of draws that hardly occur: the Renyi divergence falls with n.",
        last <= charged < by_range and last < first,
        f"divergence of order 2 on the adversary's data {first:.3f} at n = 1, {last:.2g} at n = {cell.trials}; there "
        f"{charged:.3f} is charged, the largest over all data sets, where the range alone implies {by_range:.3g}",
    )
