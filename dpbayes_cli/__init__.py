"""dpbayes: Bayesian posteriors released under differential privacy, with a durable budget ledger."""

from typing import Any

__version__ = "0.4.0"
__all__ = [
    "Ledger",
    "Schedule",
    "analyze",
    "combine",
    "compose",
    "errors",
    "evaluate",
    "infer",
    "infer_table",
    "load_bundle",
    "mechanisms",
    "models",
    "plan",
    "predict",
    "release",
    "report",
    "synthesize",
    "verify",
]

_MODULES = {"errors": "base.errors", "mechanisms": "mechanisms", "models": "models"}
_IN_MODULES = {
    "Ledger": ("accounts", "Accounts"),
    "Schedule": ("schedules", "ScheduledReleases"),
    "analyze": ("analyses", "analyze"),
    "combine": ("combined", "combine"),
    "compose": ("composed", "compose"),
    "infer_table": ("noisy_tables", "infer_table"),
    "plan": ("request", "plan"),
    "synthesize": ("analyses", "synthesize"),
}


def __getattr__(name: str) -> Any:
    """Import an exported name at its first use, so that the command line starts without it."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"dpbayes_cli.{_MODULES[name]}")
    if name not in __all__:
        raise AttributeError(f"module 'dpbayes_cli' has no attribute {name!r}")
    module, attribute = _IN_MODULES.get(name, ("released", name))
    return getattr(import_module(f"dpbayes_cli.api.{module}"), attribute)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
