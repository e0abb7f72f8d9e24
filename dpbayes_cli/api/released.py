"""Release, infer, predict, evaluate, verify and report in Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbayes_cli.api.accounts import Accounts
from dpbayes_cli.api.posterior import Inferred
from dpbayes_cli.api.request import PlannedRequest, Request, plan
from dpbayes_cli.bundle.read import Bundle, analysis_of, read_bundle
from dpbayes_cli.core.choice import MechanismChoice, as_texts
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.sources.location import FrameLocation, Location, is_frame
from dpbayes_cli.workflow.release_data import locate_data

if TYPE_CHECKING:
    import pandas as pd

    from dpbayes_cli.bundle.document import ReleaseDocument

Data = Any
"""A path, a list of paths, the address of a table, or a pandas, Polars or Arrow table."""


@dataclass(frozen=True, repr=False)
class ReleasedBundle:
    """A release on disk.

    Attributes:
        path: the directory of the bundle.
        remaining: the budget that the account had left after the release, by component; empty for a loaded bundle.
        replayed: whether an earlier release was shown again, without opening the data.
    """

    path: Path
    remaining: Mapping[str, Decimal]
    replayed: bool = False

    @cached_property
    def contents(self) -> Bundle:
        """The release document with its spec, model and mechanism."""
        return read_bundle(self.path)

    @property
    def document(self) -> ReleaseDocument:
        """The contents of ``release.json``."""
        return self.contents.document

    @cached_property
    def posterior(self) -> Inferred:
        """The posterior of the release, with the same samples as in the bundle."""
        return Inferred(analysis_of(self.contents))

    @cached_property
    def guarantee(self) -> Guarantee:
        """The privacy cost of the release, as it was charged."""
        from dpbayes_cli.bundle.assemble import at_stated_cost
        from dpbayes_cli.workflow.pricing import price

        plan = price(self.contents.spec, self.document.n_records).plan
        return at_stated_cost(plan, self.document.guarantee).guarantee

    @property
    def sentences(self) -> list[str]:
        """Warnings, the result in one sentence, and how much of the width is due to privacy."""
        from dpbayes_cli.bundle.report.result_sentence import result_lines

        return [line.replace("`", "") for line in result_lines(self.document)]

    def __repr__(self) -> str:
        """Return the result in sentences and the summary of the posterior."""
        return "\n".join([*self.sentences, str(self.posterior)])

    def _repr_html_(self) -> str:
        """Return the result in sentences and the summary of the posterior as HTML, for notebooks."""
        from html import escape

        return "".join(f"<p>{escape(line)}</p>" for line in self.sentences) + self.posterior._repr_html_()


Released = ReleasedBundle | str | Path


def release(
    data: Data,
    model: PlannedRequest | Request,
    mechanism: MechanismChoice | None = None,
    *,
    ledger: Accounts | str | Path | None = None,
    account: str | None = None,
    out: str | Path | None = None,
    name: str | None = None,
    fresh: bool = False,
    same_data: bool = False,
    open_account: bool = True,
    analyst: str | None = None,
    purpose: str = "",
    title: str | None = None,
    say: Callable[[str], None] | None = None,
    **keys: Any,
) -> ReleasedBundle:
    """Release a private posterior of data, or show an earlier release of the same request again, free.

    >>> release = dpb.release("relapse.csv", dpb.models.BetaBernoulli(), dpb.mechanisms.Laplace(epsilon="0.5"),
    ...                       ledger="ledger.sqlite", account="relapse", out="out")
    >>> release.remaining
    {'epsilon': Decimal('2.5')}

    Args:
        data: a path, a list of paths, the address of a table, or a pandas, Polars or Arrow table. For a table in
            memory, ``account`` must be stated.
        model: a planned request, or a stated request; see ``plan``.
        mechanism: a chosen mechanism; if None, the default mechanism: that of the plan or, for a model, that of the
            account, which may depend on whether the account has a delta.
        ledger: the ledger; if None, the default ledger.
        account: the account that pays; if None, the name of the file without its ending.
        out: the directory of the bundle; if None, ``dpbayes-ID``.
        name: a name for the release; one name is charged only once.
        fresh: whether to draw again and pay again.
        same_data: whether the data were moved to another path but not changed.
        open_account: whether to open the account if it does not exist.
        analyst: who asks for the release; an account may have a limit for each analyst.
        purpose: the reason for the release, which the ledger records.
        title: the title of the result and of its reports.
        say: a function that is called with each message, such as ``print``.
        keys: further keys of a spec; see ``plan``.

    Raises:
        DpbayesError: see ``errors``; after a charge, repeating the call finishes the release.

    Privacy: the guarantee of the plan; see ``workflow.release``.
    Source: docs/explanation/guarantee.md; docs/reference/ledger.md (what is charged when).
    """
    from dpbayes_cli.base.process_hardening import disable_core_dumps
    from dpbayes_cli.workflow.prepare import ReleaseOptions, prepare_with_defaults
    from dpbayes_cli.workflow.release import release as release_prepared

    disable_core_dumps()
    request = model if isinstance(model, PlannedRequest) else plan(model, mechanism, **keys)
    if account is not None:
        request = PlannedRequest({**request.stated, "dataset": account})
    several = data if isinstance(data, list | tuple) else [data]
    places = [_place(each) for each in several]
    location = places[0] if isinstance(places[0], Location) else locate_data(request.spec.source, *map(str, places))
    kept = ledger if isinstance(ledger, Accounts) else Accounts(ledger)
    target = None if out is None else Path(out)
    as_planned = isinstance(model, PlannedRequest)
    options = ReleaseOptions(name, fresh, same_data, open_account, purpose, target, analyst, title, as_planned)
    with prepare_with_defaults(dict(request.stated), request.spec, location, options, kept.ledger) as prepared:
        published = release_prepared(prepared, kept.ledger, say or (lambda _message: None))
    return ReleasedBundle(published.bundle, published.remaining, published.replayed)


def _place(data: Data) -> str | Location:
    return FrameLocation("-", (), frame=data) if is_frame(data) else os.fspath(data)


def load_bundle(path: str | Path) -> ReleasedBundle:
    """Return a release on disk.

    >>> dpb.load_bundle("out").guarantee.epsilon
    Decimal('0.5')

    Raises:
        OutputError: there is no bundle at this path.
        VerificationError: the bundle holds no valid release document.
    """
    bundle = ReleasedBundle(Path(path), {})
    _ = bundle.contents
    return bundle


def infer(
    release: Released,
    *,
    prior: Mapping[str, Any] | None = None,
    draws: int | None = None,
    seed: int | None = None,
    more: int = 0,
    **inference: Any,
) -> Inferred:
    """Compute the posterior again with another prior, more samples or another method, at no privacy cost.

    >>> posterior = dpb.infer("out", prior={"alpha": 2, "beta": 5}, draws=10_000, seed=1)
    >>> posterior.to_pandas().shape
    (10000, 1)

    Args:
        release: a release, or the directory of a bundle.
        prior: a prior that replaces the earlier one entirely.
        draws: the number of posterior samples.
        seed: the seed of the samples; if None, it is derived from the bundle. With equal seeds, two releases have
            independent samples.
        more: how many times Markov chains that are too short are continued.
        inference: further options of the section ``inference`` of a spec, such as ``method="naive"``.

    Raises:
        SpecError: an option is wrong; or the release consists of posterior draws, and their prior cannot be changed.
    """
    from dpbayes_cli.workflow.inferring import infer_again

    stated = as_texts({**inference, "samples": draws})
    changes: dict[str, Any] = {"inference": stated} if stated else {}
    if prior is not None:
        changes["prior"] = as_texts(prior)
    return Inferred(infer_again(load_release(release).contents, changes, seed, more=more).analysis)


def predict(
    release: Released,
    data: Data | None = None,
    target: str | None = None,
    *,
    prior: Mapping[str, Any] | None = None,
    **layout: Any,
) -> pd.DataFrame:
    """Predict a column of new records, one row per record; the result is as confidential as these records.

    The columns are the keys of ``dpbayes predict --json``. For a target with classes, ``probabilities`` is in the order
    in which the spec states the classes.

    >>> predicted = dpb.predict("adult", "people.csv")
    >>> list(predicted.columns)
    ['label', 'probabilities']

    Args:
        release: a release, or the directory of a bundle.
        data: a path, or a pandas, Polars or Arrow table. For groups it may be None; the rows are then the groups, and
            the last one, whose key is missing, is a group that is not listed.
        target: the variable of a network to predict.
        prior: a prior that replaces that of the release entirely, at no privacy cost.
        layout: the layout of a file, such as ``delimiter=";"``; by default, the layout of the release.

    Raises:
        SpecError: the model does not predict, or the prior is wrong or part of the request.
        SourceError: the data cannot be read.
    """
    import pandas as pd

    from dpbayes_cli.base.errors import SpecError
    from dpbayes_cli.prediction.group_predictions import GroupPredictor
    from dpbayes_cli.prediction.records import NewRecords, predictor
    from dpbayes_cli.workflow.inferring import infer_again

    contents = load_release(release).contents
    again = None if prior is None else infer_again(contents, {"prior": as_texts(prior)}).analysis
    model = predictor(contents, target, again)
    if data is None and isinstance(model, GroupPredictor):
        return pd.DataFrame(model.documents())
    if data is None:
        raise SpecError("name the data to predict; only groups are predicted without them", where="data")
    return pd.DataFrame(NewRecords(contents, _place(data), as_texts(layout)).predictions(model).documents())


def evaluate(release: Released, data: Data, target: str | None = None, **layout: Any) -> dict[str, Any]:
    """Return scores of the predictions on labeled records. NOT PRIVATE, unless the records are public.

    >>> scores = dpb.evaluate("adult", "people.csv")
    >>> scores["records"]
    200

    Args:
        release, data, target, layout: see ``predict``.

    Raises:
        SpecError: the model neither predicts nor scores whole records.
        SourceError: the data cannot be read.
    """
    from dpbayes_cli.prediction.record_scores import evaluate_bundle

    contents = load_release(release).contents
    name, note, scores = evaluate_bundle(contents, _place(data), target, as_texts(layout))
    return scores.document(contents.document.release_id, name, note)


def verify(release: Released, ledger: Accounts | str | Path | None = None, *, with_ledger: bool = True) -> list[str]:
    """Return the faults that verification finds in a bundle; empty if there are none.

    >>> dpb.verify("out", "ledger.sqlite")
    []

    Args:
        release: a release, or the directory of a bundle.
        ledger: the ledger that was charged; if None, the default ledger.
        with_ledger: whether to compare the bundle with the ledger.

    Raises:
        LedgerError: there is no such ledger.
    """
    from dpbayes_cli.workflow.verification import verify_bundle

    kept = ledger if isinstance(ledger, Accounts) else Accounts(ledger)
    return list(verify_bundle(load_release(release).path, kept.ledger if with_ledger else None).findings)


def report(release: Released, form: str = "html") -> str:
    """Return the report of a release in the form ``html`` or ``markdown``.

    >>> page = dpb.report("out")
    >>> page.startswith("<!DOCTYPE html>")
    True

    Raises:
        ValueError: there is no such form.
    """
    contents = load_release(release).contents
    if form == "html":
        from dpbayes_cli.bundle.report.page import report_html
        from dpbayes_cli.workflow.reporting import build_report_context

        return report_html(contents.document, analysis_of(contents), build_report_context(contents)).decode("utf-8")
    if form == "markdown":
        from dpbayes_cli.bundle.report.markdown import report_markdown

        return report_markdown(contents.document).decode("utf-8")
    raise ValueError(f"there is no form {form!r}; expected html or markdown")


def load_release(release: Released) -> ReleasedBundle:
    """Return a release that is stated as such or by the directory of its bundle; see ``load_bundle`` for errors."""
    return release if isinstance(release, ReleasedBundle) else load_bundle(release)
