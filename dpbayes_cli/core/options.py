"""The options of a release request: each option is defined once, with its type, its limits and its section of the spec.

A mechanism declares a class with the options that it reads, and a model a class with the options that its inference
reads. Spec sections, flags, help, templates and schema are generated from these classes.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec import Meta

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.privacy.guarantee import check_delta, check_epsilon, check_mu, check_order, check_rho

PRIVACY, SAMPLING, INFERENCE = "privacy", "sampling", "inference"
Check = Callable[[Decimal], None]


def option(section: str, description: str, check: Check | None = None) -> Meta:
    """Return the metadata of an option: its section of the spec, its help text, and a check of decimals."""
    return Meta(description=description, extra={"section": section, "check": check})


@functools.cache
def fields_of(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a class of keys; they are kept, since msgspec evaluates all annotations at each call."""
    return msgspec.structs.fields(kind)


def notes_of(annotation: Any) -> Mapping[str, Any]:
    """Return the section and the check of an option."""
    notes = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next(note.extra for note in notes if getattr(note, "extra", None))


def unwrap(annotation: Any) -> tuple[Any, str]:
    """Return the type of an option without annotations and None, and its help text."""
    description = ""
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *notes = get_args(annotation)
            description = next((n.description for n in notes if getattr(n, "description", None)), description)
        elif get_origin(annotation) in {Union, types.UnionType}:
            kinds = [each for each in get_args(annotation) if each is not types.NoneType]
            if len(kinds) != 1:
                return None, description
            annotation = kinds[0]
        else:
            return cast(Any, annotation), description


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options that a mechanism reads; a subclass has one field for each option."""

    def value(self, name: str) -> Any:
        """Return the value of an option, None if the mechanism does not read it."""
        return getattr(self, name, None)


Epsilon = Annotated[Decimal | None, option(PRIVACY, "the epsilon to spend, a decimal", check_epsilon)]
Delta = Annotated[Decimal | None, option(PRIVACY, "the delta to spend with epsilon", check_delta)]
StatedDelta = Annotated[
    Decimal | None,
    option(PRIVACY, "the delta at which to state the guarantee, if the account has no delta", check_delta),
]
Rho = Annotated[Decimal | None, option(PRIVACY, "the rho of zCDP to spend, instead of epsilon", check_rho)]
Mu = Annotated[Decimal | None, option(PRIVACY, "the mu of Gaussian DP to spend, instead of epsilon", check_mu)]
Order = Annotated[
    Decimal | None, option(PRIVACY, "the order of the Renyi divergence that epsilon bounds [2]", check_order)
]

_Number = Annotated[int, Meta(ge=1, le=10_000)]
NumberOfDraws = Annotated[_Number, option(SAMPLING, "posterior draws to release; each is paid for")]
NumberOfEstimates = Annotated[_Number, option(SAMPLING, "estimates to release; each is paid for")]
NumberOfLastDraws = Annotated[
    _Number, option(SAMPLING, "how many of the last sweeps to release; every sweep is paid for")
]
PowerTarget = Literal["likelihood", "joint"]
PowerAppliesTo = Annotated[
    PowerTarget, option(SAMPLING, "which density is raised to the likelihood power: likelihood or joint")
]
Support = Annotated[
    tuple[float, float] | None, option(SAMPLING, "the public range of the parameter [the model's default, if any]")
]
SelectionKind = Literal["exponential", "permute-and-flip"]
Selection = Annotated[
    SelectionKind, option(SAMPLING, "exponential (composes better) or permute-and-flip (for pure epsilon only)")
]
Sweeps = Annotated[
    Annotated[int, Meta(ge=1, le=100_000)] | None,
    option(SAMPLING, "number of sweeps of the chain; each is paid for [200]"),
]
LogWeightEpsilon = Annotated[
    Decimal | None,
    option(SAMPLING, "part of epsilon to spend on the noisy log weight of an annealed chain [none]", check_epsilon),
]

Calibration = Annotated[
    Literal["gdp", "minami", "geumlek"],
    option(SAMPLING, "the rule that sets likelihood power and prior precision: gdp, minami or geumlek"),
]
LikelihoodPower = Annotated[
    Annotated[float, Meta(gt=0.0, le=1.0)] | None,
    option(
        SAMPLING,
        "a fixed likelihood power; the prior precision is then raised as far as the privacy cost requires",
    ),
]
ChainSampler = Annotated[Literal["langevin"], option(SAMPLING, "the Markov chain to run: langevin")]
StepSize = Annotated[
    Annotated[float, Meta(gt=0.0, le=1e9)] | None,
    option(SAMPLING, "the step size of the chain, below 2 / M for a potential of smoothness M [1 / M]"),
]
NumberOfSteps = Annotated[
    Annotated[int, Meta(ge=1, le=10_000_000)] | None,
    option(SAMPLING, "the number of steps of the chain [enough to converge, up to a limit on the work]"),
]
MaxRecords = Annotated[
    Annotated[int, Meta(ge=1, le=10**10)] | None,
    option(SAMPLING, "the public limit on the number of records that are read, for add-remove neighbors"),
]
CertificateKind = Annotated[
    Literal["total-variation"] | None,
    option(SAMPLING, "total-variation: take step size and number of steps from Proposition 13 of Minami et al."),
]
Gamma = Annotated[
    Annotated[float, Meta(gt=0.0, lt=0.5)], option(SAMPLING, "the total-variation distance that the certificate allows")
]


class EpsilonOptions(Options, frozen=True, kw_only=True):
    """The option epsilon, which every mechanism with pure epsilon-DP reads."""

    epsilon: Epsilon = None

    def stated_epsilon(self) -> Decimal:
        """Return the epsilon.

        Raises:
            SpecError: no epsilon was stated.
        """
        if self.epsilon is None:
            raise SpecError("missing", where="privacy.epsilon", hint="state it in the spec or with --eps 1")
        return self.epsilon
