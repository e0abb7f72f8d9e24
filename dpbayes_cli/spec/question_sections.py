"""The sections of a spec that have a price: what is promised, and how draws are made."""

from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta

from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.core.contracts import Section
from dpbayes_cli.core.request import Calibration, Kernel, Selection
from dpbayes_cli.privacy.guarantee import check_delta, check_epsilon, check_order, check_rho
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.sections import Exact, exactly


class UnitSection(Section, frozen=True, kw_only=True):
    """Who is protected: the unit that may have several records."""

    column: Annotated[str, Meta(min_length=1, description="the column that says whose a record is")]
    max_contributions: Annotated[
        int, Meta(ge=1, le=100_000, description="records of a unit that count; others are left out, by a secret lot")
    ] = 1


class PrivacySection(Section, frozen=True, kw_only=True):
    """What is promised."""

    epsilon: Annotated[Exact | None, Meta(description="the privacy parameter to spend, exact")] = None
    delta: Annotated[Exact | None, Meta(description="with gaussian: the delta beside epsilon")] = None
    rho: Annotated[Exact | None, Meta(description="with gaussian: the rho of zCDP to spend")] = None
    mu: Annotated[Exact | None, Meta(description="with gibbs-posterior: the mu of Gaussian DP to spend")] = None
    order: Annotated[
        Exact | None, Meta(description="with the rdp mechanisms: the order at which epsilon is meant [2]")
    ] = None
    neighbors: Annotated[
        Neighbors,
        Meta(description="replace-one (the number of records is public) or add-remove (it is private)"),
    ] = Neighbors.REPLACE_ONE
    unit: Annotated[UnitSection | None, Meta(description="whose records neighbours differ in [one record]")] = None

    def __post_init__(self) -> None:
        checks = {
            "epsilon": check_epsilon,
            "delta": check_delta,
            "rho": check_rho,
            "mu": check_rho,
            "order": check_order,
        }
        for name, check in checks.items():
            exact = exactly(self, name)
            if exact is not None:
                check(exact)

    def exact(self, name: str) -> Decimal | None:
        """Return a stated number exactly, None where it was not stated."""
        text = getattr(self, name)
        return None if text is None else parse_decimal(text)


class SamplingSection(Section, frozen=True, kw_only=True):
    """How a mechanism that releases posterior draws or estimates draws them."""

    draws: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="posterior draws, or estimates, to release; each is paid for (with gibbs every sweep is)",
        ),
    ] = 1
    temper: Annotated[Literal["likelihood", "joint"], Meta(description="with ops: what the temperature acts on")] = (
        "likelihood"
    )
    support: Annotated[
        tuple[float, float] | None, Meta(description="with ops and map: the public range of the parameter, [low, high]")
    ] = None
    selection: Annotated[
        Selection, Meta(description="with map: exponential (composes better) or permute-and-flip (pure epsilon only)")
    ] = "exponential"
    calibration: Annotated[
        Calibration, Meta(description="with gibbs-posterior: the rule that finds temperature and prior precision")
    ] = "gdp"
    temperature: Annotated[
        Annotated[float, Meta(gt=0.0, le=1.0)] | None,
        Meta(description="with gibbs-posterior: a stated temperature rho; the prior's precision is then raised"),
    ] = None
    sampler: Annotated[Literal["langevin"], Meta(description="with gibbs-posterior: the chain that is accounted")] = (
        "langevin"
    )
    step: Annotated[
        Annotated[float, Meta(gt=0.0, le=1e9)] | None,
        Meta(description="with gibbs-posterior: the step of the chain, below 2 / M; default: 1 / M"),
    ] = None
    steps: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None,
        Meta(description="with gibbs-posterior: the horizon; default: by the contraction rate, within bounded work"),
    ] = None
    n_max: Annotated[
        Annotated[int, Meta(ge=1, le=10**10)] | None,
        Meta(description="with gibbs-posterior under add-remove: the public limit of the records that are read"),
    ] = None
    kernel: Annotated[
        Kernel,
        Meta(
            description="with gibbs: the updates: gibbs, barker (a walk on a grid of one parameter), annealed (rising "
            "powers of the likelihood); metropolis is refused, for it has no pure epsilon"
        ),
    ] = "gibbs"
    sweeps: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)] | None,
        Meta(description="with gibbs: sweeps, all of them paid for [200; of models drawn exactly: one a draw]"),
    ] = None
    log_weight_epsilon: Annotated[
        Exact | None,
        Meta(description="with gibbs, annealed: what of epsilon a noisy log importance weight may cost [none]"),
    ] = None
    certificate: Annotated[
        Literal["total-variation"] | None,
        Meta(description="with gibbs-posterior: state step and horizon of Minami et al.'s Proposition 13"),
    ] = None
    gamma: Annotated[
        Annotated[float, Meta(gt=0.0, lt=0.5)], Meta(description="the total variation of the certificate")
    ] = 0.01

    def __post_init__(self) -> None:
        exact = exactly(self, "log_weight_epsilon")
        if exact is not None:
            check_epsilon(exact)

    @property
    def exact_log_weight_epsilon(self) -> Decimal | None:
        """What of epsilon the log weight may cost, exactly, None where it was not stated."""
        return None if self.log_weight_epsilon is None else parse_decimal(self.log_weight_epsilon)
