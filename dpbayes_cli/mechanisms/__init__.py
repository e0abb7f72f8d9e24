"""The mechanisms, one per file. Users of the library choose one by its class name, as in ``Laplace(epsilon=1)``."""

from typing import Any


def __getattr__(name: str) -> Any:
    from dpbayes_cli.core.choice import mechanism_maker

    return mechanism_maker(name)


def __dir__() -> list[str]:
    from dpbayes_cli.core.choice import choice_names
    from dpbayes_cli.core.registry import mechanism_names

    return choice_names(mechanism_names())
