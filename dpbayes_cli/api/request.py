"""State a release request in Python, and plan it without data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbayes_cli.core.choice import MechanismChoice, ModelChoice, as_texts
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.spec.groups_section import read_release_file, with_keys
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec
from dpbayes_cli.workflow.pricing import price

if TYPE_CHECKING:
    from dpbayes_cli.workflow.expectation import Expectation

Request = ModelChoice | Mapping[str, Any] | str | Path
"""A stated request: a chosen model, a mapping with the keys of a spec, or the path of a spec file."""


@dataclass(frozen=True)
class PlannedRequest:
    """A release request with its privacy cost; no data were read.

    Attributes:
        stated: the request as a spec: nested mappings of texts.
    """

    stated: Mapping[str, Any]

    @cached_property
    def spec(self) -> ReleaseSpec:
        """The checked request with every default."""
        return build_spec(dict(self.stated))

    def guarantee(self, records: int | None = None) -> Guarantee:
        """Return the privacy cost of a release.

        Args:
            records: the number of records; needed only if the cost depends on it.

        Raises:
            SpecError: no guarantee can be given for the request.
        """
        return price(self.spec, records).plan.guarantee

    def expected(self, records: int, *, trials: int | None = None, seed: int = 0) -> Expectation | None:
        """Return the expected width of the posterior over simulated releases; None for groups, or without any.

        Args:
            records: the number of records to plan for.
            trials: the number of releases to simulate; if None, as many as a few seconds allow.
            seed: the seed of the simulation.

        Raises:
            SpecError: no guarantee can be given for the request.
        """
        from dpbayes_cli.workflow.planning import SimulationEffort, plan_mechanism

        return plan_mechanism(self.spec, records, SimulationEffort(trials, seed)).expected

    def to_yaml(self) -> str:
        """Return the request as the text of a spec file."""
        import yaml

        return yaml.safe_dump(dict(self.stated), sort_keys=False)


def plan(model: Request, mechanism: MechanismChoice | None = None, **keys: Any) -> PlannedRequest:
    """Return a release request with its privacy cost, without data.

    >>> request = dpb.plan(dpb.models.BetaBernoulli(alpha=1, beta=1), dpb.mechanisms.Laplace(epsilon="0.5"))
    >>> str(request.guarantee().epsilon)
    '0.5'

    Args:
        model: a chosen model, the mapping of a spec, or the path of a spec file.
        mechanism: a chosen mechanism; if None, the default mechanism.
        keys: further keys of a spec, such as ``column="relapsed"``, ``on_invalid="drop"``,
            ``neighbors="add-remove"``, ``unit="patient_id"``, ``source={"delimiter": ";"}``,
            ``by={"column": "hospital", "file": "hospitals.txt"}`` or ``inference={"samples": 1000}``. The keys of
            groups are found in the data with ``by={"column": "hospital", "values": "private"}`` and ``delta="1e-6"``.

    Raises:
        SpecError: the request is wrong, or no guarantee can be given for it.
    """
    stated = _stated(model)
    parts = ({} if mechanism is None else mechanism.stated, _as_sections(keys))
    for part in parts:
        stated = _merged(stated, part)
    request = PlannedRequest(with_keys(stated, Path()))
    _ = request.spec
    return request


_IN_PRIVACY = ("neighbors", "unit", "delta")


def _stated(model: Request) -> dict[str, Any]:
    if isinstance(model, ModelChoice):
        return model.stated
    if isinstance(model, Mapping):
        return dict(as_texts(model))
    return read_release_file(Path(model))


def _as_sections(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments as keys of a spec; neighbors and unit belong to the section privacy."""
    stated = {name: as_texts(value) for name, value in keys.items() if value is not None}
    inner = {name: stated.pop(name) for name in _IN_PRIVACY if name in stated}
    if isinstance(inner.get("unit"), str):
        inner["unit"] = {"column": inner["unit"]}
    return _merged(stated, {"privacy": inner}) if inner else stated


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _merged(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged
