"""The plain words that every form of the report shares; a code span is between backticks, as in Markdown."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence

import msgspec

from dpbayes_cli.base.numeric import float_text
from dpbayes_cli.bundle.document import ReleasedGuarantee, ReleaseDocument
from dpbayes_cli.core.columns import AnyColumn, Column, NumericColumn, RecordPolicy, has_stand_in
from dpbayes_cli.core.statistic import CodeCounts, CountAt, Expression, Statistic, TableCounts, can_be_null

REUSE_COMMAND = "dpbayes infer BUNDLE --samples 100000 --seed 1"


def guarantee_text(guarantee: ReleasedGuarantee) -> str:
    """Return a guarantee in one line, its own notion first."""
    parts = []
    if guarantee.rho is not None:
        parts.append(f"rho {float_text(guarantee.rho)}")
    if guarantee.kind == "gdp" and guarantee.mu is not None:
        parts.append(f"mu {float_text(guarantee.mu)}")
    if guarantee.kind == "rdp":
        below = f" below order {guarantee.order_max:.6g}" if guarantee.order_max is not None else ""
        parts.append(f"Renyi curve{below}")
    if guarantee.epsilon is not None:
        parts.append(f"epsilon {float_text(guarantee.epsilon)}, delta {float_text(guarantee.delta)}")
    return ", ".join(parts)


def guarantee_meaning(document: ReleaseDocument) -> str:
    """Return what a guarantee means, in sentences."""
    guarantee = document.guarantee
    neighbors = {
        "replace-one": "the content of one record, the number of records being the same",
        "add-remove": "the presence of one record",
    }[guarantee.neighbors]
    if has_units(document):
        neighbors = {
            "replace-one": "all records of one privacy unit, the number of units being the same",
            "add-remove": "the presence of one privacy unit with all its records",
        }[guarantee.neighbors]
    meaning = (
        "Whoever sees this bundle, with whatever else they know and however much they compute, can hardly tell two "
        f"data sets apart that differ in {neighbors}"
    )
    if guarantee.epsilon is not None:
        epsilon, but = float_text(guarantee.epsilon), ""
        if guarantee.delta > 0:
            but = f" but for an event of probability {float_text(guarantee.delta)},"
        meaning += (
            f":{but} any conclusion they draw was at most exp({epsilon}) = {_factor(guarantee.epsilon)} times as "
            "likely with one as with the other"
        )
    return f"{meaning}. The privacy unit is {document.privacy_unit}."


def has_units(document: ReleaseDocument) -> bool:
    """Return whether a column says whose a record is, so that a unit may have several."""
    return document.spec["privacy"].get("unit") is not None


def odds_text(guarantee: ReleasedGuarantee) -> str:
    """Return what a pure guarantee means for one who was undecided about a person; nothing for other notions."""
    epsilon = guarantee.epsilon
    if epsilon is None or guarantee.delta > 0 or not 0 <= epsilon <= 10:
        return ""
    sure = math.ceil(1000.0 / (1.0 + math.exp(-epsilon))) / 10.0
    undecided = {
        "replace-one": "which of two contents a person's record has",
        "add-remove": "whether a person's record is among the data",
    }[guarantee.neighbors]
    return (
        f"For example: whoever knew every other record, and held it for equally likely {undecided}, can be at most "
        f"{sure:g} % sure after seeing this bundle. Other releases from the same account add to that."
    )


def meanings(statistic: Statistic, columns: Sequence[AnyColumn], policy: RecordPolicy) -> dict[str, str]:
    """Return for each component of a statistic what a record adds to it."""
    if statistic.transform is not None:
        return {}
    if statistic.tables:
        open_ones = {column.role for column in columns if not has_stand_in(policy, column)}
        return dict(_table_meaning(table, open_ones) for table in statistic.tables)
    by_role = {column.role: column for column in columns}
    numbers = [column for column in columns if isinstance(column, NumericColumn)]
    otherwise = "; 0 if the record is not valid" if can_be_null(policy, *numbers) else ""
    parts = zip(statistic.names, statistic.expressions, strict=True)
    return {name: _meaning(expression, by_role, otherwise) for name, expression in parts}


def table_meanings(document: ReleaseDocument) -> dict[str, str]:
    """Return the meanings of whole tables, whose components are their cells."""
    names = {item.name for item in document.statistics}
    return {name: meaning for name, meaning in document.meanings.items() if name not in names}


def _table_meaning(table: TableCounts, droppable: Container[str]) -> tuple[str, str]:
    """Return the name of a table and what a record adds to its cells."""
    *parents, child = table.roles
    name = f"count[{child}{'|' if parents else ''}{','.join(parents)}]"
    dropped = [role for role in table.roles if role in droppable]
    otherwise = f"; nothing where {' or '.join(dropped)} is not valid" if dropped else ""
    return name, f"1 to the cell of the record's own {', '.join(table.roles)}{otherwise}"


def _meaning(expression: Expression, columns: Mapping[str, AnyColumn], otherwise: str) -> str:
    """Return what a record adds, in words and in units of the public grid."""
    if isinstance(expression, CountAt):
        column = columns[expression.role]
        level = column.levels[expression.level] if isinstance(column, Column) else expression.level
        return f"1 if the record's {expression.role} is {level!r}, else 0"
    if isinstance(expression, CodeCounts | TableCounts):
        raise ValueError("a block has no meaning of one component")
    if not expression.roles:
        return f"{expression.weight}{otherwise}"
    weight = f"{expression.weight} times " if expression.weight != 1 else ""
    factors = []
    for role in expression.roles:
        column = columns[role]
        if not isinstance(column, NumericColumn):
            raise ValueError("a product is of numbers")
        low, high = float_text(column.lower), float_text(column.upper)
        start = -column.steps if expression.centered else 0
        factors.append(f"{role} on the scale from {start} at {low} to {column.steps} at {high}")
    return weight + " times ".join(factors) + f", rounded to that grid{otherwise}"


def _factor(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 50 else "an astronomical number of"


def records_text(document: ReleaseDocument) -> str:
    """Return the number of records, or that it is private."""
    if document.n_records is None:
        return "private"
    of_units = " privacy units" if has_units(document) else ""
    return f"{document.n_records:,}{of_units} (public under replace-one neighbors)"


def released_text(document: ReleaseDocument) -> str:
    """Return what kind of thing was released, in sentences."""
    if document.draws:
        plain = {name: value for name, value in document.parameters.items() if not isinstance(value, dict)}
        found = ", ".join(f"{name} {value}" for name, value in plain.items())
        if are_estimates(document):
            return (
                f"{len(document.draws)} private estimate{'s' * (len(document.draws) > 1)} of the mode of the posterior "
                f"({found}), and nothing else: no statistic, no summary of the data, and no posterior. How uncertain "
                "the parameter is cannot be told from an estimate, nor from how far several lie apart."
            )
        beside = ", with the states of all sequences at every step" if document.released_states else ""
        if not isinstance(document.log_weight, msgspec.UnsetType):
            beside += f", the log importance weight of their chain with noise, {document.log_weight:.6g}"
        return (
            f"{len(document.draws)} draws from a private posterior ({found}){beside}, and nothing else: no statistic, "
            "and no summary of the data."
        )
    noise = document.noise.law.replace("-", " ") if document.noise else "no"
    found = bounds_text(document)
    before = (
        f"First the bounds: {found}. Then, at {guarantee_text(document.guarantee.parts[1])}, what follows. "
        if found
        else ""
    )
    return (
        f"{before}Exact integer statistics plus independent {noise} noise. A value may be negative or too large; it is "
        "published as drawn, because cutting it would bias what follows."
    )


ESTIMATE_HEADING = "The estimate of the posterior's mode"


def are_estimates(document: ReleaseDocument) -> bool:
    """Return whether point estimates were released, which are no samples of a posterior."""
    return document.inference.method == "estimates"


def draws_word(document: ReleaseDocument) -> str:
    """Return what the released draws are called."""
    return "estimates" if are_estimates(document) else "draws"


def bounds_text(document: ReleaseDocument) -> str:
    """Return the bounds that were found privately and their price; nothing where they were stated."""
    bounds, parts = document.bounds, document.guarantee.parts
    if isinstance(bounds, msgspec.UnsetType) or not parts:
        return ""
    return f"{bounds.lower:.10g} to {bounds.upper:.10g}, found privately at {guarantee_text(parts[0])}"


def computed_text(document: ReleaseDocument) -> str:
    """Return how the posterior was computed, in sentences."""
    how = f"{document.inference.method}: {document.inference.how}."
    if document.inference.monte_carlo_error > 0:
        how += f" Monte-Carlo error of the means: at most {document.inference.monte_carlo_error:.2g} sd."
    return how


def width_text(document: ReleaseDocument) -> str:
    """Return what the split of the posterior's width means, in sentences."""
    if document.inference.method == "naive":
        return "The naive method takes the released values for the true ones, so it finds no width because of privacy."
    return (
        "sd^2 = (data)^2 + (privacy)^2: what the data would leave if the true counts were known, and what not knowing "
        "them adds. Both are computed from the released values alone."
    )


def noise_share(document: ReleaseDocument, name: str) -> float:
    """Return privacy's share of the posterior variance of a parameter, from 0 to 1."""
    sd = document.posterior[name].sd or 0.0
    return (document.width[name].sd_noise / sd) ** 2 if sd > 0 else 0.0


def ledger_note(document: ReleaseDocument) -> str:
    """Return how to check a release against the ledger."""
    return (
        f"Charged as entry {document.ledger.sequence} of the custodian's ledger, hash `{document.ledger.hash}`. "
        "`dpbayes budget verify` checks the ledger; an entry with this number and another hash means that it was "
        "exchanged."
    )


def reuse_texts(document: ReleaseDocument) -> list[str]:
    """Return what else can be made of a bundle, one paragraph each; ``REUSE_COMMAND`` is among them where it works."""
    samples = document.inference.samples_file
    if document.draws:
        return [
            f"Whatever is computed from these {draws_word(document)} costs nothing more, but there are no more of them "
            f"for free: each was paid for. `{samples}` holds them."
        ]
    return [
        "Everything in this bundle is public, and whatever is computed from it costs nothing more:",
        REUSE_COMMAND,
        f"`{samples}` holds {document.inference.samples:,} posterior samples; `release.json` holds everything in "
        "machine-readable form.",
    ]
