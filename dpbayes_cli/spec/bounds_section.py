"""The bounds section of a spec, which requests bounds that are found privately instead of stated in the domain."""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.core.columns import Outside, RecordPolicy
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.options import fields_of
from dpbayes_cli.core.private_choice import Chosen
from dpbayes_cli.core.private_quantile import BoundsGrid, PrivateBounds
from dpbayes_cli.core.section import Section, require_type
from dpbayes_cli.privacy.guarantee import check_epsilon
from dpbayes_cli.spec.convert_section import Exact, convert_section, exact_number

_PLACE = "bounds.private"
_LARGEST = 1e12
_NARROWEST = 1e-6
_LEAST_RANGE = 1e-90
"""A range must be wider than this, and wider than ``_NARROWEST`` times its largest number, so that even a single cell
can serve as bounds."""
_LOWER, _UPPER = "0.01", "0.99"
_Number = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]


class PrivateBoundsSection(Section, frozen=True, kw_only=True):
    """How the bounds are found privately, at their own privacy cost."""

    epsilon: Annotated[Exact, Meta(description="privacy cost of the bounds, on top of that of the statistics")]
    high: Annotated[
        _Number, Meta(description="upper end of the range searched for bounds, chosen without looking at the data")
    ]
    low: Annotated[
        _Number | None,
        Meta(description="lower end of the range searched for bounds; 0 for models whose numbers begin at 0"),
    ] = None
    upper_quantile: Annotated[Exact, Meta(description="the share of records at or below the upper bound")] = _UPPER
    lower_quantile: Annotated[
        Exact | None,
        Meta(description="the share of records at or below the lower bound; none if numbers begin at 0 [0.01]"),
    ] = None
    cells: Annotated[
        int, Meta(ge=2, le=1 << 16, description="number of cells between low and high; bounds are edges of cells")
    ] = 1024

    def __post_init__(self) -> None:
        for name in ("epsilon", "lower_quantile", "upper_quantile"):
            exact = exact_number(self, name)
            if exact is None:
                continue
            if name == "epsilon":
                _check_epsilon(exact)
            elif not (Decimal("1e-6") <= exact <= 1 - Decimal("1e-6") and exact == round(exact, 9)):
                raise ValueError(f"{name} is {exact:f}; allowed: 0.000001 to 0.999999, at most nine decimals")
        if Decimal(self.lower_quantile or _LOWER) >= Decimal(self.upper_quantile) and self.lower_quantile is not None:
            raise ValueError("lower_quantile must be below upper_quantile")


def _check_epsilon(epsilon: Decimal) -> None:
    try:
        check_epsilon(epsilon)
    except SpecError:
        raise SpecError(
            f"epsilon is {epsilon:g}; allowed: 1e-12 to 1000", where=f"{_PLACE}.epsilon", hint="--bounds-epsilon 0.1"
        ) from None


class BoundsSection(Section, frozen=True, kw_only=True):
    """Where the bounds come from, if the domain does not state them."""

    private: Annotated[PrivateBoundsSection, Meta(description="the bounds are quantiles of the data, found privately")]

    def law(self, model: type[Model], policy: RecordPolicy, domain: Section) -> PrivateBounds:
        """Return the law by which the bounds are drawn.

        Raises:
            SpecError: the range, the quantiles or the grid do not fit the model.
        """
        stated = self.private
        both = "lower" in model.bound_keys
        low = stated.low if both else (stated.low or 0.0)
        if low is None:
            raise SpecError("missing", where=f"{_PLACE}.low", hint="state it in the spec or with --bounds-low -10")
        if not both and low != 0:
            raise SpecError(
                f"low is {low:g}; the numbers of {model.name} begin at 0", where=f"{_PLACE}.low", hint="leave it out"
            )
        if not both and stated.lower_quantile is not None:
            raise SpecError(
                f"the lower bound of {model.name} is always 0, so no lower quantile is needed",
                where=f"{_PLACE}.lower_quantile",
                hint="leave it out",
            )
        if not low < stated.high:
            raise SpecError(
                f"low is {low:g} and high is {stated.high:g}", where=_PLACE, hint="state a range with low < high"
            )
        if stated.high - low < max(_NARROWEST * max(abs(low), abs(stated.high)), _LEAST_RANGE):
            raise SpecError(
                "the range from low to high is too narrow to choose bounds in", where=_PLACE, hint="state a wider range"
            )
        if model.whole_numbers and stated.high != int(stated.high):
            raise SpecError(
                f"high is {stated.high:g}; the numbers of {model.name} are whole, and so are their bounds",
                where=f"{_PLACE}.high",
                hint=f"state a whole number: {int(stated.high) + 1}",
            )
        grid = BoundsGrid(low, stated.high, stated.cells, model.whole_numbers)
        lower, upper = Fraction(stated.lower_quantile or _LOWER), Fraction(stated.upper_quantile)
        if both and lower >= upper:
            raise SpecError(
                f"must be above the lower quantile, {_LOWER}",
                where=f"{_PLACE}.upper_quantile",
                hint="state a larger one",
            )
        outside: Outside = "drop" if getattr(domain, "out_of_bounds", "clamp") == "drop" else "clamp"
        epsilon = parse_decimal(stated.epsilon)
        return PrivateBounds(
            grid, lower if both else None, upper, epsilon, policy.neighbors, outside, policy.contributions
        )


def domain_between(model: type[Model], law: PrivateBounds, domain: Section, chosen: Chosen | None) -> Section:
    """Return the domain of a model with chosen bounds or, if they are None, with the whole public range.

    Raises:
        SpecError: the law cannot choose these bounds, or the model does not accept them.
    """
    try:
        lower, upper = (law.grid.low, law.grid.high) if chosen is None else (require_type(x, float) for x in chosen)
        if law.grid.index(lower) >= law.grid.index(upper) or (law.lower is None and lower != law.grid.low):
            raise ValueError("expected two edges of the grid that the stated law can choose")
    except (ValueError, OverflowError, TypeError) as error:
        raise SpecError(str(error), where="bounds") from None
    ends: Mapping[str, Any] = {"lower": lower, "upper": int(upper) if model.whole_numbers else upper}
    stated = {**msgspec.structs.asdict(domain), **{key: ends[key] for key in model.bound_keys}}
    try:
        return convert_section(stated, model.domain_type, "domain")
    except SpecError as error:
        raise SpecError(
            f"the model does not accept this range of bounds: {error.message}",
            where=_PLACE,
            hint="state another --bounds-high",
        ) from None


@lru_cache(maxsize=64)
def unbounded_domain(model: type[Model]) -> type[Section]:
    """Return the type of a model's domain without its bounds."""
    fields: list[Any] = []
    for item in fields_of(model.domain_type):
        if item.name in model.bound_keys:
            continue
        default = () if item.required else (item.default,)
        fields.append((item.name, item.type, *default))
    name = f"{model.__name__}DomainWithoutBounds"  # not the name of the domain type, which models share
    return cast(
        type[Section],
        msgspec.defstruct(
            name, fields, bases=(Section,), frozen=True, forbid_unknown_fields=True, kw_only=True, module=__name__
        ),
    )


def check_place_of_bounds(model: type[Model], document: Mapping[str, Any]) -> None:
    """Raise ``SpecError`` if the domain of a request for private bounds states bounds, or the model has none."""
    if not model.bound_keys:
        raise SpecError(
            f"the bounds of {model.name} cannot be found privately",
            where="bounds",
            hint="leave it out, and state the bounds in the domain",
        )
    domain = document.get("domain")
    for key in model.bound_keys:
        if isinstance(domain, Mapping) and domain.get(key) is not None:
            raise SpecError(
                "this bound is stated, although the bounds are to be found privately",
                where=f"domain.{key}",
                hint=f"leave out either domain.{key} (--{key}) or bounds (all --bounds-... flags)",
            )


def no_bounds(kind: type[Model]) -> Any:
    """Return the type of the key ``bounds`` in a spec whose domain states the bounds; it allows only None."""
    if not kind.bound_keys:
        return None
    stated = " and ".join(f"domain.{key}" for key in kind.bound_keys)
    low = "low: 0, " if "lower" in kind.bound_keys else ""
    return Annotated[
        None, Meta(description=f"private bounds, in place of {stated}: {{private: {{epsilon: 0.1, {low}high: 100}}}}")
    ]
