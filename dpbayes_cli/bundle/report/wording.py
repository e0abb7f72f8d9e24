"""The sentences of the page, the Markdown report and the registry entry; text between backticks is code."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence

import msgspec

from dpbayes_cli.base.numeric import cost_text, float_text
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.document_parts import ReleasedGuarantee
from dpbayes_cli.core.columns import AnyColumn, Column, NumericColumn, RecordPolicy, has_stand_in, n_codes
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import (
    CountAt,
    Expression,
    FoundGroups,
    ProductOf,
    Statistic,
    SumsByGroup,
    TableCounts,
    can_be_null,
)

REUSE_COMMAND = "dpbayes infer BUNDLE --samples 100000 --seed 1"


def guarantee_text(guarantee: ReleasedGuarantee) -> str:
    """Return the parameters of a guarantee in one line, with epsilon and delta at the end."""
    parts = []
    if guarantee.mu is not None:
        parts.append(f"mu {cost_text(guarantee.mu)}")
    elif guarantee.rho is not None and guarantee.kind != "pure":
        parts.append(f"rho {cost_text(guarantee.rho)}")
    if guarantee.kind == "rdp":
        below = f" below order {guarantee.order_max:.6g}" if guarantee.order_max is not None else ""
        parts.append(f"Renyi curve{below}")
    if guarantee.epsilon is not None:
        parts.append(f"epsilon {cost_text(guarantee.epsilon)}, delta {float_text(guarantee.delta)}")
    return ", ".join(parts)


def guarantee_meaning(document: ReleaseDocument) -> str:
    """Return what the guarantee of a release means for a reader of its bundle, in sentences."""
    guarantee = document.guarantee
    one = "the content of one record", "the presence of one record"
    if has_units(document):
        one = "the records of one privacy unit", "the presence of one privacy unit with all its records"
    difference = one[guarantee.neighbors == "add-remove"]
    meaning = (
        "This guarantee limits how well a reader of this bundle, whatever else they know and however much they "
        f"compute, can tell apart two data sets that differ only in {difference}."
    )
    if guarantee.epsilon is not None:
        plus = f", plus {float_text(guarantee.delta)}" if guarantee.delta > 0 else ""
        meaning += (
            " The probability of any conclusion with one of these data sets is at most "
            f"exp({cost_text(guarantee.epsilon)}) = {_factor(guarantee.epsilon)} times its probability with the other "
            f"data set{plus}."
        )
    return f"{meaning} The privacy unit is {document.privacy_unit}."


def has_units(document: ReleaseDocument) -> bool:
    """Return whether a privacy unit may have several records, because a column holds the unit of each record."""
    return document.spec["privacy"].get("unit") is not None


def odds_text(guarantee: ReleasedGuarantee) -> str:
    """Return what a pure guarantee means for a reader who is undecided about one person; empty for other guarantees."""
    epsilon = guarantee.epsilon
    if epsilon is None or guarantee.delta > 0 or not 0 <= epsilon <= 10:
        return ""
    sure = math.ceil(1000.0 / (1.0 + math.exp(-epsilon))) / 10.0
    undecided = {
        "replace-one": "considers two contents of that record equally likely",
        "add-remove": "considers it as likely as not that this record is in the data",
    }[guarantee.neighbors]
    return (
        f"For example, suppose a reader knows every record except one record of one person, and {undecided}. After "
        f"seeing this bundle, the reader can be at most {sure:g} % sure of either possibility. Further releases from "
        "the same account may increase this certainty."
    )


def meanings(statistic: Statistic, columns: Sequence[AnyColumn], policy: RecordPolicy) -> dict[str, str]:
    """Return what a record adds to each component of a statistic, or to each table of its counts."""
    if statistic.transform is not None or not statistic.expressions:
        return {}
    if statistic.tables:
        droppable = {column.role for column in columns if not has_stand_in(policy, column)}
        return dict(_table_meaning(table, droppable) for table in statistic.tables)
    by_role, first = {column.role: column for column in columns}, statistic.expressions[0]
    if isinstance(first, FoundGroups) and not isinstance(columns[-1], NumericColumn):
        droppable = {column.role for column in columns if not has_stand_in(policy, column)}
        return dict([_table_meaning(TableCounts(first.roles, (0, n_codes(columns[-1]))), droppable)])
    if isinstance(first, SumsByGroup | FoundGroups):
        steps = n_codes(columns[-1]) - 1
        column = require_type(columns[-1], NumericColumn)
        low, high = float_text(column.lower), float_text(column.upper)
        no_key = "the key is not listed" if isinstance(first, SumsByGroup) else "there is no key"
        of_group = f"to its group; nothing if the number is invalid or {no_key}"
        if isinstance(first, SumsByGroup) and first.squares:
            scaled = f"where x is {column.role} with {low} to {high} mapped to {-steps} to {steps}, rounded to the grid"
            return {
                "sum": f"{2 * steps} x {of_group}; {scaled}",
                "square": f"x^2 {of_group}",
                "valid": f"{steps**2} {of_group}",
            }
        return {
            "sum": f"{column.role} ({low} to {high} mapped to {-steps} to {steps}), rounded to the grid, {of_group}",
            "valid": f"{steps} {of_group}",
        }
    numbers = [column for column in columns if isinstance(column, NumericColumn)]
    otherwise = "; 0 if the record is invalid" if can_be_null(policy, *numbers) else ""
    parts = zip(statistic.names, statistic.expressions, strict=True)
    return {name: _meaning(expression, by_role, otherwise) for name, expression in parts}


def _table_meaning(table: TableCounts, droppable: Container[str]) -> tuple[str, str]:
    *parents, child = table.roles
    name = f"count[{child}{'|' if parents else ''}{','.join(parents)}]"
    dropped = [role for role in table.roles if role in droppable]
    otherwise = f"; nothing if {' or '.join(dropped)} is invalid" if dropped else ""
    return name, f"1 to the cell of its {', '.join(table.roles)}{otherwise}"


def _meaning(expression: Expression, columns: Mapping[str, AnyColumn], otherwise: str) -> str:
    """Return what a record adds to one component of a statistic, in steps of the public grid."""
    if isinstance(expression, CountAt):
        column = columns[expression.role]
        level = column.described(expression.level) if isinstance(column, Column) else expression.level
        return f"1 if the record's {expression.role} is {level}, else 0"
    if not isinstance(expression, ProductOf):
        raise ValueError("a block of counts has more than one component")
    if not expression.roles:
        return f"{expression.weight}{otherwise}"
    weight = f"{expression.weight} times " if expression.weight != 1 else ""
    factors = []
    for role in expression.roles:
        number = columns.get(role)
        if not isinstance(number, NumericColumn):
            factors.append(f"(1 if {role.replace('=', ' is ', 1)}, else 0)")
            continue
        low, high = float_text(number.lower), float_text(number.upper)
        start = -number.steps if expression.centered else 0
        factors.append(f"{role} ({low} to {high} mapped to {start} to {number.steps})")
    return weight + " times ".join(factors) + f", rounded to the grid{otherwise}"


def _factor(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 50 else "an astronomical number of"


def records_text(document: ReleaseDocument) -> str:
    """Return the number of records, or that it is private."""
    if document.n_records is None:
        return "private"
    of_units = " privacy units" if has_units(document) else ""
    return f"{document.n_records:,}{of_units} (public under replace-one neighbors)"


def released_text(document: ReleaseDocument) -> str:
    """Return whether draws, estimates or statistics were released, in sentences."""
    if document.draws:
        plain = {name: value for name, value in document.parameters.items() if not isinstance(value, dict)}
        parameters = ", ".join(f"{name} {value}" for name, value in plain.items())
        if are_estimates(document):
            return (
                f"{len(document.draws)} private estimate{'s' * (len(document.draws) > 1)} of the mode of the posterior "
                f"({parameters}), and nothing else: no statistic, no summary of the data, and no posterior. Neither an "
                "estimate nor the spread of several estimates shows how uncertain a parameter is."
            )
        extras = ", with the states of all sequences at every step" if document.released_states else ""
        if not isinstance(document.log_weight, msgspec.UnsetType):
            extras += f", with the noisy log importance weight of their chain, {document.log_weight:.6g}"
        return (
            f"{len(document.draws)} draws from a private posterior ({parameters}){extras}, and nothing else: no "
            "statistic, and no summary of the data."
        )
    law = document.noise.law if document.noise else "no"
    noise = law.replace("-", " ").replace("laplace", "Laplace").replace("gaussian", "Gaussian")
    key, choice = choice_text(document)
    are = {"bounds": "bounds are", "tree": "tree is"}
    before = (
        f"The {are[key]} {choice}; the statistics cost {guarantee_text(document.guarantee.parts[1])}. " if key else ""
    )
    return (
        f"{before}The statistics are integers, each with independent {noise} noise. A released value may be negative "
        "or larger than any exact value can be; it is not clamped, because clamping would bias the posterior."
    )


ESTIMATE_HEADING = "The estimate of the posterior mode"


def are_estimates(document: ReleaseDocument) -> bool:
    """Return whether point estimates were released instead of posterior draws or statistics."""
    return document.inference.method == "estimates"


def draws_word(document: ReleaseDocument) -> str:
    """Return the plural noun for the released draws."""
    return "estimates" if are_estimates(document) else "draws"


def choice_text(document: ReleaseDocument) -> tuple[str, str]:
    """Return ``bounds`` or ``tree`` with what was found privately and its privacy cost; empty texts without any."""
    bounds, structure, parts = document.bounds, document.structure, document.guarantee.parts
    if not isinstance(structure, msgspec.UnsetType) and parts:
        edges = ", ".join(f"{parent} - {name}" for name, parents in structure.items() for parent in parents)
        return "tree", f"{edges}, found privately at a cost of {guarantee_text(parts[0])}"
    if isinstance(bounds, msgspec.UnsetType) or not parts:
        return "", ""
    interval = f"{bounds.lower:.10g} to {bounds.upper:.10g}"
    return "bounds", f"{interval}, found privately at a cost of {guarantee_text(parts[0])}"


def computed_text(document: ReleaseDocument) -> str:
    """Return how the posterior was computed, in sentences."""
    report = document.inference
    how = f"Method {report.method}: {report.how}."
    if report.monte_carlo_error > 0:
        how += f" The Monte Carlo error of the means is at most {report.monte_carlo_error:.2g} posterior sd."
    return how


def width_text(document: ReleaseDocument) -> str:
    """Return what the two parts of the posterior's width mean, in sentences."""
    if document.inference.method == "naive":
        return "The naive method treats the released values as exact, so it attributes no width to privacy."
    return (
        "Each posterior variance is a sum of two parts: sd^2 = (sd from the data)^2 + (sd from privacy)^2. The first "
        "part would remain if the exact statistics were known, and the second part comes from the noise that was added "
        "for privacy. Both are computed from the released values alone."
    )


def tables_text(document: ReleaseDocument) -> str:
    """Return a sentence about the file with all cells of a network; empty if there is no such file."""
    if isinstance(document.tables, msgspec.UnsetType):
        return ""
    return f"`tables.csv` holds every cell; its counts are {document.tables}."


def states_text(document: ReleaseDocument) -> str:
    """Return a sentence about the file with all hidden states; empty if there is no such file."""
    if isinstance(document.states, msgspec.UnsetType):
        return ""
    return "`states.csv` holds, for each sequence and step, the most likely state and the probability of every state."


def ledger_note(document: ReleaseDocument) -> str:
    """Return how to check a release against the ledger."""
    return (
        f"This release was charged as entry {document.ledger.sequence} of the custodian's ledger, with the hash "
        f"`{document.ledger.hash}`. `dpbayes budget verify` checks the ledger; if its entry "
        f"{document.ledger.sequence} has another hash, the ledger was replaced."
    )


def reuse_texts(document: ReleaseDocument) -> list[str]:
    """Return paragraphs on what a reader can do with a bundle; one of them may be ``REUSE_COMMAND``."""
    samples = document.inference.samples_file
    if document.draws:
        return [
            f"Computing anything from these {draws_word(document)} costs no privacy budget. Further "
            f"{draws_word(document)} cost privacy budget. `{samples}` holds the released {draws_word(document)}."
        ]
    return [
        "Everything in this bundle is public. Computing more from it, such as more samples, costs no privacy budget:",
        REUSE_COMMAND,
        f"`{samples}` holds {document.inference.samples:,} posterior samples; `release.json` holds everything in "
        "machine-readable form.",
    ]


def is_pooled(document: ReleaseDocument) -> bool:
    """Return whether the records are divided into groups whose parameters have a common law, which was learned."""
    return bool(document.spec.get("by")) and document.spec["inference"]["pooling"] == "partial"
