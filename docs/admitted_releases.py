"""The table of ``explanation/budgets.md``: how many releases of some requests an account admits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dpbayes_cli.ledger.admitted_releases import admitted_releases
from dpbayes_cli.ledger.union_budget import DEFAULT_EPSILON, UnionBudget
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.spec.yaml_reader import read_spec_file
from dpbayes_cli.workflow.account_costs import DELTA
from dpbayes_cli.workflow.pricing import price

DOCS = Path(__file__).parent
PAGE = DOCS / "explanation/budgets.md"
SPECS = DOCS.parent / "configs/releases"
BERNOULLI = {"model": "beta-bernoulli", "mechanism": "laplace"}
EPSILONS = ("0.1", "0.3", "1")
BLOCK = re.compile(r"(<!-- admitted releases: .*? -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def requests() -> dict[str, dict[str, Any]]:
    """Return the specs of the table by their descriptions, without privacy costs."""
    adult = read_spec_file(SPECS / "adult-naive-bayes.yaml")
    drawn = {**adult, "mechanism": "ops", "records": 30_000}
    return {
        "`beta-bernoulli`, invalid cells are imputed": {**BERNOULLI, "on_invalid": "impute:0", "privacy": {}},
        "`beta-bernoulli`, invalid records are dropped": {**BERNOULLI, "privacy": {}},
        "`hmm` of 5 features (`events-hmm.yaml`)": read_spec_file(SPECS / "events-hmm.yaml"),
        "`naive-bayes` of Adult (`adult-naive-bayes.yaml`)": adult,
        "the same by `ops`, one draw": drawn,
    }


def admitted(request: dict[str, Any], epsilon: str) -> tuple[int, int]:
    """Return how many releases an account of epsilon 3 and delta 1e-6 admits, at the former cost and at today's."""
    spec = build_spec({**request, "privacy": {**request["privacy"], "epsilon": epsilon}})
    guarantee = price(spec, spec.records).plan.guarantee
    budget = UnionBudget.divide(DEFAULT_EPSILON, DELTA)
    return admitted_releases(budget, guarantee.former), admitted_releases(budget, guarantee)


def table() -> str:
    """Return the table in Markdown."""
    head = [f"epsilon {epsilon}, {when}" for epsilon in EPSILONS for when in ("before", "now")]
    lines = [f"| request | {' | '.join(head)} |", "|---|" + "---:|" * len(head)]
    for name, request in requests().items():
        cells = [f"{number:,}" for epsilon in EPSILONS for number in admitted(request, epsilon)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def budgets_page() -> str:
    """Return the page with the table as it is computed now."""
    return BLOCK.sub(lambda block: f"{block[1]}{table()}\n{block[3]}", PAGE.read_text(encoding="utf-8"))
