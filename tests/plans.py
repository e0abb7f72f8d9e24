"""Plans of mechanisms that are asked with options by their names, whatever class of options a model's are."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.plan import Plan


def plan_of(
    mechanism: Mechanism,
    model: Model,
    policy: RecordPolicy,
    epsilon: Decimal | None = None,
    *,
    n_records: int | None = None,
    **options: Any,
) -> Plan:
    """The plan; an option that the mechanism does not read is a TypeError."""
    read = mechanism.options_for(type(model))
    return mechanism.plan(model, policy, read(epsilon=epsilon, **options), n_records)


def example_of(mechanism: type[Mechanism], model: type[Model]) -> dict[str, dict[str, Any]]:
    """What the mechanism's example states, by section, without what is not read of the model."""
    read = mechanism.options_for(model).__struct_fields__
    return {
        section: {name: value for name, value in stated.items() if name in read}
        for section, stated in mechanism.example.items()
    }


def plan_arguments(policy: RecordPolicy, epsilon: Decimal | None = None, **more: Any) -> dict[str, Any]:
    """What ``plan_of`` takes beside mechanism and model."""
    return {"policy": policy, "epsilon": epsilon, **more}
