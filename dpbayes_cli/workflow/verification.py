"""Verify a bundle: derive everything in it again from its release request and its draw, and compare.

The draw cannot be compared with the data, which may not be read a second time; only its possibility is checked. The
ledger tells whether the release was charged.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import msgspec

from dpbayes_cli.base.canonical import digest
from dpbayes_cli.base.errors import DpbayesError, VerificationError
from dpbayes_cli.base.version_order import is_before
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.assemble import assemble, at_stated_cost
from dpbayes_cli.bundle.document import ReleaseDocument, SealedDraw, parse_document
from dpbayes_cli.bundle.files import GROUP_SAMPLES, GROUPS, LARGER_GROUPS, REPORT
from dpbayes_cli.bundle.place import max_file_bytes, render
from dpbayes_cli.bundle.read import Bundle, analysis_of, file_digest, read_bundle
from dpbayes_cli.bundle.samples import are_samples
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.ledger.charge_text import charge_text
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.records import ReleaseRecord
from dpbayes_cli.ledger.state import State
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.spec.stored_spec import digest_of_request
from dpbayes_cli.workflow.possible_values import check_values
from dpbayes_cli.workflow.pricing import PlannedRelease, price

_COMPUTED_FIELDS = (
    "posterior",
    "width",
    "posterior_predictive",
    "inference",
    "states",
    "valid_records",
    "results",
    "extreme_groups",
    "effects",
)
"""Fields computed in floating point, whose last digits may differ between versions of libraries."""
_WORDED_FIELDS = ("assumptions", "corrections", "meanings", "privacy_unit", "tables")
"""Fields with texts that another version of dpbayes may word differently."""
EARLIER_CHAIN = (
    "Inside the chain floating-point numbers of double precision stand in for real ones: the gradient's sum, the "
    "normal numbers (quantiles of 54 secret bits) and the iterates. The released draws are rounded to a public grid."
)
"""The assumption that bundles state if their version of dpbayes did not yet draw the noise of chains exactly."""
_ADDED_FIELDS, _ADDED_IN = ("valid_records", "results"), (0, 4)
"""Fields that every document holds, and the first version of dpbayes that wrote them and named all packages."""
_LIBRARIES = {"python", "numpy", "opendp", "duckdb"}
"""Software of every release whose versions change digits, and never words."""
_ALWAYS_NAMED = {"dpbayes", *_LIBRARIES}
"""Software that every release names; since 0.4 it also names packages of plug-ins."""
_MAX_STRANGE_FILES = 20
_MAX_VERSIONS = 200
"""A list of software versions is cut to this number of characters in a message."""
_CREATED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_RELEASE_ID = re.compile(r"[0-9a-f]{16}")


@dataclass
class Verification:
    """The result of checking a bundle.

    Attributes:
        bundle: the release, with its request.
        checked: what was checked, one phrase each.
        unchecked: what could not be checked, and why.
        findings: what is wrong, one sentence each; empty if the bundle verifies.
        uncertain: files that another version of the software may write differently.
        as_written_here: the uncertain files that this version of the software writes just so.
    """

    bundle: Bundle
    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    uncertain: set[str] = field(default_factory=set)
    as_written_here: set[str] = field(default_factory=set)

    @property
    def document(self) -> ReleaseDocument:
        """The release document."""
        return self.bundle.document


def verify_bundle(directory: Path, ledger: Ledger | None) -> Verification:
    """Check the schema, files, guarantee and statistics of a bundle, and that the ledger charged it.

    Args:
        ledger: the ledger that charged the release; None checks the bundle only.

    Raises:
        OutputError: there is no bundle.
        VerificationError: the release document is invalid, its request has no guarantee, or its draw does not fit the
            request.
        LedgerError: the ledger cannot be read.
    """
    bundle = read_bundle(directory)
    document, spec = bundle.document, bundle.spec
    result = Verification(bundle, ["release.json fits its schema and holds the whole release request"])
    plan = at_stated_cost(_price_again(bundle).plan, document.guarantee)
    _check_draw(document, plan)
    analysis = analysis_of(bundle)
    derived = assemble(
        _draw_of(document),
        analysis,
        spec,
        bundle.mechanism,
        plan,
        release_id=document.release_id,
        account=document.account,
        account_delta=Decimal(repr(document.guarantee.delta)),
        ledger=document.ledger,
        title=document.title,
    )
    _check_derived(result, plan, derived)
    check_values(bundle, plan, result.checked, result.unchecked, result.findings)
    files = _check_files(result, directory, analysis)
    if ledger is None:
        result.unchecked.append("whether a ledger charged this release and published these files: no ledger was given")
    else:
        _check_ledger(result, spec, plan, ledger, files)
    return result


def _price_again(bundle: Bundle) -> PlannedRelease:
    """Price the release request again, at the number of records that the bundle states."""
    n_records = bundle.document.n_records
    try:
        choice = bundle.spec.private_choice
        if choice is None or not choice.keeps_parameters:
            return price(bundle.spec, n_records, bundle.model)
        return price(bundle.spec, n_records).with_chosen_model(bundle.model)
    except DpbayesError as error:
        raise VerificationError(
            "no guarantee can be derived from the release request in the bundle", findings=[str(error)]
        ) from None


def _check_draw(document: ReleaseDocument, plan: Plan) -> None:
    """Refuse a draw whose noise law or number of draws differs from the plan, before anything is computed from the
    draw."""
    step = plan.final_step
    if not step.law.adds_noise:
        if document.noise is not None or len(document.draws) != step.draws:
            raise VerificationError(f"draws: release.json must hold {step.draws}, as many as were paid for")
        return
    stated = None if document.noise is None else msgspec.to_builtins(document.noise)
    groups = document.groups
    if not isinstance(groups, msgspec.UnsetType):
        if stated != step.noise.serialize() or groups.noise_scale != step.noise.scale:
            raise VerificationError("noise: it is not the noise law that follows from the request")
        return
    scales = step.noise.scales(len(document.statistics))
    if stated != step.noise.serialize() or [each.noise_scale for each in document.statistics] != list(scales):
        raise VerificationError("noise: it is not the noise law that follows from the request")


def _draw_of(document: ReleaseDocument) -> SealedDraw:
    return SealedDraw(
        created=document.created,
        record_unit=document.record_unit,
        n_records=document.n_records,
        statistics=document.statistics,
        groups=document.groups,
        noise=document.noise,
        draws=document.draws,
        drawn_states=document.drawn_states,
        log_weight=document.log_weight,
        bounds=document.bounds,
        structure=document.structure,
        points=document.points,
    )


def _check_derived(result: Verification, plan: Plan, derived: ReleaseDocument) -> None:
    """Compare the document with the document that follows from the request and the draw."""
    document, spec = result.document, result.bundle.spec
    derived = _as_stated(result, plan, parse_document(derived.payload()))
    unnamed = derived.software.keys() - document.software.keys()
    names_all = not is_before(document.software.get("dpbayes"), _ADDED_IN)
    missing = unnamed if names_all else unnamed & _ALWAYS_NAMED
    if missing or document.software.keys() - derived.software.keys():
        result.findings.append("software: the list of packages differs from the list in a release")
    elif unnamed:
        result.unchecked.append(f"whether the release used {', '.join(sorted(unnamed))}, which it does not name")
    exempt = {"schema_version", "software", "spec"}  # earlier versions write the spec differently; it was compared
    is_earlier = document.schema_version != derived.schema_version
    absent = [name for name in _ADDED_FIELDS if isinstance(getattr(document, name), msgspec.UnsetType)]
    exempt |= {*absent}
    if names_all and not is_earlier:
        result.findings += [f"{name}: it is missing" for name in absent]
    if document.software != derived.software or is_earlier:
        versions = ", ".join(f"{name} {version}" for name, version in document.software.items())[:_MAX_VERSIONS]
        result.unchecked.append(
            f"the digits of posterior, width, states, inference and samples: they were computed by {versions}"
        )
        result.uncertain |= {document.inference.samples_file, GROUPS, LARGER_GROUPS, GROUP_SAMPLES}
        exempt |= {*_COMPUTED_FIELDS}
        for name in ("method", "exact", "samples", "samples_format"):
            if getattr(document.inference, name) != getattr(derived.inference, name):
                result.findings.append(f"inference.{name}: it does not follow from the request")
    other = dict(document.software.items() ^ derived.software.items())
    if other.keys() - _LIBRARIES or is_earlier:
        result.unchecked.append("the words of assumptions, corrections and report, which another version wrote")
        result.uncertain.add(REPORT)
        exempt |= {*_WORDED_FIELDS}
    for name in document.__struct_fields__:
        if name not in exempt and getattr(document, name) != getattr(derived, name):
            result.findings.append(f"{name}: it does not follow from the request and the draw")
    if not _CREATED.fullmatch(document.created):
        result.findings.append("created: it is not a time of the form YYYY-MM-DDTHH:MM:SSZ")
    if not _RELEASE_ID.fullmatch(document.release_id) or document.ledger.sequence < 1:
        result.findings.append("release_id, ledger: no ledger gives such an ID or entry")
    units = {"parsed record"} if spec.source.quoted_newlines else {"physical line", "row"}
    if document.record_unit not in units:
        result.findings.append(f"record_unit: it is not one of {', '.join(sorted(units))}")
    result.checked.append(
        f"the guarantee follows from the release request: {charge_text(plan.guarantee)} under "
        f"{spec.privacy.neighbors} neighbors"
    )
    derivable = [name for name in document.__struct_fields__ if name not in exempt or name == "spec"]
    result.checked.append(f"{len(derivable)} fields of release.json follow from the request and the released values")


def _as_stated(result: Verification, plan: Plan, derived: ReleaseDocument) -> ReleaseDocument:
    """Return the derived document, with ``EARLIER_CHAIN`` as its assumption on chains if the bundle states this one."""
    current = plan.final_step.law.assumptions
    if not current or EARLIER_CHAIN not in result.document.assumptions:
        return derived
    result.unchecked.append(
        "the far tail of the Gaussian guarantee: this chain used normal numbers of at most 8.4 standard deviations, so "
        "with a tiny probability its draw is impossible under neighboring data"
    )
    assumptions = [EARLIER_CHAIN if each in current else each for each in derived.assumptions]
    return msgspec.structs.replace(derived, assumptions=assumptions)


def _check_files(result: Verification, bundle: Path, analysis: Analysis) -> dict[str, str]:
    """Compare the files with those rendered from the document; return the digests of the files that exist."""
    document = result.document
    with tempfile.TemporaryDirectory() as directory:
        rendered = render(document, analysis, Path(directory))
        max_bytes = {name: (Path(directory) / name).stat().st_size for name in rendered}
    max_bytes |= {
        name: max(max_bytes[name], max_file_bytes(document, name)) for name in result.uncertain if name in rendered
    }
    digests: dict[str, str | None] = {}
    for name in rendered:
        try:
            digests[name] = file_digest(bundle / name, max_bytes[name])
        except VerificationError as error:
            result.findings.append(error.message)
    inference = document.inference
    if (
        digests.get(inference.samples_file)
        and inference.samples_file in result.uncertain
        and not are_samples(
            bundle / inference.samples_file, inference.samples_format, analysis.parameters, inference.samples
        )
    ):
        result.findings.append(f"{document.inference.samples_file}: its parameters or its number of samples are wrong")
    for name, digested in digests.items():
        if digested is None:
            result.findings.append(f"{name} is missing, or is not a regular file")
        elif digested == rendered[name]:
            result.as_written_here |= {name} & result.uncertain
        elif name not in result.uncertain:
            result.findings.append(f"{name}: it does not follow from release.json")
    strange = sorted(set(os.listdir(bundle)) - set(rendered))  # noqa: PTH208 - names alone
    for name in strange[:_MAX_STRANGE_FILES]:
        result.findings.append(f"{name!r} does not belong to the bundle")
    same = ", ".join(sorted(set(rendered) - result.uncertain))
    result.checked.append(f"written again from release.json, these files are the same: {same}")
    return {name: digested for name, digested in digests.items() if digested is not None}


def _check_ledger(
    result: Verification, spec: ReleaseSpec, plan: Plan, ledger: Ledger, files: Mapping[str, str]
) -> None:
    document = result.document
    findings, state = ledger.findings()
    result.findings += [f"the ledger: {finding}" for finding in findings]
    record = _record_of(state, document)
    if record is None:
        result.findings.append(
            f"the ledger {ledger.location!r} does not know release {document.release_id} of this account"
        )
        return
    reference = document.ledger
    if (record.sequence, record.hash) != (reference.sequence, reference.hash):
        result.findings.append("ledger: another entry charged this release")
    if record.guarantee != plan.guarantee:
        result.findings.append(
            f"the ledger charged {charge_text(record.guarantee)}, but the request costs {charge_text(plan.guarantee)}"
        )
    if record.request_digest != digest_of_request(result.document.spec, spec):
        result.findings.append("the ledger charged another release request")
    if record.published is None:
        result.findings.append("the ledger has not published this release: repeat the command that began it")
    elif record.document != digest("payload", document.payload()):
        result.findings.append("release.json is not the document in the ledger")
    differing = [name for name, expected in (record.published or {}).items() if files.get(name) != expected]
    again = [name for name in differing if name in result.as_written_here]
    result.findings += [
        f"{name}: it is not the file that the ledger recorded as published" for name in differing if name not in again
    ]
    if again:
        result.unchecked.append(
            f"the digests that the ledger recorded of {', '.join(again)}: another version has written these files "
            "again from release.json"
        )
    published = "the other files" if again else "these files"
    result.checked.append(
        f"the ledger is consistent; its entry {record.sequence} charged this release, and it recorded {published}"
    )


def _record_of(state: State, document: ReleaseDocument) -> ReleaseRecord | None:
    account = state.accounts.get(document.account)
    return None if account is None else account.releases.get(document.release_id)
