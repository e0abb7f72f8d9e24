"""Is a bundle what it says? Everything in it is derived again from its question and its draw, and compared.

What a draw was cannot be checked, for nobody may see the data twice; that it is a possible one can. Whether it was
charged, the ledger says.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import msgspec

from dpbayes_cli.base.canonical import digest
from dpbayes_cli.base.errors import DpbayesError, VerificationError
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.assemble import Parts, assemble
from dpbayes_cli.bundle.document import ReleaseDocument, SealedDraw, parse_document
from dpbayes_cli.bundle.files import REPORT
from dpbayes_cli.bundle.place import largest_of, render
from dpbayes_cli.bundle.read import Bundle, analysis_of, file_digest, read_bundle
from dpbayes_cli.bundle.samples import are_samples
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.statistic import ProductOf, Statistic, TableCounts
from dpbayes_cli.ledger.charging import price_text
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.records import ReleaseRecord
from dpbayes_cli.ledger.state import State
from dpbayes_cli.privacy.step_law import StepLaw
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.spec.stored_spec import digest_of_request
from dpbayes_cli.workflow.pricing import PlannedRelease, price

_UNLIKELY = 80.0
"""Noise that is e^-80 as likely as none is not a draw: the chance over a million statistics is below 1e-27."""
_COMPUTED = ("posterior", "width", "posterior_predictive", "inference", "states")
"""What is computed in floats, where other versions of libraries may round otherwise."""
_WORDED = ("assumptions", "corrections", "meanings", "privacy_unit", "tables")
"""What is put in words, which another version of dpbayes may choose otherwise."""
EARLIER_CHAIN = (
    "Inside the chain floating-point numbers of double precision stand in for real ones: the gradient's sum, the "
    "normal numbers (quantiles of 54 secret bits) and the iterates. The released draws are rounded to a public grid."
)
"""What bundles state whose chain was drawn before the noise of chains was exact."""
_LARGEST_MESSAGE = 20
_LONGEST = 200
_CREATED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_RELEASE_ID = re.compile(r"[0-9a-f]{16}")


@dataclass
class Verification:
    """What a check of a bundle found.

    Attributes:
        bundle: the release, with its question.
        checked: what was checked, one phrase each.
        unchecked: what could not be, and why.
        findings: what is wrong, one sentence each; none: the bundle is what it says.
        uncertain: files that another version of the software writes otherwise.
    """

    bundle: Bundle
    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    uncertain: set[str] = field(default_factory=set)

    @property
    def document(self) -> ReleaseDocument:
        """The release document."""
        return self.bundle.document


def verify_bundle(directory: Path, ledger: Ledger | None) -> Verification:
    """Check a bundle: its schema, its files, its promise, its statistics, and that the ledger charged it.

    Args:
        directory: of the bundle.
        ledger: where it was charged; None: whoever has the bundle has no ledger.

    Raises:
        OutputError: there is no bundle.
        VerificationError: its release document cannot be understood at all.
        LedgerError: the ledger cannot be read.
    """
    bundle = read_bundle(directory)
    document, spec = bundle.document, bundle.spec
    found = Verification(bundle, ["the release document is one of this schema, and holds its question in full"])
    plan = _planned(bundle).plan
    _check_draw(document, plan)
    analysis = analysis_of(bundle)
    _check_derived(
        found,
        Parts(
            release_id=document.release_id,
            account=document.account,
            draw=_draw_of(document),
            spec=spec,
            mechanism=bundle.mechanism,
            plan=plan,
            analysis=analysis,
            account_delta=Decimal(repr(document.guarantee.delta)),
            ledger=document.ledger,
        ),
    )
    _check_values(found, plan)
    files = _check_files(found, directory, analysis)
    if ledger is None:
        found.unchecked.append("whether the ledger charged it, and published these files: no ledger was asked")
    else:
        _check_ledger(found, spec, plan, ledger, files)
    return found


def _planned(bundle: Bundle) -> PlannedRelease:
    """Price the question again, at the number of records that the bundle states.

    Raises:
        VerificationError: the question has no price.
    """
    n_records = bundle.document.n_records
    try:
        if bundle.spec.bounds is None:
            return price(bundle.spec, n_records, bundle.model)
        return price(bundle.spec, n_records).narrowed(bundle.model)
    except DpbayesError as error:
        raise VerificationError(
            "the question of the bundle cannot be priced, so that it has no guarantee", findings=[str(error)]
        ) from None


def _check_draw(document: ReleaseDocument, plan: Plan) -> None:
    """Refuse a draw of another law, or of another number, than the plan's, before anything is computed from it.

    Raises:
        VerificationError: it is.
    """
    answer = plan.final_step
    if not answer.law.adds_noise:
        if document.noise is not None or len(document.draws) != answer.draws:
            raise VerificationError(f"draws: not the {answer.draws} that were paid for")
        return
    stated = None if document.noise is None else msgspec.to_builtins(document.noise)
    scales = answer.noise.scales(len(document.statistics))
    if stated != answer.noise.serialize() or [each.noise_scale for each in document.statistics] != list(scales):
        raise VerificationError("noise: not the law that the plan calibrates")


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
    derived = _as_stated(found, parts.plan, parse_document(assemble(parts).payload()))
    if document.software.keys() != derived.software.keys():
        found.findings.append("software: other keys than a release states")
    exempt = {
        "schema_version",
        "software",
        "spec",
    }  # spec was compared when read: an earlier version states it otherwise
    if document.software != derived.software:
        made = ", ".join(f"{name} {version}" for name, version in document.software.items())[:_LONGEST]
        found.unchecked.append(f"posterior, width, states, inference and samples, in their digits: computed by {made}")
        found.uncertain.add(document.inference.samples_file)
        exempt |= {*_COMPUTED}
        for name in ("method", "exact", "samples", "samples_format"):
            if getattr(document.inference, name) != getattr(derived.inference, name):
                found.findings.append(f"inference.{name}: not what follows from the question")
    if document.software.get("dpbayes") != derived.software["dpbayes"]:
        found.unchecked.append("the words of assumptions, corrections and report, which are those of another version")
        found.uncertain.add(REPORT)
        exempt |= {*_WORDED}
    for name in document.__struct_fields__:
        if name not in exempt and getattr(document, name) != getattr(derived, name):
            found.findings.append(f"{name}: not what follows from the question and the draw")
    if not _CREATED.fullmatch(document.created):
        found.findings.append("created: no moment")
    if not _RELEASE_ID.fullmatch(document.release_id) or document.ledger.sequence < 1:
        found.findings.append("release_id, ledger: none that a ledger gives")
    units = {"parsed record"} if parts.spec.source.quoted_newlines else {"physical line", "row"}
    if document.record_unit not in units:
        found.findings.append(f"record_unit: not one of {', '.join(sorted(units))}")
    found.checked.append(
        f"the guarantee, derived again from the question alone: {price_text(parts.plan.guarantee)} under "
        f"{parts.spec.privacy.neighbors} neighbors"
    )
    followed = [name for name in document.__struct_fields__ if name not in exempt or name == "spec"]
    found.checked.append(f"what follows from the question and the draw: {', '.join(followed)}")


def _as_stated(found: Verification, plan: Plan, derived: ReleaseDocument) -> ReleaseDocument:
    """Return what follows, with the sentence about its numbers that a chain of an earlier version states."""
    today = plan.final_step.law.assumptions
    if not today or EARLIER_CHAIN not in found.document.assumptions:
        return derived
    found.unchecked.append(
        "the far tail of the Gaussian curve: this chain was drawn with normal numbers that ended at 8.4 standard "
        "deviations, and what it released may be impossible under neighboring data with a tiny probability"
    )
    words = [EARLIER_CHAIN if each in today else each for each in derived.assumptions]
    return msgspec.structs.replace(derived, assumptions=words)


def _check_values(found: Verification, plan: Plan) -> None:
    """Check that what was released is a possible outcome."""
    document = found.document
    if document.draws:
        possible = [_possible(plan.final_step.law, values) for values in document.draws]
        if False in possible:
            found.findings.append("draws: not all are such as their law can give")
        elif None in possible:
            found.unchecked.append("whether the draws are such as their law can give, but that they are finite")
        else:
            found.checked.append("the draws are such as their law can give")
        return
    statistic, law = plan.final_step.statistic, plan.final_step.noise
    limits = _limits(statistic, found.bundle.model, _most_records(found.bundle.spec, document.n_records))
    laws = [law.at(i) for i in range(len(document.statistics))]
    radii = {each: each.radius(_UNLIKELY) for each in dict.fromkeys(laws)}
    for released, each, (low, high) in zip(document.statistics, laws, limits, strict=True):
        radius = radii[each]
        if not low - radius <= released.value <= high + radius:
            found.findings.append(f"statistics: {released.name} is beyond what its noise can make of any data")
    found.checked.append("the statistics are possible: within what any data and their noise can give")


def _possible(law: StepLaw, values: list[float]) -> bool | None:
    """Return whether a draw can be one of a law; None: it is finite, and more is not known."""
    return law.is_possible(values) if all(math.isfinite(value) for value in values) else False


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
        most = {name: (Path(directory) / name).stat().st_size for name in made}
    most |= {name: max(most[name], largest_of(document, name)) for name in found.uncertain if name in made}
    digests: dict[str, str | None] = {}
    for name in made:
        try:
            digests[name] = file_digest(bundle / name, most[name])
        except VerificationError as error:
            found.findings.append(error.message)
    inference = document.inference
    if (
        digests.get(inference.samples_file)
        and inference.samples_file in found.uncertain
        and not are_samples(
            bundle / inference.samples_file, inference.samples_format, analysis.parameters, inference.samples
        )
    ):
        found.findings.append(f"{document.inference.samples_file}: no samples of these parameters, or not so many")
    for name, digested in digests.items():
        if digested is None:
            found.findings.append(f"{name} is missing, or no regular file")
        elif digested != made[name] and name not in found.uncertain:
            found.findings.append(f"{name}: not what follows from release.json")
    strange = sorted(set(os.listdir(bundle)) - set(made))  # noqa: PTH208 - names alone
    for name in strange[:_LARGEST_MESSAGE]:
        found.findings.append(f"{name!r} does not belong to the bundle")
    found.checked.append(f"the files follow from release.json: {', '.join(sorted(set(made) - found.uncertain))}")
    return {name: digested for name, digested in digests.items() if digested is not None}


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
    if record.request_digest != digest_of_request(found.document.spec, spec):
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
