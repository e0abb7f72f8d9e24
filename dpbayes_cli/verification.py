"""Is a bundle what it says? Everything in it is derived again from its question and its draw, and compared.

What a draw was cannot be checked, for nobody may see the data twice; that it is a possible one can. Whether it was
charged, the ledger says.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import msgspec

from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.assemble import Parts, assemble
from dpbayes_cli.bundle.document import ReleaseDocument, SealedDraw, parse_document
from dpbayes_cli.bundle.files import REPORT, analysis_of, bounds_of, spec_of
from dpbayes_cli.bundle.place import render
from dpbayes_cli.bundle.read import read_document, read_file
from dpbayes_cli.canonical import digest
from dpbayes_cli.contracts import Mechanism, Model, Plan
from dpbayes_cli.errors import DpbayesError, VerificationError
from dpbayes_cli.ledger.charging import price_text
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.state import ReleaseRecord, State
from dpbayes_cli.pricing import planned_between, price
from dpbayes_cli.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.statistic import ProductOf, Statistic, TableCounts

_UNLIKELY = 80.0
"""Noise that is e^-80 as likely as none is not a draw: the chance over a million statistics is below 1e-27."""
_COMPUTED = ("posterior", "width", "posterior_predictive", "inference", "states")
"""What is computed in floats, where other versions of libraries may round otherwise."""
_WORDED = ("assumptions", "corrections", "meanings", "privacy_unit", "tables")
"""What is put in words, which another version of dpbayes may choose otherwise."""
_LARGEST_MESSAGE = 20


@dataclass
class Verification:
    """What a check of a bundle found.

    Attributes:
        document: the release.
        spec: its question.
        checked: what was checked, one phrase each.
        unchecked: what could not be, and why.
        findings: what is wrong, one sentence each; none: the bundle is what it says.
        uncertain: files that another version of the software writes otherwise.
    """

    document: ReleaseDocument
    spec: ReleaseSpec
    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    uncertain: set[str] = field(default_factory=set)


def verify_bundle(bundle: Path, ledger: Ledger | None) -> Verification:
    """Check a bundle: its schema, its files, its promise, its statistics, and that the ledger charged it.

    Args:
        bundle: the directory.
        ledger: where it was charged; None: whoever has the bundle has no ledger.

    Raises:
        OutputError: there is no bundle.
        VerificationError: its release document cannot be understood at all.
        LedgerError: the ledger cannot be read.
    """
    document = read_document(bundle)
    spec = spec_of(document)
    found = Verification(document, spec, ["the release document is one of this schema, and holds its question in full"])
    model, mechanism, plan = _planned(spec, document)
    analysis = analysis_of(document)
    _check_derived(
        found,
        Parts(
            release_id=document.release_id,
            account=document.account,
            draw=_draw_of(document),
            spec=spec,
            model=model,
            mechanism=type(mechanism),
            plan=plan,
            analysis=analysis,
            account_delta=Decimal(repr(document.guarantee.delta)),
            ledger_sequence=document.ledger.sequence,
            ledger_hash=document.ledger.hash,
        ),
    )
    _check_values(found, spec, model, plan)
    files = _check_files(found, bundle, analysis)
    if ledger is None:
        found.unchecked.append("whether the ledger charged it, and published these files: no ledger was asked")
    else:
        _check_ledger(found, spec, plan, ledger, files)
    return found


def _planned(spec: ReleaseSpec, document: ReleaseDocument) -> tuple[Model, Mechanism, Plan]:
    """Price the question again, at the number of records that the bundle states.

    Raises:
        VerificationError: the question has no price.
    """
    try:
        model, mechanism, plan = price(spec, document.n_records)
        bounds = bounds_of(document)
        if bounds is not None:
            model, plan = planned_between(spec, mechanism, plan, document.n_records, bounds)
    except DpbayesError as error:
        raise VerificationError(
            "the question of the bundle cannot be priced, so that it has no guarantee", findings=[str(error)]
        ) from None
    return model, mechanism, plan


def _draw_of(document: ReleaseDocument) -> SealedDraw:
    """Return the draw that a document was made of."""
    return SealedDraw(
        created=document.created,
        record_unit=document.record_unit,
        n_records=document.n_records,
        statistics=document.statistics,
        noise=document.noise,
        draws=document.draws,
        drawn_states=document.drawn_states,
        log_weight=document.log_weight,
        bounds=document.bounds,
    )


def _check_derived(found: Verification, parts: Parts) -> None:
    """Compare all that follows from question and draw with what the document says."""
    document = found.document
    derived = parse_document(assemble(parts).payload())
    if document.software.keys() != derived.software.keys():
        found.findings.append("software: other keys than a release states")
    exempt = {"software"}
    if document.software != derived.software:
        made = ", ".join(f"{name} {version}" for name, version in document.software.items())
        found.unchecked.append(f"the digits of the posterior and the samples: they were computed by {made}")
        found.uncertain.add(document.inference.samples_file)
        exempt |= {*_COMPUTED}
    if document.software.get("dpbayes") != derived.software["dpbayes"]:
        found.unchecked.append("the words of assumptions, corrections and report, which are those of another version")
        found.uncertain.add(REPORT)
        exempt |= {*_WORDED}
    for name in document.__struct_fields__:
        if name not in exempt and getattr(document, name) != getattr(derived, name):
            found.findings.append(f"{name}: not what follows from the question and the draw")
    units = {"parsed record"} if parts.spec.source.quoted_newlines else {"physical line", "row"}
    if document.record_unit not in units:
        found.findings.append(f"record_unit: not one of {', '.join(sorted(units))}")
    found.checked.append(
        f"the guarantee, derived again from the question alone: {price_text(parts.plan.guarantee)} under "
        f"{parts.spec.privacy.neighbors} neighbours"
    )
    followed = [name for name in document.__struct_fields__ if name not in exempt]
    found.checked.append(f"what follows from the question and the draw: {', '.join(followed)}")


def _check_values(found: Verification, spec: ReleaseSpec, model: Model, plan: Plan) -> None:
    """Check that what was released is a possible outcome."""
    document = found.document
    if document.draws:
        support = getattr(plan.answer.law, "support", None)
        for values in document.draws:
            if not all(math.isfinite(value) for value in values):
                found.findings.append("draws: not all are finite")
                return
            if support is not None and not all(support[0] <= value <= support[1] for value in values):
                found.findings.append(
                    f"draws: not all are between {support[0]:g} and {support[1]:g}, where they are drawn"
                )
                return
        found.checked.append("the draws are where such draws can be")
        return
    statistic, law = plan.answer.statistic, plan.answer.noise
    stated = {**law.serialize()}
    if document.noise is None or msgspec.to_builtins(document.noise) != stated:
        found.findings.append("noise: not the law that the plan calibrates")
        return
    limits = list(_limits(statistic, model, _most_records(spec, document.n_records)))
    for released, (low, high) in zip(document.statistics, limits, strict=True):
        radius = _law_of(document.noise.law, released.noise_scale).radius(_UNLIKELY)
        if not low - radius <= released.value <= high + radius:
            found.findings.append(f"statistics: {released.name} is beyond what its noise can make of any data")
    found.checked.append("the statistics are possible: within what any data and their noise can give")


def _law_of(kind: str, scale: float) -> NoiseLaw:
    return DiscreteLaplace(scale) if kind == "discrete-laplace" else DiscreteGaussian(scale)


def _most_records(spec: ReleaseSpec, n_records: int | None) -> float:
    """Return how many records there can be; infinite where nobody may know."""
    if n_records is None:
        return math.inf
    return float(n_records * spec.policy.contributions)


def _limits(statistic: Statistic, model: Model, n_records: float) -> Iterator[tuple[float, float]]:
    """Yield for each component the least and the largest exact value that so many records can have."""
    if statistic.transform is not None:
        yield from [(-n_records, n_records)] * len(statistic.names)
        return
    steps = {column.role: getattr(column, "steps", 1) for column in model.columns}
    for expression in statistic.expressions:
        if isinstance(expression, ProductOf):
            largest = abs(expression.weight) * math.prod(steps[role] for role in expression.roles) * n_records
            yield (-largest if expression.centred or expression.weight < 0 else 0.0, largest)
        else:
            size = expression.size if isinstance(expression, TableCounts) else 1
            yield from [(0.0, n_records)] * size


def _check_files(found: Verification, bundle: Path, analysis: Analysis) -> dict[str, str]:
    """Compare the files with what the document makes of them; return the digests of those that are there."""
    document = found.document
    with tempfile.TemporaryDirectory() as directory:
        made = render(document, analysis, Path(directory))
    content = {name: read_file(bundle / name) for name in made}
    digests = {name: digest("file", each) for name, each in content.items() if each is not None}
    for name, expected in made.items():
        if name not in digests:
            found.findings.append(f"{name} is missing, or no regular file")
        elif digests[name] != expected and name not in found.uncertain:
            found.findings.append(f"{name}: not what follows from release.json")
    strange = sorted(set(os.listdir(bundle)) - set(made))  # noqa: PTH208 - names alone
    for name in strange[:_LARGEST_MESSAGE]:
        found.findings.append(f"{name!r} does not belong to the bundle")
    found.checked.append(f"the files follow from release.json: {', '.join(sorted(set(made) - found.uncertain))}")
    return digests


def _check_ledger(found: Verification, spec: ReleaseSpec, plan: Plan, ledger: Ledger, files: Mapping[str, str]) -> None:
    """Check that the ledger verifies, and charged and published just this."""
    document = found.document
    findings, state = ledger.findings()
    found.findings += [f"the ledger: {finding}" for finding in findings]
    record = _record_of(state, document)
    if record is None:
        found.findings.append(f"the ledger {ledger.location!r} knows no release {document.release_id} of this account")
        return
    reference = document.ledger
    if (record.sequence, record.hash) != (reference.sequence, reference.hash):
        found.findings.append("ledger: the entry that charged this release is another")
    if record.guarantee != plan.guarantee:
        found.findings.append(
            f"the ledger charged {price_text(record.guarantee)}, and the question costs {price_text(plan.guarantee)}"
        )
    if record.request_digest != spec.request_digest:
        found.findings.append("the ledger charged another question")
    if record.published is None:
        found.findings.append("the ledger has not published this release: run the command that began it again")
    else:
        if record.document != digest("payload", document.payload()):
            found.findings.append("release.json is not the document that the ledger keeps")
        differing = [name for name, expected in record.published.items() if files.get(name) != expected]
        found.findings += [f"{name}: not the file that the ledger saw published" for name in differing]
    found.checked.append(f"the ledger verifies, charged this in entry {record.sequence} and published these files")


def _record_of(state: State, document: ReleaseDocument) -> ReleaseRecord | None:
    account = state.accounts.get(document.account)
    return None if account is None else account.releases.get(document.release_id)
