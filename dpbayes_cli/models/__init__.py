"""The models, one per file. Users of the library choose one by its class name, as in ``BetaBernoulli(alpha=1)``."""

from typing import Any


def __getattr__(name: str) -> Any:
    from dpbayes_cli.core.choice import model_maker

    return model_maker(name)


def __dir__() -> list[str]:
    from dpbayes_cli.core.choice import choice_names
    from dpbayes_cli.core.registry import model_names

    return choice_names(model_names())
