"""What a mechanism is asked, in numbers: public inputs only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy, has_stand_in
from dpbayes_cli.privacy.neighbors import Neighbors

Temper = Literal["likelihood", "joint"]
Selection = Literal["exponential", "permute-and-flip"]
Calibration = Literal["gdp", "minami", "geumlek"]
Kernel = Literal["gibbs", "barker", "annealed", "metropolis"]


@dataclass(frozen=True)
class Request:
    """What a mechanism needs to know to price a release; public inputs only.

    Attributes:
        policy: neighbours and the treatment of invalid records.
        epsilon, delta, rho: what may be spent, exact; None where it was not stated.
        order: the order (lambda) at which epsilon is meant, for Renyi mechanisms.
        n_records: the public number of records, where it is known beforehand.
        draws: how many posterior draws.
        temper: what a temperature acts on.
        support: the public range of the parameter, or None for the model's own.
        selection: how a point of a public cover is chosen by its score.
        mu: the mu of Gaussian differential privacy that may be spent, or None.
        calibration: with convex losses, the rule that finds temperature and prior precision.
        temperature: with convex losses, a stated temperature, or None: the largest that fits.
        step, steps: of a Langevin chain, or None: the defaults.
        n_max: the public limit of the number of records that are read, where that number is private.
        gamma: the total variation for which a certificate is wanted, or None.
        kernel: with gibbs, the updates of the chain.
        sweeps: of a private Gibbs chain, or None: the default.
        log_weight_epsilon: what of epsilon the log importance weight of an annealed chain may cost; None: none.
    """

    policy: RecordPolicy
    epsilon: Decimal | None = None
    delta: Decimal | None = None
    rho: Decimal | None = None
    order: Decimal = Decimal(2)
    n_records: int | None = None
    draws: int = 1
    temper: Temper = "likelihood"
    support: tuple[float, float] | None = None
    selection: Selection = "exponential"
    mu: Decimal | None = None
    calibration: Calibration = "gdp"
    temperature: float | None = None
    step: float | None = None
    steps: int | None = None
    n_max: int | None = None
    gamma: float | None = None
    kernel: Kernel = "gibbs"
    sweeps: int | None = None
    log_weight_epsilon: Decimal | None = None

    def stated_epsilon(self) -> Decimal:
        """Return the epsilon.

        Raises:
            SpecError: none was stated.
        """
        if self.epsilon is None:
            raise SpecError("missing", where="privacy.epsilon", hint="state it in the spec or with --eps 1")
        return self.epsilon

    def complete_records(self, columns: Sequence[AnyColumn]) -> int:
        """Return the public number of complete records of a model's columns.

        Raises:
            SpecError: records may be invalid, or their number is private or not known.
        """
        if self.policy.neighbors is not Neighbors.REPLACE_ONE:
            raise SpecError("posterior draws need a public number of records: replace-one neighbours", where="privacy")
        if self.policy.contributions > 1:
            raise SpecError(
                "posterior draws need a public number of records, and that of units which may have several is private",
                where="privacy.unit.max_contributions",
                hint="max_contributions: 1, or a mechanism that adds noise: laplace",
            )
        if not all(has_stand_in(self.policy, column) for column in columns):
            raise SpecError(
                "posterior draws need complete records, for the number of dropped ones is private",
                where="on_invalid",
                hint="state a public stand-in for invalid values: --on-invalid impute:VALUE, or impute by variable",
            )
        if any(isinstance(column, NumericColumn) and column.outside == "drop" for column in columns):
            raise SpecError(
                "posterior draws need complete records, for the number of those within bounds is private",
                where="domain.out_of_bounds",
                hint="out_of_bounds: clamp",
            )
        if self.n_records is None:
            raise SpecError("the number of records must be known beforehand", where="records", hint="--records N")
        if self.n_records < 1:
            raise SpecError("there is no record to protect", where="records")
        return self.n_records
