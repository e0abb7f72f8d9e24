"""The joint law of a bundle's records: what synthetic records and analyses need of a release."""

from __future__ import annotations

from dataclasses import dataclass

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.bundle.analysis import Analysis
from dpbayes_cli.bundle.read import Bundle, analysis_of
from dpbayes_cli.bundle.report.validity import FOR_CUSTODIANS, not_counted_text, validity_warning
from dpbayes_cli.core.joint_law import JointLaw


@dataclass(frozen=True)
class BundleLaw:
    """The joint law of a bundle's records given each of its posterior draws."""

    bundle: Bundle
    analysis: Analysis
    law: JointLaw

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know of the posterior, records that were not counted and a column without a name.

        Each text begins with ``WARNING: `` or ``note: ``.
        """
        document, is_named = self.bundle.document, self.bundle.model.column_names or self.bundle.spec.column
        about_name = "" if is_named else f"note: the request names no column; here it is called {self.law.names[0]!r}"
        about_records, *_ = (not_counted_text(document) or validity_warning(document)).split(FOR_CUSTODIANS)
        about_posterior = map("WARNING: {}.".format, self.analysis.posterior.warnings)
        return tuple(filter(None, (*about_posterior, about_records, about_name)))

    @property
    def n_records(self) -> tuple[int, str] | None:
        """The number of records that a synthetic table has by default, and what this number is; None if unknown."""
        valid, stated = self.analysis.valid_records, self.bundle.document.n_records
        if valid is not None:
            return max(round(valid.mean), 1), "the estimated number of valid records"
        return None if stated is None else (max(stated, 1), "the public number of records")


def law_of(bundle: Bundle) -> BundleLaw:
    """Return the joint law of a bundle's records.

    Raises:
        SpecError: the model has no joint law of its columns, or the bundle holds no posterior.
    """
    name, analysis = bundle.model.name, analysis_of(bundle)
    column = "" if bundle.model.column_names else bundle.spec.column or ""
    if analysis.estimates:
        raise SpecError(
            "the bundle holds point estimates, not a posterior: results from them would understate the uncertainty",
            where="mechanism",
            hint="release with a mechanism that gives a posterior, such as laplace",
        )
    law = None if bundle.spec.by else bundle.model.joint_law(column, analysis.samples, analysis.drawn_states)
    if law is None:
        groups = " with groups" if bundle.spec.by else ""
        raise SpecError(
            f"model {name!r}{groups} has no joint law of columns with public values",
            where="model",
            hint="release a network, such as bayes-net or naive-bayes",
        )
    return BundleLaw(bundle, analysis, law)
