"""Predictions for new records from a released bundle: what is read, and what the posterior says about it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbayes_cli.bundle.files import analysis_of, spec_of
from dpbayes_cli.bundle.read import read_document
from dpbayes_cli.columns import Column, CutColumn, RecordPolicy
from dpbayes_cli.discrete_network import DiscreteNetwork
from dpbayes_cli.errors import SpecError, nearest
from dpbayes_cli.question import source_of
from dpbayes_cli.sources.location import locate
from dpbayes_cli.sources.packed_codes import CodeReader
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.numeric import Floats, Integers

MOST_DRAWS = 1000
"""Averages over so many draws of the posterior: their error is below 1.6 % of a probability's spread over it."""


@dataclass(frozen=True)
class Predictor:
    """The posterior of a released network, as it predicts one of its variables.

    Attributes:
        document: the release.
        model: its model.
        target: the index of the variable that is predicted.
        draws: draws from the posterior of all cells, shape (n_draws, n_cells).
    """

    document: ReleaseDocument
    model: DiscreteNetwork
    target: int
    draws: Floats

    @property
    def name(self) -> str:
        """The name of the variable that is predicted."""
        return self.model.network.names[self.target]

    @property
    def classes(self) -> tuple[str, ...]:
        """Its values."""
        return self.model.network.levels[self.target]

    def probabilities(self, records: Integers) -> Floats:
        """Return class probabilities of coded records, averaged over the posterior; see ``class_probabilities``."""
        from dpbayes_cli.inference.classify import class_probabilities

        return class_probabilities(self.model.network, self.target, self.draws, records)


def predictor(bundle: Path, target: str | None) -> Predictor:
    """Return the predictor that a bundle holds.

    Args:
        bundle: the directory of a release.
        target: the variable to predict; None: the one that the spec names.

    Raises:
        SpecError: the model predicts nothing, or there is no such variable, or none is named.
    """
    document = read_document(bundle)
    model = spec_of(document).build_model()
    if not isinstance(model, DiscreteNetwork):
        raise SpecError(
            f"model {model.name!r} does not predict one column from others",
            where="model",
            hint="what it says about a new record is posterior_predictive in release.json",
        )
    names = model.network.names
    if target is None:
        if model.target is None:
            raise SpecError("no variable is named to be predicted", where="target", hint="--target NAME")
        place = model.target
    elif target in names:
        place = names.index(target)
    else:
        raise SpecError(f"there is no variable {target!r}", where="target", hint=nearest(target, names))
    return Predictor(document, model, place, analysis_of(document).samples[:MOST_DRAWS])


def read_codes(
    found: Predictor, data: str, layout: dict[str, Any], *, labelled: bool, take: Callable[[Integers], None]
) -> int:
    """Read new records as codes, in the order of the variables, -1 for an invalid cell; return how many there were.

    A cell that holds no valid value counts as it did in the release where a public value stands for it; but a label is
    taken as it is.

    Args:
        found: the predictor.
        data: the file, a pattern, or ``-``.
        layout: what is stated about the file's layout, in place of what the spec of the release says.
        labelled: whether the target's column is read; else its codes are -1.
        take: called with every block of codes, shape (n_records, n_variables).

    Raises:
        SourceError: the data cannot be read.
    """
    import numpy as np

    spec = _laid_out(spec_of(found.document), layout)
    chosen = [i for i in range(len(found.model.network)) if labelled or i != found.target]
    columns = [_as_released(found.model.variables[i], spec.policy, label=i == found.target) for i in chosen]

    def place(codes: Integers) -> None:
        whole = np.full((len(codes), len(found.model.network)), -1, dtype=np.int64)
        whole[:, chosen] = codes
        take(whole)

    reader = CodeReader(columns, RecordPolicy(spec.policy.neighbors), place)
    with closing(source_of(spec, locate(data))) as source:
        source.check(columns, [found.model.network.names[i] for i in chosen])
        source.read(reader)
    return reader.records


def _as_released(column: Column | CutColumn, policy: RecordPolicy, *, label: bool) -> Column | CutColumn:
    """Return a column whose invalid cells count as they did in the release; those of a label count as nothing."""
    return replace(column, impute=None if label else column.impute or policy.impute)


def _laid_out(spec: ReleaseSpec, layout: dict[str, Any]) -> ReleaseSpec:
    """Return the spec with the layout that is stated; where one is, nothing of the spec's own is kept."""
    import msgspec

    if not layout:
        return spec
    document = msgspec.to_builtins(spec)
    stated = {key: value for key, value in document.items() if value is not None}
    return build_spec({**stated, "source": layout})
