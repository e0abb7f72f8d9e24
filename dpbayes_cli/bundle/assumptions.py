"""The assumptions of a release's guarantee and of its posterior, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpbayes_cli.base.numeric import float_text
from dpbayes_cli.core.columns import AnyColumn, NumericColumn
from dpbayes_cli.core.noisy_observation import valid_count
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.privacy.key_threshold import KeyThreshold
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.release_spec import ReleaseSpec

_MAX_LISTED = 20
_RECORDS = {
    Neighbors.REPLACE_ONE: "Neighboring data sets differ in the content of one {unit}; the number of records is "
    "public.",
    Neighbors.ADD_REMOVE: "Neighboring data sets differ by one added or removed {unit}; the number of records is "
    "private, and this bundle depends on it only through the noisy statistics.",
}
_UNITS = {
    Neighbors.REPLACE_ONE: "Neighboring data sets differ in some or all records of one privacy unit; the number of "
    "units is public, and the number of records of each unit is private.",
    Neighbors.ADD_REMOVE: "Neighboring data sets differ by one added or removed privacy unit with all its records; the "
    "numbers of units and of records are private, and this bundle depends on them only through the noisy statistics.",
}
_GROUP_GUARANTEES = {
    "gdp": "k mu",
    "zcdp": "k^2 rho",
    "composition": "k epsilon for the steps with a pure guarantee and k^2 rho for the other steps",
    "composition with gdp": "k epsilon for the steps with a pure guarantee and k mu for the other steps",
}
"""The guarantee of a person with k records, by the kind of the guarantee of one record; k epsilon for other kinds."""
_DROPPED = "not counted, and their number is private"


def assumptions(
    spec: ReleaseSpec,
    columns: Sequence[AnyColumn],
    plan: Plan,
    record_unit: str,
    plug_ins: Mapping[tuple[str, str], Sequence[str]],
) -> list[str]:
    """Return the assumptions of the guarantee and of the posterior.

    Args:
        record_unit: for example, a physical line.
        plug_ins: the names and versions of foreign packages, and what of the release comes from each.
    """
    relation = _RECORDS if spec.privacy.unit is None else _UNITS
    sentences = [relation[spec.privacy.neighbors].format(unit=record_unit)]
    if record_unit == "physical line":
        sentences.append("A record is a line that ends at a line feed; text after the last line feed is a record too.")
    sentences += [
        _about_people(spec, plan),
        "The guarantee is for this release alone; the ledger adds up the costs of all releases of the account.",
        "The header, the declared domain, the prior and every option were chosen without looking at the records.",
    ]
    if plan.choice is not None:
        sentences += plan.choice.assumptions
    if plan.threshold is not None:
        sentences += _about_found_keys(plan.threshold)
    elif spec.by is not None:
        sentences.append(
            "The keys of the groups are public, and were chosen without looking at the records. A record with another "
            "key was counted in no group."
        )
    sentences.append(_about_invalid(spec, columns, plan))
    if any(isinstance(column, NumericColumn) and column.outside == "drop" for column in columns):
        sentences.append("Records with a number outside its bounds were not counted; the posterior accounts for this.")
    return [
        *sentences,
        "The operating system's random numbers are secret and unpredictable, and nobody observes the custodian's "
        "machine, its memory or the time that the computation takes.",
        *plan.final_step.law.assumptions,
        *(
            f"The release takes {' and '.join(parts)} from the package {name} {version}. dpbayes does not check the "
            "code of this package, on which the privacy guarantee depends."
            for (name, version), parts in plug_ins.items()
        ),
        "The posterior, but not the privacy guarantee, assumes that the model is true and that the records are "
        "independent given its parameters.",
    ]


def _about_found_keys(threshold: KeyThreshold) -> list[str]:
    reached = "counts added up to" if threshold.n_counts > 1 else "number of records was"
    return [
        "The keys of the groups were found in the data, and are the only text from the data in this bundle. A key was "
        f"published if its noisy {reached} at least {threshold.records:.6g}. With a probability of at most "
        f"{float_text(float(threshold.delta))}, which is part of delta, a key that only one person has is published.",
        "A text that is empty or longer than 128 bytes, or that holds a control character, was no key.",
        "The posterior accounts for the groups with few records, which are missing.",
    ]


def _about_people(spec: ReleaseSpec, plan: Plan) -> str:
    unit = spec.privacy.unit
    if unit is None:
        kind = plan.guarantee.kind
        if plan.threshold is not None:
            kind = plan.final_step.guarantee.kind
        if kind == "composition" and plan.final_step.guarantee.kind == "gdp":
            kind = "composition with gdp"
        faster = ", and a delta that grows faster than k" if plan.threshold is not None else ""
        weaker = f"the guarantee for this person is weaker: {_GROUP_GUARANTEES.get(kind, 'k epsilon')}{faster}."
        none = "no guarantee is stated for this person, because the Renyi curve covers one record only."
        return f"Each person has at most one record. If a person has k records, {none if kind == 'rdp' else weaker}"
    limit = unit.max_contributions
    kept = "one was" if limit == 1 else f"at most {limit:,} were"
    return (
        f"The column {unit.column!r} identifies people: no two people have the same value, and all records of a person "
        f"are well-formed and hold the same value. Of the records that share a value, {kept} kept; a hash with a "
        "secret key chose them, independently of the order of the records. All malformed records and all records "
        "without a value in this column together form one unit. A value stands for the same person in all data that "
        "are charged to the account."
    )


def _about_invalid(spec: ReleaseSpec, columns: Sequence[AnyColumn], plan: Plan) -> str:
    invalid, impute = "Missing, malformed and undeclared values", spec.policy.impute
    stand_ins = [f"{column.role}: {column.impute!r}" for column in columns if column.impute is not None]
    if stand_ins:
        more = f" and {len(stand_ins) - _MAX_LISTED} more, see the spec" if len(stand_ins) > _MAX_LISTED else ""
        counted = f"counted as public stand-ins ({', '.join(stand_ins[:_MAX_LISTED])}{more})"
        others = f"counted as {impute!r}" if impute is not None else _DROPPED
        rest = "" if len(stand_ins) == len(columns) else f" Such values in other columns were {others}."
        return (
            f"{invalid} were {counted}. The custodian states that these stand-ins are fair; if many values are "
            f"missing, they bias the posterior.{rest}"
        )
    if impute is not None:
        return (
            f"{invalid} were counted as {impute!r}. The custodian states that this stand-in is fair; if many values "
            "are missing, it biases the posterior."
        )
    consequence = (
        f"The posterior averages over the unknown number of valid records, {_prior_of_count(spec, columns)}."
        if plan.final_step.rows is None
        else "A record with such a value was left out entirely."
    )
    return f"{invalid} were {_DROPPED}. {consequence}"


_PRIORS_OF_COUNT = {
    "mostly-valid": "whose prior gives probability 1/2 to the case that all records are valid; otherwise, log(1 + "
    "number of invalid records) is uniform",
    "perhaps-valid": "whose prior is uniform, except that the case that all records are valid is as probable as the "
    "numbers within one standard deviation of the noise on the number together (at most 1/2)",
}


def _prior_of_count(spec: ReleaseSpec, columns: Sequence[AnyColumn]) -> str:
    """Return what the posterior assumes about the number of valid records before it sees the statistics."""
    if spec.by is not None:
        return "whose law over the groups was learned from the noisy statistics"
    numbers = [column for column in columns if isinstance(column, NumericColumn)]
    is_mostly_n = spec.policy.neighbors is Neighbors.REPLACE_ONE and valid_count(spec.policy, 1, *numbers).is_mostly_n
    prior = spec.inference_options.value("count_prior") if is_mostly_n else "uniform"
    return _PRIORS_OF_COUNT.get(prior, "which has a uniform prior")
