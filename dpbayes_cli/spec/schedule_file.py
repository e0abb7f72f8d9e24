"""The file of a schedule: releases that are priced together, each with a name, a request, and how often or when."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import decimal_text, parse_decimal
from dpbayes_cli.core.section import Section
from dpbayes_cli.ledger.schedule_budget import labels_of
from dpbayes_cli.privacy.guarantee import check_delta, check_epsilon
from dpbayes_cli.spec.account_name import check_name
from dpbayes_cli.spec.convert_section import Exact, convert_section, exact_number
from dpbayes_cli.spec.groups_section import read_release_file
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec
from dpbayes_cli.spec.yaml_reader import read_spec_file

_MOST_RELEASES = 20_000


class EntrySection(Section, frozen=True, kw_only=True):
    """One entry of a schedule."""

    name: Annotated[str, Meta(description="the name of the releases; their labels add a number or a date")]
    times: Annotated[Annotated[int, Meta(ge=1, le=_MOST_RELEASES)] | None, Meta(description="how often")] = None
    dates: Annotated[Annotated[tuple[str, ...], Meta(min_length=1)] | None, Meta(description="when")] = None
    spec: Annotated[str | dict[str, Any], Meta(description="a spec file, relative to the schedule, or a spec")]
    data: Annotated[str | None, Meta(description="the data file, relative to the schedule [as the spec says]")] = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if (self.times is None) == (self.dates is None):
            raise ValueError(f"the entry {self.name!r} must state times: N or dates: [...], and not both")
        for each in self.dates or ():
            if len(each) != len("2026-01-31") or not _is_date(each):
                raise ValueError(f"{each!r} is not a date such as 2026-01-31")


class ScheduleSection(Section, frozen=True, kw_only=True):
    """A schedule: an account of its own, its total, and its releases."""

    account: Annotated[str, Meta(description="the account of the schedule")]
    epsilon: Annotated[Exact, Meta(description="the total epsilon of all releases")]
    delta: Annotated[Exact, Meta(description="the delta at which the total holds")]
    releases: Annotated[tuple[EntrySection, ...], Meta(min_length=1, description="the releases")]

    def __post_init__(self) -> None:
        check_name(self.account)
        for name, check in (("epsilon", check_epsilon), ("delta", check_delta)):
            if (value := exact_number(self, name)) is not None:
                check(value)


@dataclass(frozen=True)
class ScheduleEntry:
    """One entry of a schedule.

    Attributes:
        times: the number of releases; None if ``dates`` are stated.
        dates: their dates, in order; None if ``times`` is stated.
        spec: the request, whose account is that of the schedule.
        data: the paths or the address of the data; empty if the file names no data.
        dataset: the account that the spec names, which does not pay; None if it names none.
    """

    name: str
    times: int | None
    dates: list[str] | None
    spec: ReleaseSpec
    data: tuple[str, ...]
    dataset: str | None

    @cached_property
    def labels(self) -> list[str]:
        """The labels of the releases, in order."""
        return list(labels_of(self.name, self.times, self.dates))


@dataclass(frozen=True)
class Schedule:
    """A schedule as its file states it."""

    account: str
    epsilon: Decimal
    delta: Decimal
    entries: tuple[ScheduleEntry, ...]

    @cached_property
    def text(self) -> str:
        """The canonical text: everything in the file that determines the releases, without the places of data."""
        listed = [
            {
                "name": entry.name,
                **({"times": entry.times} if entry.dates is None else {"dates": entry.dates}),
                "request": entry.spec.request,
            }
            for entry in self.entries
        ]
        document = {
            "account": self.account,
            "epsilon": decimal_text(self.epsilon),
            "delta": decimal_text(self.delta),
            "releases": listed,
        }
        return json.dumps(document, indent=1, sort_keys=True, allow_nan=False)


def read_schedule(path: Path) -> Schedule:
    """Read the file of a schedule and the specs that it names.

    Raises:
        SpecError: a file cannot be read, or is not a schedule or a spec.
    """
    section = convert_section(read_spec_file(path), ScheduleSection)
    entries = tuple(_entry(each, section.account, path.parent) for each in section.releases)
    labels = Counter(label for entry in entries for label in entry.labels)
    if twice := [label for label, count in labels.items() if count > 1]:
        raise SpecError(f"the schedule lists the release {twice[0]!r} twice", where="releases")
    if len(labels) > _MOST_RELEASES:
        raise SpecError(f"more than {_MOST_RELEASES:,} releases", where="releases")
    protected = {(each.spec.privacy.neighbors, str(each.spec.privacy.unit)) for each in entries}
    if len(protected) > 1:
        raise SpecError(
            "the releases of a schedule need the same neighbors and the same privacy unit", where="releases"
        )
    return Schedule(section.account, parse_decimal(section.epsilon), parse_decimal(section.delta), entries)


def _entry(section: EntrySection, account: str, place: Path) -> ScheduleEntry:
    stated, base = section.spec, place
    if isinstance(stated, str):
        file = place / stated
        stated, base = read_release_file(file), file.parent
    try:
        spec = build_spec(stated, needs_cost=True)
    except SpecError as error:
        raise SpecError(
            f"the spec of the release {section.name!r} is wrong: {'; '.join(each.message for each in error.mistakes)}",
            where="releases",
            hint=error.hint,
        ) from None
    dates = None if section.dates is None else sorted(section.dates)
    named = (spec.data,) if isinstance(spec.data, str) else spec.data or ()
    data = named if section.data is None else (section.data,)
    base = base if section.data is None else place
    places = tuple(_place(base, each) for each in data)
    paid = msgspec.structs.replace(spec, dataset=account)
    return ScheduleEntry(section.name, section.times, dates, paid, places, spec.dataset)


def _place(base: Path, name: str) -> str:
    from dpbayes_cli.sources.location import is_remote

    return name if name == "-" or is_remote(name) else str(base / name)


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
