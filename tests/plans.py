"""Models from their domains, and plans from options by name, whatever the class of options."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.registry import model_type


def model_of(name: str, domain: Mapping[str, Any], prior: Mapping[str, Any] | None = None) -> Any:
    """Return the registered model on a domain as a spec states it."""
    kind = model_type(name)
    return kind.build(msgspec.convert(domain, kind.domain_type), msgspec.convert(prior or {}, kind.prior_type))


def plan_of(
    mechanism: Mechanism,
    model: Model,
    policy: RecordPolicy,
    epsilon: Decimal | None = None,
    *,
    n_records: int | None = None,
    **options: Any,
) -> Plan:
    """Return the plan; an option that the mechanism does not read is a TypeError."""
    options_type = mechanism.options_for(type(model))
    return mechanism.plan(model, policy, options_type(epsilon=epsilon, **options), n_records)


def example_of(mechanism: type[Mechanism], model: type[Model]) -> dict[str, dict[str, Any]]:
    """Return the options of the mechanism's example by section, without those that it does not read for the model."""
    read = mechanism.options_for(model).__struct_fields__
    return {
        section: {name: value for name, value in stated.items() if name in read}
        for section, stated in mechanism.example.items()
    }


def plan_arguments(policy: RecordPolicy, epsilon: Decimal | None = None, **more: Any) -> dict[str, Any]:
    """Return the arguments of ``plan_of`` beside mechanism and model."""
    return {"policy": policy, "epsilon": epsilon, **more}
